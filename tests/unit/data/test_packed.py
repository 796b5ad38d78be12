from pathlib import Path

import pytest

from dragoman.data.packed import unpacked_suffix

NAMES = {"a.tsv.gz": ".tsv", "a.zst": "", "a.b.tsv": ".tsv", "in.gz/a": "", ".gz": "", "a.gz.zst": ".gz"}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_loses_the_suffix_of_its_packing_only(name: str) -> None:
    assert unpacked_suffix(name) == unpacked_suffix(Path("folder.txt") / name) == NAMES[name]


def test_an_address_need_not_be_a_path() -> None:
    assert unpacked_suffix("s3://bucket.eu/train.jsonl.zst") == ".jsonl"
