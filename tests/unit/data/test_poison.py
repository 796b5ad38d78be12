"""Ten thousand clean pairs and fifty of each kind of poison: each is found by name, and nothing clean is lost."""

import gzip
import random
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from functools import reduce
from itertools import islice, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import zstandard

from dragoman.data.corpus import CorpusConfig, read_chunks
from dragoman.data.pair_cleaning import CleanPairs, clean_pairs, profile_of
from dragoman.data.prepare_tasks import first_of_each, hash_pairs
from dragoman.text.cleaning import CleanConfig, Problem
from dragoman.text.cleaning_report import CleaningReport

Pair = tuple[bytes, bytes]
Planted = tuple[Pair, Pair | None]
"""A raw pair, and what should come of it: None where it should go."""

NUM_CLEAN = 10_000
NUM_PLANTED = 50
SETTINGS = CleanConfig()

WHO = {
    "The old man": "Der alte Mann",
    "My sister": "Meine Schwester",
    "A tall woman in a red coat": "Eine große Frau in einem roten Mantel",
    "Nobody here": "Niemand hier",
    "Dr. Özdemir": "Frau Dr. Özdemir",
    "The “boss”": "Der „Chef“",
    "Each of the 27 children": "Jedes der 27 Kinder",
    "I": "Ich",
}
DOES = {
    "reads the newspaper": "liest die Zeitung",
    "can't find the keys": "kann die Schlüssel nicht finden",
    "is waiting for bus no. 7": "wartet auf den Bus Nr. 7",
    "eats soup \u2013 very slowly": "isst Suppe \u2013 sehr langsam",
    "knows what e-mail is": "weiß, was E-Mail ist",
    "laughs": "lacht",
    "paid $3.50, i.e. too much,": "hat 3,50 $ bezahlt, also zu viel,",
    "wrote “R&D <draft>” [sic]": "schrieb „R&D <Entwurf>“ [sic]",
}
WHERE = {
    "in the park": "im Park",
    "at home": "zu Hause",
    "on the roof of the café": "auf dem Dach des Cafés",
    "in front of the big yellow house": "vor dem großen gelben Haus",
    "near Zürich": "bei Zürich",
    "abroad": "im Ausland",
}
WHEN = {
    "every day": "jeden Tag",
    "at half past five": "um halb sechs",
    "since 1998": "seit 1998",
    "after the rain": "nach dem Regen",
    "now": "jetzt",
    "on Mondays": "montags",
}
END = {".": ".", "!": "!", "?": "?", "…": "…", " 😀": " 😀", "; really.": "; wirklich."}


def made_up(n: int) -> list[Pair]:
    """Different sentences of 4 to 25 words, and what else is found in clean corpora."""
    pairs = [
        (f"{w} {d} {p} {t}{e}".encode(), f"{WHO[w]} {DOES[d]} {WHERE[p]} {WHEN[t]}{END[e]}".encode())
        for w, d, p, t, e in product(WHO, DOES, WHERE, WHEN, END)
    ]
    random.Random(1).shuffle(pairs)
    same = [(b"%d" % i, b"%d" % i) for i in range(200)] + [(b"Tom %c. Smith" % i,) * 2 for i in range(65, 91)]
    short = [
        (b"ID", b"Identifikationsnummer"),
        (b"OK", b"Einverstanden"),
        (b"No.", b"Nr."),
        (b"Hi!", b"Guten Tag!"),
    ]
    return same + short + pairs[: n - len(same) - len(short)]


def spare(n: int) -> list[Pair]:
    """Pairs to poison: none of them among the clean ones, and none like another."""
    return [
        (
            f"Sentence {i} talks, among others, about a green door.".encode(),
            f"Der Satz {i} handelt, unter anderem, schön von einer grünen Tür.".encode(),
        )
        for i in range(n)
    ]


def going(change: Callable[[int, bytes, bytes], Pair]) -> Callable[[int, Pair], Planted]:
    return lambda i, pair: (change(i, *pair), None)


