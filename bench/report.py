"""Options and results, in the form that all scripts of this folder share."""

import argparse
import json


def option_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help is the script's docstring, with its line breaks."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def print_values(bench: str, values: dict[str, float], digits: int = 3) -> None:
    """Print the last line of every script: its name and its figures as JSON."""
    rounded = {name: round(value, digits) for name, value in values.items()}
    print(json.dumps({"bench": bench, "values": rounded}), flush=True)
