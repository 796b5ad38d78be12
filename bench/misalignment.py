"""Measure the check of line alignment on planted cases: targets shuffled or shifted in corpora that are aligned.

Four kinds of damage to 1 % to 100 % of the lines: targets shuffled among scattered lines, shuffled within a block,
shifted by a constant offset from a random line to the end (lines are lost or inserted), and shifted within a block.
The corpora are captions, everyday sentences, sorted by length, software strings, news, spelling to sound, commands to
actions, and dates, whole and in parts of 500 to 3,000 pairs.

No case is left out, though some are hardly to be found: up to 2 % scattered lines, or 10 to 30 lines in a row, look
like the loose translations that every corpus has (here these are cases below 5 %, which recall does not count). In a
sorted dictionary, a shifted target resembles the right one. Damaged pairs that are not judged count as missed.

Recall: the share of cases with 5 % or more misaligned lines that are found. False alarms: among the untouched corpora
and parts. `offset_found`: the share of found shifts whose offset is right; `line_error`: the median distance of the
first suspicious line from the first damaged one, for blocks and shifts, as a share of the file.

    python bench/misalignment.py [--cases 40] [--seed 1] [--parts 3] [--longest 200000]
"""

import random
import statistics
import time
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
from report import option_parser, print_values
from texts import DATA, read_lines

from dragoman.data.dates import dates
from dragoman.data.misalignment import LineAlignment, NotJudged, check_line_alignment

PARALLEL = {
    "multi30k": "multi30k/train",
    "tatoeba": "tatoeba-en-de/train",
    "libreoffice": "libreoffice-en-de/train",
    "newstest2013": "newstest2013/newstest2013",
    "flores": "flores-en-de/devtest",
    "tatoeba-dev": "tatoeba-en-de/dev",
    "multi30k-val": "multi30k/val",
}
SHARES = [0.05, 0.1, 0.2, 0.01, 0.4, 0.6, 0.02, 0.8, 0.95, 1.0]
FOUND_FROM = 0.05
PARTS = [500, 1_000, 3_000]


class Pairs(NamedTuple):
    """A corpus or a part of one."""

    name: str
    source: list[str]
    target: list[str]

    def part(self, size: int, start: int) -> "Pairs":
        rows = slice(start, start + size)
        return Pairs(f"{self.name}[{start}:{start + size}]", self.source[rows], self.target[rows])


class Planted(NamedTuple):
    """Damaged pairs, and the truth about them."""

    pairs: Pairs
    kind: str
    share: float
    first: int
    offset: int | None = None


def corpora(longest: int) -> Iterator[Pairs]:
    """Yield the corpora that exist."""
    for name, path in PARALLEL.items():
        if (DATA / f"{path}.en.gz").is_file():
            source, target = (read_lines(DATA / f"{path}.{side}.gz") for side in ("en", "de"))
            yield Pairs(name, source[:longest], target[:longest])
    if (words := DATA / "cmudict/cmudict.dict.gz").is_file():
        rows = [line.split(" #")[0].split(" ", 1) for line in read_lines(words)][:longest]
        yield Pairs("cmudict", *map(list, zip(*rows, strict=True)))
    if (commands := DATA / "scan/tasks.txt.gz").is_file():
        rows = [line.removeprefix("IN: ").split(" OUT: ") for line in read_lines(commands)][:longest]
        yield Pairs("scan", *map(list, zip(*rows, strict=True)))
    yield Pairs("dates", *map(list, zip(*dates(min(10_000, longest), seed=1), strict=True)))


def shuffle(pairs: Pairs, rows: list[int], kind: str, share: float, chance: random.Random) -> Planted:
    target, moved = list(pairs.target), list(rows)
    chance.shuffle(moved)
    for row, other in zip(rows, moved, strict=True):
        target[row] = pairs.target[other]
    return Planted(pairs._replace(target=target), kind, share, rows[0])


def scatter(pairs: Pairs, share: float, chance: random.Random) -> Planted:
    rows = sorted(chance.sample(range(len(pairs.source)), round(share * len(pairs.source))))
    return shuffle(pairs, rows, "scattered shuffle", share, chance)


def shuffle_block(pairs: Pairs, share: float, chance: random.Random) -> Planted:
    size = round(share * len(pairs.source))
    start = chance.randint(0, len(pairs.source) - size)
    return shuffle(pairs, list(range(start, start + size)), "shuffled block", share, chance)


