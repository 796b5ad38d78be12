"""Export the demo bundle for CTranslate2, checked on held-out sentences.

    python scripts/demo_export.py DEV.en[.gz] [--scores NAME=SOURCE,REFERENCE ...] [--bundle FOLDER]

The weights and the vocabulary keep their bytes. The search becomes one that both engines support (stop: count), and
only the hash of the export is stored, so that the wheel does not carry the weights twice. Scores of the card whose test
sets are named are measured again. Running it twice changes nothing.
"""

import argparse
import sys
from pathlib import Path

from dragoman.bundle import Bundle, CardScore, demo_folder, open_bundle, write_bundle
from dragoman.bundle.file_names import WEIGHTS
from dragoman.evaluation.metrics import score_translations
from dragoman.evaluation.text_files import read_text
from dragoman.io.durable import hash_file
from dragoman.translation.export_check import export_bundle
from dragoman.translation.translator import Translator

SENTENCES = 1000
UNCHANGED = (WEIGHTS, "vocab.model")


def main() -> None:
    """Rewrite the bundle in place and print its new size and hash."""
    options = _parse()
    folder = options.bundle
    before = {name: hash_file(folder / name) for name in UNCHANGED}
    bundle = _with_search(open_bundle(folder))
    bundle = _exported(bundle, options.texts)
    if options.scores:
        bundle = _measured(bundle, [test.partition("=")[::2] for test in options.scores])
        bundle = _exported(bundle, options.texts)
    after = {name: hash_file(folder / name) for name in UNCHANGED}
    if before != after:
        sys.exit(f"{folder}: the weights or the vocabulary have changed: restore the bundle from the repository")
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{folder}: {size:,} bytes, sha256 {bundle.sha256}\n{bundle.exports[0].proof}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", help="source sentences for the check")
    parser.add_argument("--bundle", type=Path, default=demo_folder(), help="default: the demo")
    parser.add_argument("--scores", nargs="*", default=[], metavar="NAME=SOURCE,REFERENCE")
    return parser.parse_args()


def _exported(bundle: Bundle, texts: str) -> Bundle:
    return export_bundle(bundle.folder, "float32", read_text(texts).lines[:SENTENCES], keep=False)


def _with_search(bundle: Bundle) -> Bundle:
    info = bundle.info.model_copy(update={"search": {**bundle.info.search, "stop": "count"}})
    return write_bundle(bundle.folder, info, bundle.weights(), bundle.vocab, bundle.card, "float16")


def _measured(bundle: Bundle, tests: list[tuple[str, str]]) -> Bundle:
    """Measure the card's scores on these test sets again."""
    translator, measured = Translator.load(bundle), dict[tuple[str, str], CardScore]()
    for name, files in tests:
        source, reference = map(read_text, files.split(","))
        hypotheses = translator.translate(source.lines)
        for score in score_translations(hypotheses, [reference.lines], ["bleu", "chrf"]).values():
            measured[name, score.metric] = CardScore(**score.model_dump(exclude={"p_value"}), test_set=name)
            print(f"{name}: {score.metric} {score.value:.2f}")
    scores = [_replace(old, measured.get((old.test_set, old.metric))) for old in bundle.card.scores]
    card = bundle.card.model_copy(update={"scores": tuple(scores)})
    return write_bundle(bundle.folder, bundle.info, bundle.weights(), bundle.vocab, card, "float16")


def _replace(old: CardScore, new: CardScore | None) -> CardScore:
    return old if new is None else new.model_copy(update={"command": old.command})


if __name__ == "__main__":
    main()
