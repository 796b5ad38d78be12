"""Measure triage: how well its score finds bad translations, and how well its flags find planted errors.

Bad translations: a model translates test sets, and the chrF of each translation tells which are bad: below 40 (`bad`),
or in the lowest quarter of its test set (`quarter`). AUROC is the chance that a bad translation has a higher score than
another; 0.5 is a coin. Beside the score stands the mean log-probability of a token alone. Intervals are of 1,000
resamples of the sentences, also of the difference. Lines that the model cannot translate whole are left out.

--fit FILE fits the weights on dev sets (Tatoeba, Multi30k, newstest2013 and everyday_dev.tsv, each with the same total
weight), writes them to FILE and measures with them. The weights in the package were made by

    python bench/triage.py --fit src/dragoman/triage/calibration.json

Planted errors: good translations, 200 of them damaged by script, and the score of each flag. Five kinds of damage, 30
to 50 times each. In captions (Multi30k): a span of three to eight words is deleted, one of two to five is repeated, one
of four to eight (or, every other time, the whole) is replaced by the words of the source. In everyday sentences
(Tatoeba): a digit of a number is changed. In software (LibreOffice): a letter of an address is changed. Twice as many
pairs stay untouched, some with numbers and addresses. There are two halves from different files: the first is for
improving the rules (--misses), the second is held out and counts.

Precision: the share of flagged pairs whose damage the flag is right about; it falls with the share of damaged pairs,
here a third. Recall: the share of pairs with the damage that the flag is for. Targets are forced through the model.
The last line has the values of the test sets and of the held-out half.

    python bench/triage.py [--data FOLDER] [--model run/ | --text-only] [--fit FILE] [--lines N] [--misses]

The default model is the demo, which was trained on the training pairs of Tatoeba and LibreOffice. --text-only uses no
model, and measures the flags of the text alone.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from everyday import TEXTS, read_texts
from report import option_parser, print_values
from texts import DATA, read_lines

from dragoman.bundle import open_bundle
from dragoman.cli.progress import show_progress
from dragoman.triage.calibration import BAD_BELOW, Calibration, fit_calibration, load_calibration
from dragoman.triage.model_triage import TriageModel, rank_measured, signals_and_scores
from dragoman.triage.numerals import find_addresses, find_numerals
from dragoman.triage.ranking import TriageResult, rank_texts
from dragoman.triage.text_flags import FlagName, check_addresses, check_numbers

NEED_MODEL: Final[frozenset[FlagName]] = frozenset({"dropped"})
"""Flags that text alone cannot raise."""

DEV_SETS: Final = {"tatoeba": "tatoeba-en-de/dev", "multi30k": "multi30k/val", "news": "newstest2013/newstest2013"}
TEST_SETS: Final = {
    "tatoeba": "tatoeba-en-de/test_2021",
    "multi30k": "multi30k/test_2016_flickr",
    "flores": "flores-en-de/devtest",
}
LINES: Final = 1000
"""The first lines of each set that are translated."""
RESAMPLES: Final = 1000

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
ReferencePairs = list[tuple[str, list[str]]]
"""Sources, each with one or several references."""
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


def read_references(data: Path, sets: dict[str, str], everyday: Path, lines: int) -> dict[str, ReferencePairs]:
    """Return the first lines of each set and the everyday texts, without sets whose files are missing."""
    found: dict[str, ReferencePairs] = {}
    for name, path in sets.items():
        found[name] = [(source, [target]) for source, target in read(data, path)[:lines]]
    if everyday.is_file():
        found["everyday"] = [(text.english, [text.german, text.german_2]) for text in read_texts(everyday)[:lines]]
    for name in [name for name in {**sets, "everyday": ""} if not found.get(name)]:
        print(f"{name}: left out, because {data} does not have it")
    return {name: pairs for name, pairs in found.items() if pairs}


def fit(model: TriageModel, data: Path, lines: int) -> Calibration:
    """Fit the weights of the signals on the dev sets; each set has the same total weight."""
    signals, scores, importance = [], [], []
    for name, pairs in read_references(data, DEV_SETS, TEXTS, lines).items():
        with show_progress() as progress:
            measured = model.measure([source for source, _ in pairs], None, progress)
        found, chrf = signals_and_scores(measured, [references for _, references in pairs])
        print(f"fit on {name}: {len(found)} lines, {sum(one < BAD_BELOW for one in chrf)} bad", flush=True)
        signals += found
        scores += chrf
        importance += [1 / len(found)] * len(found)
    command = "python bench/triage.py --fit, on dev sets of Tatoeba, Multi30k, newstest2013 and everyday texts"
    return fit_calibration(signals, scores, model=model.sha256, fitted_on=command, importance=importance)


def auroc(scores: np.ndarray, is_bad: np.ndarray) -> float:
    """Return the chance that a bad line has a higher score than another; equal scores count half."""
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    num_bad = int(is_bad.sum())
    return float((ranks[is_bad].sum() - num_bad * (num_bad + 1) / 2) / (num_bad * (len(is_bad) - num_bad)))


def interval(scores: Sequence[np.ndarray], is_bad: np.ndarray, seed: int) -> list[tuple[float, float]]:
    """Return the 95 % intervals of the AUROC of both scores, and of their difference, by resampling lines."""
    draw, rows = np.random.default_rng(seed), []
    while len(rows) < RESAMPLES:
        lines = draw.integers(len(is_bad), size=len(is_bad))
        if 0 < is_bad[lines].sum() < len(lines):
            one, other = (auroc(each[lines], is_bad[lines]) for each in scores)
            rows.append((one, other, one - other))
    return [(float(low), float(high)) for low, high in np.quantile(np.array(rows), [0.025, 0.975], axis=0).T]


def measure_score(
    model: TriageModel, calibration: Calibration, sets: dict[str, ReferencePairs], seed: int
) -> dict[str, float]:
    """Print the AUROC of the score and of the log-probability alone on each test set; return the figures."""
    values: dict[str, float] = {}
    print(f"{'test set':10}{'lines':>6}  {'bad':8}{'':>6}  {'score':24}{'log-probability':24}difference")
    for name, pairs in sets.items():
        with show_progress() as progress:
            measured = model.measure([source for source, _ in pairs], None, progress)
        ranked, _ = rank_measured(measured, model.sha256, True, calibration)
        score = {line.number - 1: line.score for line in ranked}
        kept = [i for i, pair in enumerate(measured) if pair.readings is not None]
        _, chrf = signals_and_scores(measured, [references for _, references in pairs])
        nll = [
            -float(readings.log_probabilities.mean()) for pair in measured if (readings := pair.readings) is not None
        ]
        both, quality = (np.array([score[i] for i in kept]), np.array(nll)), np.array(chrf)
        suspect = both[0] >= 0.5
        definitions = {"bad": quality < BAD_BELOW, "quarter": quality <= np.quantile(quality, 0.25)}
        for kind, is_bad in definitions.items():
            if not 0 < is_bad.sum() < len(is_bad):
                print(f"{name:10}{len(kept):6}  {kind:8}{is_bad.sum():6}  no AUROC: all or none are bad")
                continue
            found = [auroc(each, is_bad) for each in both]
            found.append(found[0] - found[1])
            limits = interval(both, is_bad, seed)
            shown = [f"{one:.3f} ({low:.3f} to {high:.3f})" for one, (low, high) in zip(found, limits, strict=True)]
            print(f"{name:10}{len(kept):6}  {kind:8}{is_bad.sum():6}  {shown[0]:24}{shown[1]:24}{shown[2]}", flush=True)
            key = f"{name}_{kind}"
            values |= {f"{key}_auroc": found[0], f"{key}_auroc_low": limits[0][0], f"{key}_auroc_high": limits[0][1]}
            values |= {f"{key}_log_probability": found[1], f"{key}_difference_low": limits[2][0]}
        bad = definitions["bad"]
        values |= {f"{name}_suspect": float(suspect.mean()), f"{name}_bad": float(bad.mean())}
        if bad.any() and suspect.any():
            values |= {f"{name}_recall": float(suspect[bad].mean()), f"{name}_precision": float(bad[suspect].mean())}
    return values


def run_triage(planted: Sequence[Planted], model: TriageModel | None) -> list[TriageResult]:
    """Return the triage in the order of the pairs; with a model, like the command with both files."""
    sources, targets = [one.source for one in planted], [one.target for one in planted]
    if model is None:
        found, _ = rank_texts(sources, targets)
    else:
        found, _ = rank_measured(model.measure(sources, targets), model.sha256, False)
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
            result[f"{way}_found_by_text"] = round(sum(bool(seen - NEED_MODEL) for seen in those) / len(those), 3)
    untouched = [bool(seen) for one, seen in zip(planted, flags, strict=True) if not one.way]
    result["untouched_flagged"] = round(sum(untouched) / max(1, len(untouched)), 3)
    worst = sorted(found, key=lambda one: (-one.score, one.number))[: sum(bool(one.way) for one in planted)]
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


def measure_flags(data: Path, model: TriageModel | None, seed: int, misses: bool) -> dict[str, float]:
    """Print the figures of planted errors in both halves; return those of the held-out half."""
    names = [name for name in FOR if model or name not in NEED_MODEL]
    values: dict[str, float] = {}
    for title, corpora in HALVES.items():
        planted = half(data, *corpora, seed)
        triaged = run_triage(planted, model)
        values = {"held_out": len(planted), **figures(planted, triaged, names)}
        damaged = sum(bool(one.way) for one in planted)
        print(f"{title}: {damaged} damaged, {len(planted) - damaged} untouched")
        print("\n".join(f"  {name:28}{value:g}" for name, value in values.items()), flush=True)
        if misses and title == "first half":
            show_misses(planted, triaged)
    return values


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the corpora")
    parser.add_argument("--model", default="demo", help="run or bundle (default: the demo)")
    parser.add_argument("--text-only", action="store_true", help="use no model")
    parser.add_argument("--fit", type=Path, metavar="FILE", help="fit the weights, and write them to FILE")
    parser.add_argument("--lines", type=int, default=LINES, help=f"lines of each set (default: {LINES})")
    parser.add_argument("--misses", action="store_true", help="show the errors of the first half")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    model, values = None, {}
    if not options.text_only:
        model = TriageModel.of(open_bundle(options.model))
        calibration = fit(model, options.data, options.lines) if options.fit else load_calibration()
        if options.fit:
            options.fit.write_text(calibration.model_dump_json(indent=2) + "\n", encoding="utf-8")
        everyday = options.data / "everyday-en-de" / "everyday.tsv"
        sets = read_references(options.data, TEST_SETS, everyday, options.lines)
        values = measure_score(model, calibration, sets, options.seed)
    print_values("triage", values | measure_flags(options.data, model, options.seed, options.misses))


if __name__ == "__main__":
    main()
