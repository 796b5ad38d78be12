"""What triage finds of what was planted: good translations, 200 of them spoiled by script, and how each flag did.

Five ways, 30 to 50 times each. In captions (Multi30k): a span of three to eight words is deleted, one of two to five is
said twice, one of four to eight (or, every other time, the whole) is replaced by the words of the source. In everyday
sentences (Tatoeba): a digit of a number is changed. In software (LibreOffice): a letter of an address is changed. Twice
as many pairs stay as they are, among them others with numbers and addresses. There are two halves, of other files: by
the first the rules may be mended (--misses), and the second, held out, is what counts.

Precision: of the pairs with a flag, those that were spoiled so that it is right; it falls with the share of spoiled
ones, here a third. Recall: of those spoiled in the way that a flag is for, those that have it. With a model, targets
are forced through it, and dropped words and source shares are looked at too. Last, one JSON line: the second half's.

    python bench/triage.py [--data FOLDER] [--model run/ | --text-only] [--misses]

The data is in $DRAGOMAN_DATA; the model is the demo's, which was trained on Tatoeba's and LibreOffice's training pairs.
"""

import argparse
import json
import os
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from texts import lines

from dragoman.bundle import demo_folder
from dragoman.inspection.flag import NEED_TRACE, FlagRules
from dragoman.inspection.flags_of_text import numbers, web
from dragoman.inspection.numerals import addresses, numerals
from dragoman.inspection.triage import Pair, Triaged, triage, usual_ratio

PLANTED: Final = {"deleted": 50, "repeated": 40, "copied": 40, "numbers": 40, "addresses": 30}
"""In both halves together. Twice as many pairs of the same kind stay as they are, if there are so many."""

HALVES: Final = {
    "first half": (("multi30k/val",), ("tatoeba-en-de/dev", "tatoeba-en-de/test_2021"), 0),
    "held out": (("multi30k/test_2016_flickr",), ("tatoeba-en-de/test_2023",), 1),
}
"""Captions, sentences, and which of the pairs with addresses."""

FOR: Final = {
    "dropped": "deleted",
    "length": "deleted",
    "repeated": "repeated",
    "copied": "copied",
    "numbers": "numbers",
    "addresses": "addresses",
}
"""What each flag is for."""

Pairs = list[tuple[str, str]]
Spoil = Callable[[str, str, random.Random], "Planted | None"]


@dataclass(frozen=True)
class Planted:
    """A pair, how it was spoiled, if it was, and the flags that are right about it."""

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
        return None  # what meets would be a repetition too
    return Planted(source, " ".join(left), "deleted", _right({"dropped", "length"}, gone))


def repeat(source: str, target: str, chance: random.Random) -> Planted | None:
    words = target.split()
    size = chance.randint(2, 5)
    if len(words) < size:
        return None
    at = chance.randint(0, len(words) - size)
    again = words[at : at + size]
    spoiled = " ".join(words[: at + size] + again + words[at + size :])
    return Planted(source, spoiled, "repeated", _right({"repeated", "length"}, again))


def copy(source: str, target: str, chance: random.Random) -> Planted | None:
    """What is copied whole is as long as the source, which says nothing about its length."""
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
    """Of a pair whose numbers agree."""
    found = numerals(target)
    if not found or list(numbers(source, target)):
        return None
    at = chance.choice([i for i in range(*chance.choice(found).span) if target[i].isdigit()])
    other = chance.choice([digit for digit in "123456789" if digit != target[at]])
    return Planted(source, target[:at] + other + target[at + 1 :], "numbers", frozenset({"numbers"}))


def change_address(source: str, target: str, chance: random.Random) -> Planted | None:
    """Of a pair whose addresses agree."""
    found = addresses(target)
    if not found or list(web(source, target)):
        return None
    start, end = chance.choice(found).span
    at = chance.choice([i for i in range(start, end) if target[i].isalpha()])
    other = chance.choice([letter for letter in "abcdefghijklmnopqrstuvwxyz" if letter != target[at].lower()])
    right = _right({"addresses"}, [target[start:end]])  # what is no address any more may still hold a number
    return Planted(source, target[:at] + other + target[at + 1 :], "addresses", right)


def plant(pairs: Pairs, spoil: Spoil, each: int, chance: random.Random) -> list[Planted]:
    """So many spoiled, and up to twice as many left alone."""
    planted: list[Planted] = []
    rest: Pairs = []
    for source, target in pairs:
        spoiled = spoil(source, target, chance) if len(planted) < each else None
        if spoiled is None:
            rest.append((source, target))
        else:
            planted.append(spoiled)
    return [*planted, *(Planted(source, target) for source, target in rest[: 2 * each])]


