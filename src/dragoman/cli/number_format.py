"""Format numbers for tables and messages."""

from typing import Final

UNITS: Final = ("", "k", "M", "G", "T", "P", "E")


def millions(count: int | float) -> str:
    """Format a count in millions with two decimals: 63.05 M."""
    return f"{count / 1e6:,.2f} M"


def size(num_bytes: int) -> str:
    """Format a number of bytes with three digits and an SI prefix: 252 MB."""
    return short(num_bytes, "B")


def short(number: int | float, unit: str = "") -> str:
    """Format a number with three digits and an SI prefix, such as 9.53 T; below 1000, as an integer."""
    power = 0
    while number >= 999.5 and power < len(UNITS) - 1:
        number, power = number / 1000, power + 1
    digits = f"{number:#.3g}".rstrip(".") if power else f"{number:.0f}"
    return f"{digits} {UNITS[power]}{unit}".rstrip()


def scientific(number: float) -> str:
    """Format a number with two digits and a power of ten, as in the paper's Table 2: 3.3e18."""
    digits, power = f"{number:.1e}".split("e")
    return f"{digits}e{int(power)}"


def percent(share: float) -> str:
    """Format a fraction as a percentage: 30.0 %."""
    return f"{100 * share:.1f} %"
