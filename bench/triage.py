"""What triage finds of what was planted: good translations, 200 of them spoiled by script, and how each flag did.

In a third of the spoiled ones a span of words is deleted, in a third one is said twice, in a third a number is changed;
all others stay as they are. Precision: of the sentences with a flag, those that were spoiled so that it is right.
Recall: of those spoiled in the way that a flag is for, those that have it. "deleted" is told by the length, and with a
model, whose attention is traced over the spoiled targets, by what nothing looked at too. Last, one JSON line.

    python bench/triage.py --source test.en.gz --target test.de.gz [--model run/] [--pairs 600]
"""

import argparse
import gzip
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.inspection.flag import FlagRules
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.numerals import numerals
from dragoman.inspection.triage import Pair, Triaged, triage, usual_ratio

PLANTED = 200
RIGHT = {"deleted": {"dropped", "length"}, "repeated": {"repeated", "length"}, "numbers": {"numbers"}, "": set()}
"""Which flags are right about what was planted; a flag on nothing is wrong."""
FOR = {"dropped": "deleted", "length": "deleted", "repeated": "repeated", "numbers": "numbers"}
"""What each flag is for."""


@dataclass(frozen=True)
class Planted:
    """A pair, how it was spoiled, if it was, and the flags that are right about it."""

    source: str
    target: str
    kind: str = ""
    right: frozenset[str] = frozenset()


def delete(source: str, target: str, chance: random.Random) -> Planted | None:
    words = target.split()
    size = chance.randint(3, 8)
    if len(words) < size + 4:
        return None
    at = chance.randint(0, len(words) - size)
    left, gone = words[:at] + words[at + size :], words[at : at + size]
    right = RIGHT["deleted"] | ({"numbers"} if re.search(r"\d", " ".join(gone)) else set())
    return Planted(source, " ".join(left), "deleted", frozenset(right))


def repeat(source: str, target: str, chance: random.Random) -> Planted | None:
    words = target.split()
    size = chance.randint(2, 5)
    if len(words) < size:
        return None
    at = chance.randint(0, len(words) - size)
    again = words[at : at + size]
    right = RIGHT["repeated"] | ({"numbers"} if re.search(r"\d", " ".join(again)) else set())
    return Planted(source, " ".join(words[: at + size] + again + words[at + size :]), "repeated", frozenset(right))


def change(source: str, target: str, chance: random.Random) -> Planted | None:
    found = numerals(target)
    if not found:
        return None
    start, end = chance.choice(found).span
    at = chance.choice([i for i in range(start, end) if target[i].isdigit()])
    other = chance.choice([digit for digit in "123456789" if digit != target[at]])
    return Planted(source, target[:at] + other + target[at + 1 :], "numbers", frozenset(RIGHT["numbers"]))


SPOIL: Sequence[Callable[[str, str, random.Random], Planted | None]] = (change, delete, repeat)


def plant(pairs: Sequence[tuple[str, str]], chance: random.Random) -> list[Planted]:
    """Each way in turn takes the first pair that it can spoil; numbers first, for few sentences have one."""
    left = list(pairs)
    chance.shuffle(left)
    planted: list[Planted] = []
    for way, spoil in enumerate(SPOIL):
        wanted = len(range(way, PLANTED, len(SPOIL)))
        kept = []
        for source, target in left:
            spoiled = spoil(source, target, chance) if wanted else None
            if spoiled is None:
                kept.append((source, target))
            else:
                planted.append(spoiled)
                wanted -= 1
        left = kept
    return [*planted, *(Planted(source, target) for source, target in left)]


def figures(planted: Sequence[Planted], found: Sequence[Triaged], looked_for: set[str]) -> dict[str, dict[str, float]]:
    """By flag: precision, recall, and how many sentences were flagged."""
    flags = {one.number - 1: {flag.name for flag in one.flags} for one in found}
    result: dict[str, dict[str, float]] = {}
    for name in sorted({name for names in flags.values() for name in names} | looked_for):
        fired = [i for i, names in flags.items() if name in names]
        meant = [i for i, one in enumerate(planted) if one.kind and one.kind == FOR.get(name)]
        values = {"flagged": float(len(fired))}
        if fired:
            values["precision"] = round(sum(name in planted[i].right for i in fired) / len(fired), 3)
        if meant:
            values["recall"] = round(sum(name in flags[i] for i in meant) / len(meant), 3)
        result[name] = values
    kinds = {kind: [i for i, one in enumerate(planted) if one.kind == kind] for kind in RIGHT}
    result["any"] = {
        kind or "untouched, flagged": round(sum(bool(flags[i]) for i in those) / max(1, len(those)), 3)
        for kind, those in kinds.items()
    }
    return result


def lines(path: Path) -> list[str]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [line.strip() for line in data.decode().removesuffix("\n").split("\n")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--source", "--target"):
        parser.add_argument(name, type=Path, required=True, help="one sentence a line, may be .gz")
    parser.add_argument("--model", type=Path, help="a run or bundle, to trace the spoiled targets with")
    parser.add_argument("--pairs", type=int, default=600, help="how many to take, the spoiled ones included")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    pairs = list(zip(lines(given.source), lines(given.target), strict=True))
    chance = random.Random(given.seed)
    # Sentences with numbers are taken first: elsewhere they would be too few to spoil.
    pairs.sort(key=lambda pair: not numerals(pair[1]))
    with_number = sum(bool(numerals(target)) for _, target in pairs)
    chosen = pairs[: min(with_number, given.pairs // 2)]
    chosen += chance.sample(pairs[len(chosen) :], min(len(pairs), given.pairs) - len(chosen))
    planted = plant(chosen, chance)
    inspector = None if given.model is None else Inspector.load(given.model)
    laid = [
        Pair(one.source, one.target, None if inspector is None else inspector.trace(one.source, one.target))
        for one in planted
    ]
    rules = FlagRules(expected_ratio=usual_ratio(Pair(source, target) for source, target in chosen))
    looked_for = set(FOR) - ({"dropped"} if inspector is None else set())
    result = figures(planted, triage(laid, rules), looked_for)
    for name, values in result.items():
        print(f"{name:18}" + "  ".join(f"{key} {value:g}" for key, value in values.items()))
    print(json.dumps({"bench": "triage", "values": {"planted": sum(bool(one.kind) for one in planted), **result}}))


if __name__ == "__main__":
    main()
