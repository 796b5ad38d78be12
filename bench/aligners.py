"""Statistical aligners on a set with gold alignments: what a model's attention is measured against.

IBM model 1, always, and eflomal if `eflomal-align` is found (`pip install eflomal` in an environment of its own, then
--eflomal FOLDER/bin/eflomal-align). Both are trained in both directions on the pairs given, which must be tokenised and
cased as the gold set is. Then model 1 aligns the gold set blindly. eflomal cannot: it aligns a set by sampling over all
of it, so that it learns from the gold set's sentences too, with what it knows of the others as priors. `+ test` has the
set's own sentences among the pairs, as most of the literature does. Error rates are of each direction and of both made
one: `forward` gives each target word a source word, `backward` each source word a target word. `diagonal` knows the
lengths alone. Last, one JSON line, with the lowest error rate of each aligner, by whichever way.

    python bench/aligners.py --source A.de --target A.en --test-source T.de --test-target T.en --gold T.talp

Files are read as gzip if they end in .gz. Gold is in source-target order; --swap if it is not.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, get_args

from ibm1 import train
from texts import lines

from dragoman.data.alignment import Links, diagonal, swap
from dragoman.data.moses import Gold, read_gold, read_moses
from dragoman.data.symmetrise import Symmetrisation, symmetrise
from dragoman.inspection.aer import AlignmentScore, alignment_score

Pairs = list[tuple[list[str], list[str]]]


class Both(NamedTuple):
    """The links of the test pairs from each direction."""

    forward: list[Links]
    backward: list[Links]


def pairs(source: list[str], target: list[str]) -> Pairs:
    return [(a.split(), b.split()) for a, b in zip(source, target, strict=True)]


def by_ibm1(known: Pairs, test: Pairs) -> Both:
    source, target = map(list, zip(*known, strict=True))
    there, back = train(source, target), train(target, source)
    return Both([there.links(a, b) for a, b in test], [swap(back.links(b, a)) for a, b in test])


def by_eflomal(program: str, known: Pairs, test: Pairs) -> Both:
    """Test pairs at the end of the known are aligned with them; others after them, what was learnt given as priors."""
    priors = str(Path(program).with_name("eflomal-makepriors"))
    with tempfile.TemporaryDirectory() as folder:
        of_known, of_test = write(Path(folder, "known"), known), write(Path(folder, "test"), test)
        subprocess.run([program, *of_known], check=True)
        if known[-len(test) :] == test:
            return Both(*(list(read_moses(lines(path)))[-len(test) :] for path in of_known[5::2]))
        subprocess.run([priors, *of_known, "-p", f"{folder}/priors"], check=True)
        subprocess.run([program, *of_test, "-p", f"{folder}/priors"], check=True)
        return Both(*(list(read_moses(lines(path))) for path in of_test[5::2]))


def write(folder: Path, sentences: Pairs) -> list[str]:
    """Both sides as files; how eflomal is told of them and of where its links go."""
    folder.mkdir()
    for i, name in enumerate(("source", "target")):
        Path(folder, name).write_text("".join(" ".join(pair[i]) + "\n" for pair in sentences), encoding="utf-8")
    options = zip("stfr", ("source", "target", "forward", "backward"), strict=True)
    return [part for letter, name in options for part in (f"-{letter}", str(folder / name))]


def scores(found: Both, gold: list[Gold]) -> dict[str, AlignmentScore]:
    made: dict[str, Iterable[Links]] = {"forward": found.forward, "backward": found.backward}
    for method in get_args(Symmetrisation):
        made[method] = [symmetrise(a, b, method) for a, b in zip(*found, strict=True)]
    return {name: alignment_score(links, gold) for name, links in made.items()}


def show(name: str, by_way: dict[str, AlignmentScore]) -> float:
    for way, score in by_way.items():
        low, high = score.interval()
        print(
            f"{name:16} {way:20} AER {100 * score.aer:5.1f} [{100 * low:.1f}, {100 * high:.1f}]"
            f"   precision {100 * score.precision:5.1f}   recall {100 * score.recall:5.1f}"
        )
    return round(min(score.aer for score in by_way.values()), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True, nargs="+", help="source sides of the pairs to learn from")
    parser.add_argument("--target", required=True, nargs="+", help="their target sides")
    for name in ("--test-source", "--test-target", "--gold"):
        parser.add_argument(name, required=True)
    parser.add_argument("--swap", action="store_true", help="gold is in target-source order")
    parser.add_argument("--eflomal", default=shutil.which("eflomal-align"), help="the program")
    given = parser.parse_args()
    known = [pair for a, b in zip(given.source, given.target, strict=True) for pair in pairs(lines(a), lines(b))]
    known = [pair for pair in known if all(pair)]
    test = pairs(lines(given.test_source), lines(given.test_target))
    gold = [said.swapped() if given.swap else said for said in read_gold(lines(given.gold), given.gold)]
    guess = alignment_score([diagonal(len(a), len(b)) for a, b in test], gold)
    values = {"diagonal": show("diagonal", {"": guess})}
    aligners: dict[str, Callable[[Pairs, Pairs], Both]] = {"ibm1": by_ibm1}
    if given.eflomal:
        aligners["eflomal"] = lambda *sets: by_eflomal(given.eflomal, *sets)
    for name, aligner in aligners.items():
        values[name] = show(name, scores(aligner(known, test), gold))
        values[f"{name}_with_test"] = show(f"{name} + test", scores(aligner(known + test, test), gold))
    print(json.dumps({"bench": "aligners", "pairs": len(known), "values": values}))


if __name__ == "__main__":
    main()
