"""`python -m dragoman` is the `dragoman` command."""


def main() -> None:
    """Run the command line. Ctrl-C exits with 130, also while the commands are being imported."""
    try:
        from dragoman.cli.main import main as command

        command()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
