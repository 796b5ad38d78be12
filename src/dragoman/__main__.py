"""`python -m dragoman` is the `dragoman` command."""


def main() -> None:
    """Run the command line. Ctrl-C is no accident, while the commands are still being imported either."""
    try:
        from dragoman.cli.main import main as command

        command()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
