from pathlib import Path

import pyarrow as pa

from dragoman.data.corpus import CorpusConfig
from dragoman.data.pair_cleaning import HeldOut, hold_out
from dragoman.text.cleaning import CleanConfig


def corpus(folder: Path, name: str, *pairs: tuple[str, str]) -> CorpusConfig:
    for side, suffix in enumerate(("en", "de")):
        (folder / f"{name}.{suffix}").write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    return CorpusConfig(name=name, source=str(folder / f"{name}.en"), target=str(folder / f"{name}.de"))


def held_out(folder: Path) -> HeldOut:
    dev = corpus(folder, "dev", ("Good day.", "Guten Tag."), ("Yes.", "Ja."), ("", "Leer."))
    test = corpus(folder, "test", ("Yes.", "Doch."), ("No\u200bo.", "Nein."))
    return hold_out([dev, test], CleanConfig())


def text(*lines: str) -> pa.LargeStringArray:
    return pa.array(lines, pa.large_string())


def test_pairs_and_sides_are_found_without_regard_to_case(tmp_path: Path) -> None:
    source = text("good day.", "Yes.", "Yes.", "Noo.", "Well.", "", "", "Other.")
    target = text("Guten tag.", "Doch.", "Jawohl.", "Nein.", "Ja.", "", "Leer.", "Anders.")
    leaks = held_out(tmp_path).find(source, target)
    assert leaks.pair.tolist() == [0, 3, -1, 4, -1, -1, -1, -1]
    assert leaks.source.tolist() == [0, 1, 1, 4, -1, -1, -1, -1]
    assert leaks.target.tolist() == [0, 3, -1, 4, 1, -1, 2, -1]


def test_a_leak_is_named_by_file_and_line(tmp_path: Path) -> None:
    leaks = held_out(tmp_path).find(text("Good day.", "Yes.", "Well."), text("Guten Tag.", "Doch.", "Nein."))
    assert [leaks.place(row) for row in range(3)] == [
        f"{tmp_path}/dev.en, line 1",
        f"{tmp_path}/test.en, line 1",
        f"{tmp_path}/test.en, line 2",
    ]


def test_nothing_held_out_finds_nothing() -> None:
    assert hold_out([], CleanConfig()).find(text("a"), text("b")).pair.tolist() == [-1]
