"""The tables of `dragoman plan`."""

from rich import box
from rich.table import Table


def text_table(first: str, *numbers: str) -> Table:
    """Return a table with one text column and several numeric columns."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True, header_style="bold")
    table.add_column(first)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def small_table(first: str, *numbers: str) -> Table:
    """Return a table with minimum column widths, so that the columns of several tables line up."""
    table = text_table(first, *numbers)
    for number, column in enumerate(table.columns):
        column.min_width = 12 if number else 42
    return table
