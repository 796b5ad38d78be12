"""Score statistical aligners on a set with gold alignments, as a baseline for a model's attention.

IBM model 1 and `learned`, the aligner of `dragoman align` without a model, always run; eflomal runs if `eflomal-align`
exists (`pip install eflomal` in a separate environment, then --eflomal FOLDER/bin/eflomal-align). All are trained in
both directions on pairs that are tokenised and cased like the gold set. Model 1 and `learned` then align the gold set
without having seen it. eflomal aligns a set by sampling over it, so it also learns from the gold set's sentences, with
the other pairs as priors. `+ test` adds the gold set's sentences to the training pairs, as most of the literature does.
Error rates are of each direction and of both symmetrised: `forward` gives each target word a source word, `backward`
each source word a target word. `diagonal` uses sentence lengths only.
The last line has the lowest error rate of each aligner over all directions and symmetrisations.

    python bench/aligners.py --source A.de --target A.en --test-source T.de --test-target T.en --gold T.talp

Gold links are in source-target order; otherwise use --swap.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, get_args

from ibm1 import train
from report import option_parser, print_values
from texts import read_lines, write_lines

from dragoman.alignment.error_rate import AlignmentScore, alignment_score
from dragoman.alignment.learned_links import best_links, learn_both_directions
from dragoman.alignment.links import Links, diagonal, swap
from dragoman.alignment.moses import Gold, read_gold
from dragoman.alignment.symmetrise import Symmetrisation, symmetrise
from dragoman.data.word_aligner import WordAligner

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


def by_learning(known: Pairs, test: Pairs) -> Both:
    """Align with the aligner of `dragoman align`, together with the known pairs if the test pairs end them."""
    (source, target), (test_source, test_target) = (sentences(known), sentences(test))
    if known[-len(test) :] == test:
        return Both(*(links[-len(test) :] for links in learn_both_directions(source, target)))
    there = WordAligner(source, target).best(test_source, test_target)
    back = WordAligner(target, source).best(test_target, test_source)
    return Both(best_links(there), [swap(links) for links in best_links(back)])


def sentences(known: Pairs) -> tuple[list[str], list[str]]:
    return [" ".join(a) for a, _ in known], [" ".join(b) for _, b in known]


def by_eflomal(program: str, known: Pairs, test: Pairs) -> Both:
    """Align test pairs with the known ones if they end them, else afterwards with the known ones as priors."""
    priors = str(Path(program).with_name("eflomal-makepriors"))
    with tempfile.TemporaryDirectory() as folder:
        of_known, of_test = write(Path(folder, "known"), known), write(Path(folder, "test"), test)
        subprocess.run([program, *of_known], check=True)
        if known[-len(test) :] == test:
            return Both(*(read_links(path)[-len(test) :] for path in of_known[5::2]))
        subprocess.run([priors, *of_known, "-p", f"{folder}/priors"], check=True)
        subprocess.run([program, *of_test, "-p", f"{folder}/priors"], check=True)
        return Both(*(read_links(path) for path in of_test[5::2]))


def read_links(path: str) -> list[Links]:
    """Read the lines `0-0 1-2` that eflomal wrote."""
    pairs = ([link.split("-") for link in line.split()] for line in read_lines(path))
    return [frozenset((int(source), int(target)) for source, target in of_line) for of_line in pairs]


def write(folder: Path, sentences: Pairs) -> list[str]:
    """Write both sides; return eflomal's options for them and for its links."""
    folder.mkdir()
    for i, name in enumerate(("source", "target")):
        write_lines(folder / name, (" ".join(pair[i]) for pair in sentences))
    options = zip("stfr", ("source", "target", "forward", "backward"), strict=True)
    return [part for letter, name in options for part in (f"-{letter}", str(folder / name))]


def scores(both: Both, gold: list[Gold]) -> dict[str, AlignmentScore]:
    links_by_way: dict[str, Iterable[Links]] = {"forward": both.forward, "backward": both.backward}
    for method in get_args(Symmetrisation):
        links_by_way[method] = [symmetrise(a, b, method) for a, b in zip(*both, strict=True)]
    return {name: alignment_score(links, gold) for name, links in links_by_way.items()}


def show(name: str, by_way: dict[str, AlignmentScore]) -> float:
    for way, score in by_way.items():
        low, high = score.interval()
        print(
            f"{name:16} {way:20} AER {100 * score.aer:5.1f} [{100 * low:.1f}, {100 * high:.1f}]"
            f"   precision {100 * score.precision:5.1f}   recall {100 * score.recall:5.1f}"
        )
    return round(min(score.aer for score in by_way.values()), 4)


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--source", required=True, nargs="+", help="source sides of the training pairs")
    parser.add_argument("--target", required=True, nargs="+", help="their target sides")
    for name in ("--test-source", "--test-target", "--gold"):
        parser.add_argument(name, required=True)
    parser.add_argument("--swap", action="store_true", help="gold is in target-source order")
    parser.add_argument("--eflomal", default=shutil.which("eflomal-align"), help="path of eflomal-align")
    options = parser.parse_args()
    known = [
        pair
        for a, b in zip(options.source, options.target, strict=True)
        for pair in pairs(read_lines(a), read_lines(b))
    ]
    known = [pair for pair in known if all(pair)]
    test = pairs(read_lines(options.test_source), read_lines(options.test_target))
    gold = [links.swapped() if options.swap else links for links in read_gold(read_lines(options.gold), options.gold)]
    guess = alignment_score([diagonal(len(a), len(b)) for a, b in test], gold)
    values = {"diagonal": show("diagonal", {"": guess})}
    aligners: dict[str, Callable[[Pairs, Pairs], Both]] = {"ibm1": by_ibm1, "learned": by_learning}
    if options.eflomal:
        aligners["eflomal"] = lambda *sets: by_eflomal(options.eflomal, *sets)
    for name, aligner in aligners.items():
        values[name] = show(name, scores(aligner(known, test), gold))
        values[f"{name}_with_test"] = show(f"{name} + test", scores(aligner(known + test, test), gold))
    print_values("aligners", {"pairs": len(known), **values}, 4)


if __name__ == "__main__":
    main()