def clean_line(change: Callable[[int, bytes], bytes]) -> Callable[[int, Pair], Planted]:
    """Poison on one side, by turns; clean_line, it is as it was."""
    return lambda i, pair: ((change(i, pair[0]), pair[1]) if i % 2 else (pair[0], change(i, pair[1])), pair)


def kept(change: Callable[[int, bytes], bytes]) -> Callable[[int, Pair], Planted]:
    return lambda i, pair: ((changed := (change(i, pair[0]), pair[1])), changed)


def inside(*poison: str) -> Callable[[int, bytes], bytes]:
    """Put one of these into a word."""
    return lambda i, text: text[: 2 + i % 3] + poison[i % len(poison)].encode() + text[2 + i % 3 :]


def between(*poison: str) -> Callable[[int, bytes], bytes]:
    """Put one of these between two words."""
    return lambda i, text: text.replace(b" ", poison[i % len(poison)].encode(), 1 + i % 3)


def tokenised(i: int, text: bytes) -> bytes:
    if i % 3 == 0:
        return text.replace(b"door", b"door &apos;s end")
    return text.replace(b", ", b" , ").replace(b".", b" .") if i % 3 == 1 else text.replace(b" ", b" @-@ ", 1)


BLANK = [b" ", b"   ", b"\t", "\u00a0".encode(), "\u3000".encode(), b" \t \r"]
SURROGATES = [b"\xed\xa0\x80", b"\xed\xbf\xbf", rb"\ud800", rb"\uDFFF"]
INVALID = [b"\xff", b"\xc3", b"\xe2\x82", b"\x80", b"\xf5\x80\x80\x80", b"\xc0\xaf"]