def shift_rest(pairs: Pairs, share: float, chance: random.Random) -> Planted:
    """Insert or lose target lines; the file keeps its length, as a file of another length is an error anyway."""
    start = len(pairs.source) - round(share * len(pairs.source))
    return shift(pairs, start, len(pairs.source), "shift to the end", share, chance)


def shift_block(pairs: Pairs, share: float, chance: random.Random) -> Planted:
    size = round(share * len(pairs.source))
    start = chance.randint(0, len(pairs.source) - size)
    return shift(pairs, start, start + size, "shifted block", share, chance)


def shift(pairs: Pairs, start: int, end: int, kind: str, share: float, chance: random.Random) -> Planted:
    offset = chance.choice([-1, 1]) * chance.choice([1, 1, 1, 2, 3, 5, 17])
    rows = pairs.target[start:end]
    turned = rows[-offset:] + rows[:-offset]  # the line that i needs is now `offset` lines later
    target = pairs.target[:start] + turned + pairs.target[end:]
    return Planted(pairs._replace(target=target), kind, share, start, offset)


def check(pairs: Pairs) -> tuple[LineAlignment | NotJudged, float]:
    source, target = (pa.array(side, pa.large_string()) for side in (pairs.source, pairs.target))
    start = time.process_time()
    result = check_line_alignment(source, target)
    return result, time.process_time() - start


def is_alarm(result: LineAlignment | NotJudged) -> bool:
    return isinstance(result, LineAlignment) and result.first is not None


def plant(available: list[Pairs], cases: int, chance: random.Random) -> Iterator[Planted]:
    """Yield damaged corpora and parts; kinds, shares and corpora in turn, so that every combination comes up."""
    kinds = [scatter, shift_rest, shuffle_block, shift_block]
    for case in range(cases):
        pairs = available[case % len(available)]
        size = [len(pairs.source), 3_000, 1_000][case // len(available) % 3]
        if size < len(pairs.source):
            pairs = pairs.part(size, chance.randint(0, len(pairs.source) - size))
        share = SHARES[(case + case // len(SHARES)) % len(SHARES)]
        yield kinds[case % len(kinds)](pairs, share, chance)


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--cases", type=int, default=40, help="number of planted cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parts", type=int, default=3, help="untouched parts of each size and corpus")
    parser.add_argument("--longest", type=int, default=200_000, help="number of pairs read from each corpus")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    available = list(corpora(options.longest))

    clean = [*available]
    for pairs in available:
        for size in [size for size in PARTS if size < len(pairs.source)]:
            starts = [chance.randint(0, len(pairs.source) - size) for _ in range(options.parts)]
            clean += [pairs.part(size, start) for start in starts]
    false_alarms, undecided, seconds, num_pairs = 0, 0, 0.0, 0
    for pairs in clean:
        result, spent = check(pairs)
        false_alarms += is_alarm(result)
        undecided += isinstance(result, NotJudged)
        if len(pairs.source) >= 10_000:
            seconds, num_pairs = seconds + spent, num_pairs + len(pairs.source)
        if is_alarm(result) or len(pairs.source) >= 10_000:
            print(f"clean {pairs.name:32} {len(pairs.source):7,} pairs {spent:5.1f} s  {result}", flush=True)

    found, offsets, errors = [], [], []
    for planted in plant(available, options.cases, chance):
        result, spent = check(planted.pairs)
        if planted.share >= FOUND_FROM:
            found.append(is_alarm(result))
        if isinstance(result, LineAlignment) and result.first is not None and planted.kind != "scattered shuffle":
            errors.append(abs(result.first - planted.first) / len(planted.pairs.source))
            if planted.offset is not None:
                offsets.append(any(block.offset == planted.offset for block in result.blocks))
        damage = f"{planted.kind:18} {planted.share:5.0%} from {planted.first:7,} by {planted.offset!s:4}"
        size = f"{planted.pairs.name:28} {len(planted.pairs.source):7,} pairs {spent:5.1f} s"
        print(f"{'found ' if is_alarm(result) else 'missed'} {damage} of {size}  {result}", flush=True)
    values = {
        "cases": options.cases,
        "recall": statistics.mean(found) if found else 0.0,
        "false_alarms": false_alarms,
        "clean": len(clean),
        "undecided": undecided,
        "offset_found": statistics.mean(offsets) if offsets else 0.0,
        "line_error": statistics.median(errors) if errors else 0.0,
        "seconds_per_100k": 100_000 * seconds / num_pairs if num_pairs else 0.0,
    }
    print_values("misalignment", values, 4)


if __name__ == "__main__":
    main()
