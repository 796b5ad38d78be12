"""Measure triage on planted errors: good translations, 200 of them damaged by script, and the score of each flag.

Five kinds of damage, 30 to 50 times each. In captions (Multi30k): a span of three to eight words is deleted, one of two
to five is repeated, one of four to eight (or, every other time, the whole) is replaced by the words of the source. In
everyday sentences (Tatoeba): a digit of a number is changed. In software (LibreOffice): a letter of an address is
changed. Twice as many pairs stay untouched, some with numbers and addresses. There are two halves from different files:
the first is for improving the rules (--misses), the second is held out and counts.

Precision: the share of flagged pairs whose damage the flag is right about; it falls with the share of damaged pairs,
here a third. Recall: the share of pairs with the damage that the flag is for. With a model, targets are forced through
it, and dropped words and source shares are checked too. The last line has the values of the held-out half.

    python bench/triage.py [--data FOLDER] [--model run/ | --text-only] [--misses]

The default model is the demo, which was trained on the training pairs of Tatoeba and LibreOffice.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from report import option_parser, print_values
from texts import DATA, read_lines

from dragoman.bundle import demo_folder
from dragoman.triage.numerals import find_addresses, find_numerals
from dragoman.triage.ranking import TriageResult, rank_texts
from dragoman.triage.text_flags import FlagName, check_addresses, check_numbers

NEED_TRACE: Final[frozenset[FlagName]] = frozenset({"dropped", "low source share"})
"""Flags that text alone cannot raise."""

PLANTED: Final = {"deleted": 50, "repeated": 40, "copied": 40, "numbers": 40, "addresses": 30}
"""The number of damaged pairs in both halves. Up to twice as many pairs of the same kind stay untouched."""

HALVES: Final = {
    "first half": (("multi30k/val",), ("tatoeba-en-de/dev", "tatoeba-en-de/test_2021"), 0),
    "held out": (("multi30k/test_2016_flickr",), ("tatoeba-en-de/test_2023",), 1),
}
"""Captions, sentences, and the parity of the pairs with addresses."""

FOR: Final = {
    "dropped": "deleted",
    "length": "deleted",
    "repeated": "repeated",
    "copied": "copied",
    "numbers": "numbers",
    "addresses": "addresses",
}
"""The damage that each flag is for."""

Pairs = list[tuple[str, str]]
Damage = Callable[[str, str, random.Random], "Planted | None"]


@dataclass(frozen=True)
class Planted:
    """A pair, its damage if any, and the flags that are right about it."""

    source: str
    target: str
    way: str = ""
    right: frozenset[str] = frozenset()


def delete(source: str, target: str, chance: random.Random) -> Planted | None:
    words = target.split()
    size = chance.randint(3, 8)
    if len(words) < size + 4:
        return None
    at = chance.randint(0, len(words) - size)
    left, gone = words[:at] + words[at + size :], words[at : at + size]
    if 0 < at < len(left) and left[at - 1].lower() == left[at].lower():
        return None  # the words that meet would be a repetition too
    return Planted(source, " ".join(left), "deleted", _right({"dropped", "length"}, gone))


def repeat(source: str, target: str, chance: random.Random) -> Planted | None:
    words = target.split()
    size = chance.randint(2, 5)
    if len(words) < size:
        return None
    at = chance.randint(0, len(words) - size)
    again = words[at : at + size]
    damaged = " ".join(words[: at + size] + again + words[at + size :])
    return Planted(source, damaged, "repeated", _right({"repeated", "length"}, again))


def copy(source: str, target: str, chance: random.Random) -> Planted | None:
    """Copy all or part of the source; a whole copy has the source's length, so the length flag is not right."""
    words, read = target.split(), source.split()
    if chance.random() < 0.5:
        return Planted(source, source, "copied", frozenset({"copied"}))
    size = chance.randint(4, 8)
    if min(len(words), len(read)) < size + 2:
        return None
    at = chance.randint(0, len(read) - size)
    start = round(at / (len(read) - size) * (len(words) - size))
    mixed = [*words[:start], *read[at : at + size], *words[start + size :]]
    return Planted(source, " ".join(mixed), "copied", frozenset({"copied"}))


