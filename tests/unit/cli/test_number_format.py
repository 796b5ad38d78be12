"""Numbers as they are printed."""

import pytest

from dragoman.cli.number_format import millions, percent, scientific, short, size


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1.00 k"),
        (9_600, "9.60 k"),
        (99_960, "100 k"),
        (999_499, "999 k"),
        (999_500, "1.00 M"),
        (9.5305728e12, "9.53 T"),
    ],
)
def test_a_short_number_has_three_digits_and_a_unit(number: float, text: str) -> None:
    assert short(number) == text


def test_sizes_are_bytes_in_decimal_units() -> None:
    assert [size(999), size(24_576), size(252_182_528), size(18_356_800_000)] == [
        "999 B",
        "24.6 kB",
        "252 MB",
        "18.4 GB",
    ]


def test_a_column_of_millions_keeps_its_unit() -> None:
    assert [millions(n) for n in (63_045_632, 12_288, 1_234_567_890)] == ["63.05 M", "0.01 M", "1,234.57 M"]


def test_large_counts_are_written_as_in_table_2() -> None:
    assert [scientific(n) for n in (3.2832e18, 2.29824e19, 9.99e17)] == ["3.3e18", "2.3e19", "1.0e18"]


def test_shares_are_percent_with_one_decimal() -> None:
    assert [percent(share) for share in (0.3006, 1.0, 0.0004)] == ["30.1 %", "100.0 %", "0.0 %"]
