"""Numbers as people like to read them."""

from typing import Final

UNITS: Final = ("", "k", "M", "G", "T", "P", "E")


def millions(count: int | float) -> str:
    """The same unit all down a column: 63.05 M."""
    return f"{count / 1e6:,.2f} M"


def size(num_bytes: int) -> str:
    """Bytes in decimal units, three digits: 252 MB."""
    return short(num_bytes, "B")


def short(number: int | float, unit: str = "") -> str:
    """Three digits, in thousands of the unit as often as it takes: 9.53 T. Below a thousand, the whole number."""
    power = 0
    while number >= 999.5 and power < len(UNITS) - 1:
        number, power = number / 1000, power + 1
    digits = f"{number:#.3g}".rstrip(".") if power else f"{number:.0f}"
    return f"{digits} {UNITS[power]}{unit}".rstrip()


def scientific(number: float) -> str:
    """Two digits and a power of ten, as in Table 2: 3.3e18."""
    digits, power = f"{number:.1e}".split("e")
    return f"{digits}e{int(power)}"


def percent(share: float) -> str:
    """A share of a whole: 30.0 %."""
    return f"{100 * share:.1f} %"