def change_number(source: str, target: str, chance: random.Random) -> Planted | None:
    """Change a digit in a pair whose numbers agree."""
    found = find_numerals(target)
    if not found or list(check_numbers(source, target)):
        return None
    at = chance.choice([i for i in range(*chance.choice(found).span) if target[i].isdigit()])
    other = chance.choice([digit for digit in "123456789" if digit != target[at]])
    return Planted(source, target[:at] + other + target[at + 1 :], "numbers", frozenset({"numbers"}))


def change_address(source: str, target: str, chance: random.Random) -> Planted | None:
    """Change a letter of an address in a pair whose addresses agree."""
    found = find_addresses(target)
    if not found or list(check_addresses(source, target)):
        return None
    start, end = chance.choice(found)
    at = chance.choice([i for i in range(start, end) if target[i].isalpha()])
    other = chance.choice([letter for letter in "abcdefghijklmnopqrstuvwxyz" if letter != target[at].lower()])
    right = _right({"addresses"}, [target[start:end]])  # the changed address may still hold a number
    return Planted(source, target[:at] + other + target[at + 1 :], "addresses", right)


def plant(pairs: Pairs, damage: Damage, each: int, chance: random.Random) -> list[Planted]:
    """Return this number of damaged pairs, and up to twice as many untouched ones."""
    planted: list[Planted] = []
    rest: Pairs = []
    for source, target in pairs:
        damaged = damage(source, target, chance) if len(planted) < each else None
        if damaged is None:
            rest.append((source, target))
        else:
            planted.append(damaged)
    return [*planted, *(Planted(source, target) for source, target in rest[: 2 * each])]


