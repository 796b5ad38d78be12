import gzip
import hashlib
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from dragoman.data import misalignment
from dragoman.data.corpus import CorpusConfig
from dragoman.data.dates import dates
from dragoman.data.misalignment import Block, LineAlignment, NotJudged, check_corpus_alignment, check_line_alignment

NUM = 1_500
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def sentences(num: int = NUM, seed: int = 1) -> tuple[list[str], list[str]]:
    """Sentences of made-up words, frequent and rare; their translations have other words in another order."""
    draw = Random(seed)
    words = ["".join(draw.choices(LETTERS, k=draw.randint(3, 7))) for _ in range(400)]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    rows = [draw.choices(words, weights, k=draw.randint(4, 12)) for _ in range(num)]
    targets = [[word[::-1] + "en" for word in row if draw.random() < 0.9] for row in rows]
    return [" ".join(row) for row in rows], [" ".join(sorted(row)) for row in targets]


def check(source: list[str], target: list[str]) -> LineAlignment | NotJudged:
    return check_line_alignment(pa.array(source, pa.large_string()), pa.array(target, pa.large_string()))


def shuffled(lines: list[str], rows: list[int]) -> list[str]:
    moved, result = Random(2).sample(rows, len(rows)), list(lines)
    for row, other in zip(rows, moved, strict=True):
        result[row] = lines[other]
    return result


def test_aligned_pairs_fit() -> None:
    result = check(*sentences())
    assert isinstance(result, LineAlignment)
    assert (result.first, result.blocks) == (None, ())
    assert result.share < 0.01


@pytest.mark.parametrize(("inserted", "offset"), [(1, 1), (3, 3), (-2, -2)])
def test_a_shift_is_found_with_its_line_and_offset(inserted: int, offset: int) -> None:
    source, target = sentences()
    gap = ["eltit"] * inserted if inserted > 0 else []
    moved = [*target[:900], *gap, *target[900 + max(0, -inserted) :], *target[:9]][:NUM]
    result = check(source, moved)
    assert isinstance(result, LineAlignment)
    assert result.share == pytest.approx(0.4, abs=0.02)
    (block,) = result.blocks
    assert block.offset == offset
    assert block.start == result.first == pytest.approx(900, abs=4)
    assert block.end == pytest.approx(NUM, abs=4)


def test_a_shift_of_all_lines_is_found() -> None:
    source, target = sentences()
    result = check(source, ["eltit", *target[:-1]])
    assert isinstance(result, LineAlignment)
    assert result.blocks == (Block(0, NUM, 1),)
    assert result.share == pytest.approx(1.0)


def test_a_shuffled_block_is_found() -> None:
    source, target = sentences()
    result = check(source, shuffled(target, list(range(500, 700))))
    assert isinstance(result, LineAlignment)
    (block,) = result.blocks
    assert block.offset is None
    assert (block.start, block.end) == (pytest.approx(500, abs=5), pytest.approx(700, abs=5))
    assert result.share == pytest.approx(200 / NUM, abs=0.03)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7])
def test_scattered_lines_are_found_with_their_share(share: float) -> None:
    source, target = sentences()
    rows = sorted(Random(3).sample(range(100, NUM), round(share * NUM)))
    result = check(source, shuffled(target, rows))
    assert isinstance(result, LineAlignment)
    assert result.first is not None
    assert result.first >= 100
    assert result.share == pytest.approx(share, abs=0.03 + share / 10)


def test_all_lines_shuffled_are_found_though_there_is_nothing_to_learn() -> None:
    source, target = sentences()
    result = check(source, shuffled(target, list(range(NUM))))
    assert isinstance(result, LineAlignment)
    assert result.first is not None
    assert result.share > 0.8


def test_neighbours_that_are_alike_hide_no_shift() -> None:
    source, target = sentences()
    order = sorted(range(NUM), key=lambda row: source[row])
    source, target = [source[row] for row in order], [target[row] for row in order]
    assert getattr(check(source, target), "first", 0) is None
    result = check(source, [*target[:700], "eltit", *target[700:-1]])
    assert isinstance(result, LineAlignment)
    assert [block.offset for block in result.blocks] == [1]
    assert result.first == pytest.approx(700, abs=5)