POISON: dict[Problem, Callable[[int, Pair], Planted]] = {
    Problem.EMPTY_SIDE: going(lambda i, s, t: (b"", t) if i % 2 else (s, b"")),
    Problem.BOTH_EMPTY: going(lambda i, s, t: (b"", b"")),
    Problem.WHITESPACE: going(lambda i, s, t: (BLANK[i % 6], t) if i % 2 else (s, BLANK[i // 2 % 6])),
    Problem.CRLF: clean_line(lambda i, text: text + b"\r"),
    Problem.BOM: clean_line(lambda i, text: b"\xef\xbb\xbf" + text),
    Problem.LINE_SEPARATOR: clean_line(between("\u2028", "\u2029", "\x85", "\x0b", "\x0c")),
    Problem.INVALID_UTF8: going(lambda i, s, t: (s + INVALID[i % 6], t) if i % 2 else (s, INVALID[i % 6] + t)),
    Problem.CONTROL: clean_line(inside("\x00", "\x01", "\x1b", "\x7f", "\x81", "\x00\x00\x00")),
    Problem.TOO_LONG: going(
        lambda i, s, t: (s * (1_000_000 // len(s)), t) if i % 2 else (s, t * (1_000_000 // len(t)))
    ),
    Problem.LENGTH_RATIO: going(lambda i, s, t: (s, (t + b" ") * 9 + t) if i % 2 else ((s + b" ") * 11 + s, t)),
    Problem.IDENTICAL: going(lambda i, s, t: (s, s) if i % 2 else (t, t)),
    Problem.LONE_SURROGATE: going(lambda i, s, t: (s + b" " + SURROGATES[i % 4], t)),
    Problem.BIDI: clean_line(inside("\u202e", "\u202d", "\u2066", "\u202a", "\u200f")),
    Problem.ZERO_WIDTH: clean_line(inside("\u200b", "\u200d", "\u2060", "\ufeff", "\xad")),
    Problem.NOT_NFC: lambda i, pair: ((pair[0], unicodedata.normalize("NFD", pair[1].decode()).encode()), pair),
    Problem.SPECIAL_TOKEN: kept(lambda i, text: text + [b" </s>", b"<pad>", b" <s> x", b" <unk>", b" [MASK]"][i % 5]),
    Problem.WORD_MARK: clean_line(between("▁", " ▁")),
    Problem.TOKENISED: kept(tokenised),
}
"""The kinds that are planted line by line. Duplicates, a missing last newline and files of different length are of the
whole corpus."""


def planted(problem: Problem, pairs: list[Pair]) -> list[Planted]:
    return [POISON[problem](i, pair) for i, pair in enumerate(pairs)]


def write(folder: Path, pairs: list[Pair], end: bytes = b"\n") -> CorpusConfig:
    for side, name in enumerate(("train.en", "train.de")):
        (folder / name).write_bytes(b"\n".join(pair[side] for pair in pairs) + end)
    return CorpusConfig(source=str(folder / "train.en"), target=str(folder / "train.de"))


def cleaned(corpus: CorpusConfig, lines_per_chunk: int) -> CleanPairs:
    profile = profile_of(next(read_chunks(corpus, 4000)), SETTINGS)
    parts = [clean_pairs(chunk, SETTINGS, profile) for chunk in read_chunks(corpus, lines_per_chunk)]
    source, target = (pa.concat_arrays(side) for side in zip(*((p.source, p.target) for p in parts), strict=True))
    line = [line for part in parts for line in part.line.tolist()]
    report = reduce(CleaningReport.__add__, (part.report for part in parts))
    first = first_of_each(hash_pairs(source, target))
    num_again = int((~first).sum())
    report += CleaningReport(dropped=num_again, counts={Problem.DUPLICATE: {"drop": num_again}} if num_again else {})
    rows = pa.array(first)
    return CleanPairs(source.filter(rows), target.filter(rows), np.array(line)[first], report)


def real(folder: Path) -> list[Pair]:
    sides = []
    for name in ("train.en.gz", "train.de.gz"):
        with gzip.open(folder / "multi30k" / name) as file:
            sides.append([line.rstrip(b"\n") for line in islice(file, 12_000)])
    different = dict.fromkeys(zip(*sides, strict=True))
    return [
        pair for pair in different if not any(b"  " in side or b"\t" in side or side != side.strip() for side in pair)
    ][:NUM_CLEAN]


@pytest.fixture(params=["made up", "multi30k"])
def good_pairs(request: pytest.FixtureRequest) -> list[Pair]:
    pairs = made_up(NUM_CLEAN) if request.param == "made up" else real(request.getfixturevalue("shared_data"))
    assert len(set(pairs)) == NUM_CLEAN
    return pairs


def test_every_planted_line_is_found_by_name_and_no_clean_line_is_lost(good_pairs: list[Pair], tmp_path: Path) -> None:
    spares = iter(spare(NUM_PLANTED * (len(POISON) + 1)))
    lines: list[tuple[Problem | None, Planted]] = [(None, (pair, pair)) for pair in good_pairs]
    for problem in POISON:
        lines += [(problem, plant) for plant in planted(problem, list(islice(spares, NUM_PLANTED)))]
    random.Random(6).shuffle(lines)
    again = [(Problem.DUPLICATE, (pair, None)) for pair in good_pairs[1000 : 1000 + NUM_PLANTED]]
    lines += again
    found = cleaned(write(tmp_path, [raw for _, (raw, _) in lines], end=b""), 3000)

    expected = {i: text for i, (_, (_, text)) in enumerate(lines) if text is not None}
    stayed = dict(
        zip(found.line.tolist(), zip(found.source.to_pylist(), found.target.to_pylist(), strict=True), strict=True)
    )
    assert {line: tuple(side.encode() for side in pair) for line, pair in stayed.items()} == expected
    counts = {problem: found.report.count(problem) for problem in Problem if found.report.count(problem)}
    of_text = dict.fromkeys([*POISON, Problem.DUPLICATE], NUM_PLANTED) | {Problem.UNTERMINATED: 1}
    # A blank line that ends as in Windows has two problems; a real corpus has a few tokenised lines of its own.
    blank_crlf = sum(raw.endswith(b" \r") for _, (pair, _) in lines for raw in pair)
    assert counts[Problem.CRLF] - blank_crlf == NUM_PLANTED
    assert NUM_PLANTED <= counts[Problem.TOKENISED] <= NUM_PLANTED + 10
    loose = {Problem.CRLF: NUM_PLANTED, Problem.TOKENISED: NUM_PLANTED}
    assert counts | loose == of_text
    assert found.report.pairs == len(lines)
    assert found.report.stayed == len(expected)


@pytest.mark.parametrize("problem", POISON)
def test_each_kind_alone_is_of_its_own_class_only(problem: Problem, tmp_path: Path) -> None:
    lines = planted(problem, spare(NUM_PLANTED))
    found = cleaned(write(tmp_path, made_up(500) + [raw for raw, _ in lines]), 10_000).report
    assert found.counts[problem] == {problem.usual: NUM_PLANTED}
    accompanied = {Problem.WHITESPACE: {Problem.CRLF}, Problem.BOTH_EMPTY: set()}.get(problem, set())
    assert set(found.counts) - accompanied == {problem}
    assert {example.line for example in found.examples[problem]} == set(range(501, 506))


def test_one_lost_line_is_a_hard_error_with_both_counts(tmp_path: Path) -> None:
    corpus = write(tmp_path, made_up(NUM_CLEAN))
    path = tmp_path / "train.de"
    path.write_bytes(path.read_bytes().split(b"\n", 1)[1])
    with pytest.raises(ValueError, match=rf"train\.en has {NUM_CLEAN} lines but .*train\.de has {NUM_CLEAN - 1}:"):
        list(read_chunks(corpus, 1000))


def test_a_reader_that_cuts_at_more_than_newlines_would_lose_the_alignment(tmp_path: Path) -> None:
    lines = [raw for raw, _ in planted(Problem.LINE_SEPARATOR, spare(NUM_PLANTED))]
    corpus = write(tmp_path, lines)
    assert corpus.target is not None
    naive = [len(Path(path).read_text(encoding="utf-8").splitlines()) for path in (corpus.source, corpus.target)]
    assert min(naive) > NUM_PLANTED
    assert sum(len(chunk) for chunk in read_chunks(corpus, 7)) == NUM_PLANTED


MEASURED = """
import sys
from pathlib import Path
from dragoman.data.pair_cleaning import clean_pairs, profile_of
from dragoman.data.corpus import CorpusConfig, read_chunks
from dragoman.text.cleaning import CleanConfig

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])

def work(source, target):
    corpus = CorpusConfig(source=source, target=target)
    profile = profile_of(next(read_chunks(corpus, 1000)), CleanConfig())
    return [(len(part.line), part.report.dropped) for part in
            (clean_pairs(chunk, CleanConfig(), profile) for chunk in read_chunks(corpus, 1000))]

def naive(source, target):
    return [(len(Path(path).read_bytes().split(b"\\n")) - 1, 0) for path in (source, target)]

small, large, mode = sys.argv[1:]
work(small + ".en", small + ".de")
before = peak()
found = naive(large + ".en", large + ".de") if mode == "naive" else work(large + ".en" + mode, large + ".de")
print(sum(stayed for stayed, _ in found), sum(dropped for _, dropped in found), (peak() - before) // 1024)
"""


def measured(folder: Path, mode: str) -> tuple[int, int, int]:
    arguments = [sys.executable, "-c", MEASURED, str(folder / "small"), str(folder / "large"), mode]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    stayed, dropped, mebibytes = map(int, done.stdout.split())
    return stayed, dropped, mebibytes


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc")
def test_a_line_of_100_megabytes_is_never_held(tmp_path: Path) -> None:
    pairs = made_up(2500)
    for name, poison in (("small", b"x"), ("large", b"All work and no play. " * 4_600_000)):
        for side, suffix in enumerate(("en", "de")):
            lines = [pair[side] for pair in pairs]
            lines[1200] = poison if side == 0 else lines[1200]
            (tmp_path / f"{name}.{suffix}").write_bytes(b"\n".join(lines) + b"\n")
    text = (tmp_path / "large.en").read_bytes()
    assert len(text) > 100_000_000
    (tmp_path / "large.en.zst").write_bytes(zstandard.compress(text, 1))
    stayed, dropped, mebibytes = measured(tmp_path, ".zst")
    assert (stayed, dropped) == (2499, 1)
    assert mebibytes < 24
    assert measured(tmp_path, "naive")[2] > 90  # the measure measures