def half(data: Path, captions: Sequence[str], sentences: Sequence[str], odd: int, seed: int) -> list[Planted]:
    """Return the pairs of one half. Only one corpus has addresses, so its pairs alternate between the halves."""
    chance = random.Random(seed)
    pictures = shuffled([pair for name in captions for pair in read(data, name)], chance)
    numbered = [pair for name in sentences for pair in read(data, name) if find_numerals(pair[1])]
    linked = sorted({pair for pair in read(data, "libreoffice-en-de/train") if find_addresses(" ".join(pair))})
    pools: dict[str, tuple[Pairs, Damage]] = {
        "deleted": (pictures[::3], delete),
        "repeated": (pictures[1::3], repeat),
        "copied": (pictures[2::3], copy),
        "numbers": (shuffled(numbered, chance), change_number),
        "addresses": (shuffled(linked[odd::2], chance), change_address),
    }
    for way, (pairs, _) in pools.items():
        if not pairs:
            print(f"{way}: left out, because {data} has no text for it")
    return [pair for way, (pairs, damage) in pools.items() for pair in plant(pairs, damage, PLANTED[way] // 2, chance)]


def shuffled(pairs: Pairs, chance: random.Random) -> Pairs:
    return chance.sample(pairs, len(pairs))


def read(data: Path, name: str) -> Pairs:
    """Return the pairs of a corpus, or none if its files are missing."""
    paths = [data / f"{name}.{language}.gz" for language in ("en", "de")]
    if not all(path.is_file() for path in paths):
        return []
    sides = [read_lines(path) for path in paths]
    return [(source.strip(), target.strip()) for source, target in zip(*sides, strict=True)]


def run_triage(planted: Sequence[Planted], model: Path | None) -> list[TriageResult]:
    """Return the triage in the order of the pairs; with a model, like the command with both files."""
    if model is None:
        found, _ = rank_texts([one.source for one in planted], [one.target for one in planted])
    else:
        from dragoman.inspection.inspector import Inspector
        from dragoman.triage import model_triage

        inspector = Inspector.load(model)
        lines = model_triage.force_lines(inspector, [one.source for one in planted], [one.target for one in planted])
        found = model_triage.rank_lines(inspector, lines, lambda *_: None)[0]
    return sorted(found, key=lambda one: one.number)


def figures(planted: Sequence[Planted], found: Sequence[TriageResult], names: Sequence[str]) -> dict[str, float]:
    """Return precision and recall by flag, recall by damage over all right flags, and the quality of the ranking."""
    flags = [{flag.name for flag in one.flags} for one in found]
    result: dict[str, float] = {}
    for name in names:
        fired = [one for one, seen in zip(planted, flags, strict=True) if name in seen]
        meant = [seen for one, seen in zip(planted, flags, strict=True) if one.way and one.way == FOR.get(name)]
        key = name.replace(" ", "_")
        result[f"{key}_flagged"] = len(fired)
        if fired:
            result[f"{key}_precision"] = round(sum(name in one.right for one in fired) / len(fired), 3)
        if meant:
            result[f"{key}_recall"] = round(sum(name in seen for seen in meant) / len(meant), 3)
    for way in dict.fromkeys(FOR.values()):
        those = [one.right & seen for one, seen in zip(planted, flags, strict=True) if one.way == way]
        if those:
            result[f"{way}_found"] = round(sum(map(bool, those)) / len(those), 3)
            result[f"{way}_found_by_text"] = round(sum(bool(seen - NEED_TRACE) for seen in those) / len(those), 3)
    untouched = [bool(seen) for one, seen in zip(planted, flags, strict=True) if not one.way]
    result["untouched_flagged"] = round(sum(untouched) / max(1, len(untouched)), 3)
    worst = sorted(found, key=lambda one: (-one.severity, one.number))[: sum(bool(one.way) for one in planted)]
    result["damaged_among_worst"] = round(sum(bool(planted[one.number - 1].way) for one in worst) / len(worst), 3)
    return result


def show_misses(planted: Sequence[Planted], found: Sequence[TriageResult]) -> None:
    """Print wrong flags, and damaged pairs without the flag that is for them."""
    for one, seen in zip(planted, found, strict=True):
        names = {flag.name for flag in seen.flags}
        wrong = [flag for flag in seen.flags if flag.name not in one.right]
        missed = [name for name, way in FOR.items() if way == one.way and name not in names]
        for flag in wrong:
            print(f"WRONG {flag.name} ({one.way or 'untouched'}): {flag.evidence}\n  {seen.source}\n  {seen.target}")
        for name in missed:
            print(f"MISSED {name} ({one.way})\n  {seen.source}\n  {seen.target}")


def _right(names: set[str], words: Sequence[str]) -> frozenset[str]:
    """Add the numbers flag if the missing or added words hold a number."""
    return frozenset(names | ({"numbers"} if re.search(r"\d", " ".join(words)) else set()))


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the corpora")
    parser.add_argument("--model", type=Path, help="run or bundle to trace with (default: the demo)")
    parser.add_argument("--text-only", action="store_true", help="use no model")
    parser.add_argument("--misses", action="store_true", help="show the errors of the first half")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    model = None if options.text_only else options.model or demo_folder()
    names = [name for name in (*FOR, "low source share") if model or name not in NEED_TRACE]
    values: dict[str, float] = {}
    for title, corpora in HALVES.items():
        planted = half(options.data, *corpora, options.seed)
        triaged = run_triage(planted, model)
        values = figures(planted, triaged, names)
        damaged = sum(bool(one.way) for one in planted)
        print(f"{title}: {damaged} damaged, {len(planted) - damaged} untouched")
        print("\n".join(f"  {name:28}{value:g}" for name, value in values.items()))
        if options.misses and title == "first half":
            show_misses(planted, triaged)
    print_values("triage", {"held_out": len(planted), **values})


if __name__ == "__main__":
    main()