def test_pairs_that_show_nothing_are_not_judged() -> None:
    source, target = sentences()
    codes = [" ".join(hashlib.sha1(f"{i}.{k}".encode()).hexdigest() for k in "abc") for i in range(NUM)]
    words = ["".join(Random(i).choices(LETTERS, k=6)) for i in range(2 * NUM)]
    cases = {
        "few": (source[:340], target[:340]),
        "repeated": (source, [("yes", "no")[len(line) % 2] for line in source]),
        "rare words": (source, codes),
        "no words": ([f"... {'.' * i}" for i in range(NUM)], [f"? {'!' * i}" for i in range(NUM)]),
        "single words": (words[:NUM], words[NUM:]),
    }
    reasons = {name: result.reason for name, pairs in cases.items() if isinstance(result := check(*pairs), NotJudged)}
    assert set(reasons) == set(cases)
    assert len({reasons["few"], reasons["repeated"], reasons["single words"]}) == 3


def test_lines_that_do_not_follow_each_other_have_no_offset() -> None:
    source, target = sentences()
    target[300:600] = target[450:600] + target[300:450]
    arrays = [pa.array(side, pa.large_string()) for side in (source, target)]
    lines = np.arange(NUM)
    for sampled, offsets in ((lines, {150, -150}), (lines + lines // 150 * 1_000, {None})):
        result = check_line_alignment(*arrays, sampled)
        assert isinstance(result, LineAlignment)
        assert {block.offset for block in result.blocks} == offsets
        assert result.first == sampled[300]


def test_dates_are_no_language_and_yet_aligned() -> None:
    source, target = map(list, zip(*dates(NUM, seed=1), strict=True))
    result = check(source, target)
    assert isinstance(result, LineAlignment)
    assert result.first is None
    result = check(source, target[:1000] + target[1001:] + target[:1])
    assert isinstance(result, LineAlignment)
    assert [block.offset for block in result.blocks] == [-1]


def write(folder: Path, source: list[str], target: list[str]) -> CorpusConfig:
    for name, lines in (("a.en", source), ("a.de", target)):
        (folder / name).write_bytes(b"".join(line.encode("latin-1") + b"\n" for line in lines))
    return CorpusConfig(source=str(folder / "a.en"), target=str(folder / "a.de"))


def test_empty_and_undecodable_lines_do_not_matter(tmp_path: Path) -> None:
    source, target = sentences()
    source[7:40], target[30:60], target[70] = [""] * 33, ["?"] * 30, "\xe4\xf6"
    result = check_corpus_alignment(write(tmp_path, source, target))
    assert result == (0.0, None, (), NUM, False)


def test_a_long_corpus_is_tested_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(misalignment, "_PARTS", 6)
    monkeypatch.setattr(misalignment, "_LINES_PER_PART", 200)
    source, target = sentences(4_000)
    corpus = write(tmp_path, source, [*target[:3_000], "eltit", *target[3_000:-1]])
    result = check_corpus_alignment(corpus)
    assert isinstance(result, LineAlignment)
    assert (result.num_lines, result.is_sample) == (4_000, True)
    assert [block.offset for block in result.blocks] == [1]
    assert result.first == pytest.approx(3_000, abs=800)
    assert result.share == pytest.approx(0.25, abs=0.1)


@pytest.mark.slow
def test_real_corpora_are_aligned(shared_data: Path) -> None:
    for name in ("multi30k/val", "flores-en-de/devtest", "newstest2013/newstest2013"):
        corpus = CorpusConfig(source=str(shared_data / f"{name}.en.gz"), target=str(shared_data / f"{name}.de.gz"))
        result = check_corpus_alignment(corpus)
        assert isinstance(result, LineAlignment)
        assert (result.first, result.blocks) == (None, ())


@pytest.mark.slow
def test_a_sorted_dictionary_that_is_shifted_is_found(shared_data: Path) -> None:
    with gzip.open(shared_data / "cmudict/cmudict.dict.gz", "rt", encoding="utf-8") as file:
        words, sounds = map(list, zip(*(line.split(" ", 1) for line in islice(file, 6_854, 7_854)), strict=True))
    result = check(words, [*sounds[3:], *sounds[:3]])
    assert isinstance(result, LineAlignment)
    assert [block.offset for block in result.blocks] == [-3]
    assert result.first == 0
