"""Gives the demo bundle an export for CTranslate2, proven on sentences that were kept from its training.

    python scripts/demo_export.py DEV.en[.gz] [--scores NAME=SOURCE,REFERENCE ...]

The weights and the vocabulary stay as they are, byte for byte. The search becomes one that both engines can do
(stop: count), and the export is only described, so that the wheel does not carry the weights twice. Scores of the card
that are given with their test sets are measured again with it. Running it twice changes nothing.
"""

import argparse
import sys

from dragoman.bundle import Bundle, CardScore, demo_folder, open_bundle, write_bundle
from dragoman.bundle.info import WEIGHTS
from dragoman.data.durable import digest
from dragoman.decoding.proof import export_bundle
from dragoman.decoding.translator import Translator
from dragoman.evaluation.metrics import compare
from dragoman.evaluation.reading import Reading
from dragoman.evaluation.text import read_text

SENTENCES = 1000
UNCHANGED = (WEIGHTS, "vocab.model")


def main() -> None:
    """Rewrite the bundle in place, and say what it is now."""
    given = _given()
    folder = demo_folder()
    before = {name: digest(folder / name) for name in UNCHANGED}
    bundle = _with_search(open_bundle(folder))
    bundle = _exported(bundle, given.texts)
    if given.scores:
        bundle = _measured(bundle, [test.partition("=")[::2] for test in given.scores])
        bundle = _exported(bundle, given.texts)
    after = {name: digest(folder / name) for name in UNCHANGED}
    if before != after:
        sys.exit(f"{folder}: the weights or the vocabulary have changed: take the bundle back from the repository")
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{folder}: {size:,} bytes, sha256 {bundle.sha256}\n{bundle.exports[0].proof}")


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", help="source sentences to prove it on")
    parser.add_argument("--scores", nargs="*", default=[], metavar="NAME=SOURCE,REFERENCE")
    return parser.parse_args()


def _exported(bundle: Bundle, texts: str) -> Bundle:
    return export_bundle(bundle.folder, "float32", read_text(texts).lines[:SENTENCES], keep=False)


def _with_search(bundle: Bundle) -> Bundle:
    info = bundle.info.model_copy(update={"search": {**bundle.info.search, "stop": "count"}})
    return write_bundle(bundle.folder, info, bundle.weights(), bundle.vocab, bundle.card, "float16")


def _measured(bundle: Bundle, tests: list[tuple[str, str]]) -> Bundle:
    """With the scores that the card has of these test sets, measured anew."""
    translator, found = Translator.of(bundle), dict[tuple[str, str], CardScore]()
    for name, files in tests:
        source, reference = map(read_text, files.split(","))
        hypotheses = translator.translate(source.lines)
        for score in compare([hypotheses], [reference.lines], ["bleu", "chrf"], Reading())[0]:
            found[name, score.metric] = CardScore(**score.model_dump(exclude={"p_value"}), test_set=name)
            print(f"{name}: {score.metric} {score.value:.2f}")
    scores = [_again(old, found.get((old.test_set, old.metric))) for old in bundle.card.scores]
    card = bundle.card.model_copy(update={"scores": tuple(scores)})
    return write_bundle(bundle.folder, bundle.info, bundle.weights(), bundle.vocab, card, "float16")


def _again(old: CardScore, new: CardScore | None) -> CardScore:
    return old if new is None else new.model_copy(update={"command": old.command})


if __name__ == "__main__":
    main()
