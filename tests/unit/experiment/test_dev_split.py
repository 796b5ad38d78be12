"""Pairs put aside for validation: the same in every run, distinct, fit, and as many as requested."""

import json
import os
from pathlib import Path

import pytest

from dragoman.data.corpus import CorpusConfig
from dragoman.experiment import dev_split
from dragoman.experiment.dev_split import DevSplit, split_off

Pairs = list[tuple[str, str]]


def corpus(folder: Path, pairs: Pairs, name: str = "train") -> CorpusConfig:
    for side, texts in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        (folder / f"{name}.{side}").write_bytes("".join(f"{text}\n" for text in texts).encode())
    return CorpusConfig(name=name, source=str(folder / f"{name}.source"), target=str(folder / f"{name}.target"))


def numbered(num: int, first: int = 0) -> Pairs:
    return [(f"source {number}", f"target {number}") for number in range(first, first + num)]


def drawn(split: DevSplit) -> Pairs:
    split.write()
    dev = split.corpus
    assert dev.target is not None
    return list(zip(*(Path(file).read_text("utf-8").splitlines() for file in (dev.source, dev.target)), strict=True))


def test_as_many_distinct_pairs_are_drawn_as_requested(tmp_path: Path) -> None:
    pairs = numbered(500)
    found = drawn(split_off([corpus(tmp_path, pairs)], 37, 1, tmp_path))
    assert len(set(found)) == len(found) == 37
    assert set(found) <= set(pairs)
    places = [pairs.index(pair) for pair in found]
    assert min(places) < 100 < 400 < max(places)


def test_the_draw_depends_on_the_seed_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = corpus(tmp_path, numbered(500))
    first = drawn(split_off([train], 37, 1, tmp_path))
    assert drawn(split_off([train], 37, 2, tmp_path)) != first
    monkeypatch.setattr(dev_split, "_LINES", 60)  # pairs are read in several pieces
    assert drawn(split_off([train], 37, 1, tmp_path)) == first


def test_all_corpora_give_their_share(tmp_path: Path) -> None:
    corpora = [corpus(tmp_path, numbered(300), "one"), corpus(tmp_path, numbered(300, 1000), "other")]
    found = drawn(split_off(corpora, 100, 1, tmp_path))
    of_the_first = sum(int(source.split()[1]) < 1000 for source, _ in found)
    assert len(found) == 100
    assert 30 < of_the_first < 70


def test_a_source_that_comes_often_is_drawn_once(tmp_path: Path) -> None:
    pairs = [(f"{'Source' if number % 2 else 'source'} {number % 40}", f"target {number}") for number in range(800)]
    found = drawn(split_off([corpus(tmp_path, pairs)], 30, 1, tmp_path))
    assert len({source.lower() for source, _ in found}) == len(found) == 30


def test_what_is_unfit_is_never_drawn_however_much_there_is_of_it(tmp_path: Path) -> None:
    unfit: Pairs = [("", "target"), ("source", "  "), ("x" * 1001, "target"), ("source", "ü" * 501), ("\r", "target")]
    pairs = [pair for good in numbered(60) for pair in (*unfit, good)]
    found = drawn(split_off([corpus(tmp_path, pairs)], 20, 1, tmp_path))
    assert len(found) == 20
    assert set(found) <= set(numbered(60))


def test_bytes_that_are_no_text_are_not_drawn(tmp_path: Path) -> None:
    train = corpus(tmp_path, numbered(60))
    source = Path(train.source)
    good = [number for number in range(60) if number % 20]
    source.write_bytes(b"".join(b"source %d\n" % i if i in good else b"\xff %d\n" % i for i in range(60)))
    found = drawn(split_off([train], 30, 1, tmp_path))
    assert len({int(source.split()[1]) for source, _ in found} & set(good)) == 30


def test_a_line_break_inside_a_sentence_does_not_put_the_sides_out_of_step(tmp_path: Path) -> None:
    records = [{"source": f"one\nline {i}" if i % 2 else f"line {i}", "target": f"Zeile {i}\n"} for i in range(80)]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, records)), "utf-8")
    found = drawn(split_off([CorpusConfig(source=str(tmp_path / "train.jsonl"))], 25, 1, tmp_path))
    assert len(found) == 25
    assert all(source.split()[1] == target.split()[1] and int(source.split()[1]) % 2 == 0 for source, target in found)


def test_files_that_are_right_already_are_left_alone(tmp_path: Path) -> None:
    train = corpus(tmp_path, numbered(100))
    split = split_off([train], 10, 1, tmp_path)
    assert not split.is_written
    split.write()
    source = Path(split.corpus.source)
    os.utime(source, (1, 1))
    again, other = (split_off([train], 10, seed, tmp_path) for seed in (1, 2))
    assert (again.is_written, other.is_written) == (True, False)
    again.write()
    assert source.stat().st_mtime == 1
    other.write()
    assert source.stat().st_mtime != 1


def test_more_than_half_is_not_put_aside(tmp_path: Path) -> None:
    train = corpus(tmp_path, numbered(300))
    assert len(drawn(split_off([train], 150, 1, tmp_path))) == 150
    with pytest.raises(ValueError, match=r"300 pairs .* data\.split to 30"):
        split_off([train], 1000, 1, tmp_path)


def test_a_corpus_without_one_fit_pair_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"train\.source: no pair is suitable"):
        split_off([corpus(tmp_path, [("", "target")] * 5)], 2, 1, tmp_path)


def test_standard_input_is_not_read_to_be_lost(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"only once: set data\.dev"):
        split_off([CorpusConfig(source="-", format="tsv")], 2, 1, tmp_path)