def half(data: Path, captions: Sequence[str], sentences: Sequence[str], odd: int, seed: int) -> list[Planted]:
    """Of corpora by name; there is only one with addresses, so of its pairs every other one."""
    chance = random.Random(seed)
    pictures = shuffled([pair for name in captions for pair in read(data, name)], chance)
    numbered = [pair for name in sentences for pair in read(data, name) if numerals(pair[1])]
    linked = sorted({pair for pair in read(data, "libreoffice-en-de/train") if addresses(" ".join(pair))})
    pools: dict[str, tuple[Pairs, Spoil]] = {
        "deleted": (pictures[::3], delete),
        "repeated": (pictures[1::3], repeat),
        "copied": (pictures[2::3], copy),
        "numbers": (shuffled(numbered, chance), change_number),
        "addresses": (shuffled(linked[odd::2], chance), change_address),
    }
    for way, (pairs, _) in pools.items():
        if not pairs:
            print(f"{way}: left out, for there is no text for it in {data}")
    return [one for way, (pairs, spoil) in pools.items() for one in plant(pairs, spoil, PLANTED[way] // 2, chance)]


def shuffled(pairs: Pairs, chance: random.Random) -> Pairs:
    return chance.sample(pairs, len(pairs))


def read(data: Path, name: str) -> Pairs:
    """The pairs of a corpus, or none if it is not there."""
    paths = [data / f"{name}.{language}.gz" for language in ("en", "de")]
    if not all(path.is_file() for path in paths):
        return []
    sides = [lines(path) for path in paths]
    return [(source.strip(), target.strip()) for source, target in zip(*sides, strict=True)]


def look(planted: Sequence[Planted], model: Path | None) -> list[Triaged]:
    """In the order in which they were planted. With a model, what the command does when both files are given."""
    if model is None:
        laid = [Pair(one.source, one.target) for one in planted]
        found = triage(laid, FlagRules(expected_ratio=usual_ratio(laid)))
    else:
        from dragoman.inspection import triaging
        from dragoman.inspection.inspector import Inspector

        inspector = Inspector.load(model)
        lines = triaging.forced(inspector, [one.source for one in planted], [one.target for one in planted])
        found = triaging.ranked(inspector, lines, lambda *_: None)[0]
    return sorted(found, key=lambda one: one.number)


def figures(planted: Sequence[Planted], found: Sequence[Triaged], names: Sequence[str]) -> dict[str, float]:
    """Precision and recall by flag, what was found of each way by any flag that is right, and the ranking."""
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
    result["spoiled_among_worst"] = round(sum(bool(planted[one.number - 1].way) for one in worst) / len(worst), 3)
    return result


def show_misses(planted: Sequence[Planted], found: Sequence[Triaged]) -> None:
    """Flags on what they are not right about, and spoiled pairs without the flag that is for them."""
    for one, seen in zip(planted, found, strict=True):
        names = {flag.name for flag in seen.flags}
        wrong = [flag for flag in seen.flags if flag.name not in one.right]
        missed = [name for name, way in FOR.items() if way == one.way and name not in names]
        for flag in wrong:
            print(f"WRONG {flag.name} ({one.way or 'untouched'}): {flag.evidence}\n  {seen.source}\n  {seen.target}")
        for name in missed:
            print(f"MISSED {name} ({one.way})\n  {seen.source}\n  {seen.target}")


def _right(names: set[str], words: Sequence[str]) -> frozenset[str]:
    """Words that are missing or too many may hold a number."""
    return frozenset(names | ({"numbers"} if re.search(r"\d", " ".join(words)) else set()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("DRAGOMAN_DATA"), help="where the corpora are")
    parser.add_argument("--model", type=Path, help="a run or bundle to trace with; the demo's, if none is given")
    parser.add_argument("--text-only", action="store_true", help="trace nothing")
    parser.add_argument("--misses", action="store_true", help="show what went wrong in the first half")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.data is None:
        parser.error("say where the corpora are: --data FOLDER, or set DRAGOMAN_DATA")
    model = None if given.text_only else given.model or demo_folder()
    names = [name for name in (*FOR, "low source share") if model or name not in NEED_TRACE]
    values: dict[str, float] = {}
    for title, corpora in HALVES.items():
        planted = half(given.data, *corpora, given.seed)
        found = look(planted, model)
        values = figures(planted, found, names)
        spoiled = sum(bool(one.way) for one in planted)
        print(f"{title}: {spoiled} spoiled, {len(planted) - spoiled} untouched")
        print("\n".join(f"  {name:28}{value:g}" for name, value in values.items()))
        if given.misses and title == "first half":
            show_misses(planted, found)
    print(json.dumps({"bench": "triage", "values": {"held_out": len(planted), **values}}))


if __name__ == "__main__":
    main()
