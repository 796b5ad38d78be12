"""Install an .argosmodel with Argos Translate, and compare its answers with CTranslate2's.

Argos Translate has large dependencies, so this script runs in an environment of its own (pip install
argostranslate==1.11.0), and not in CI:

    python scripts/try_argos.py FOLDER --texts dev.en --lines 100

FOLDER is what `dragoman export MODEL --as argos --out FOLDER` wrote. Argos Translate downloads its sentence splitter;
with --no-split, or if the splitter cannot be had, each line is passed on whole.
"""

import argparse
import gzip
import os
import sys
import tempfile
from pathlib import Path


def read_lines(path: Path, count: int) -> list[str]:
    """Return the first lines of a text file, which may be compressed by gzip."""
    content = path.read_bytes()
    lines = (gzip.decompress(content) if path.suffix == ".gz" else content).decode().splitlines()
    return [line.strip() for line in lines[:count]]


def main() -> None:
    """Install the package in a temporary folder, translate, compare, and print the number of equal answers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder with an .argosmodel")
    parser.add_argument("--texts", type=Path, required=True, help="source sentences, one per line; .gz is read too")
    parser.add_argument("--lines", type=int, default=100, help="number of sentences")
    parser.add_argument("--no-split", action="store_true", help="pass each line on whole")
    arguments = parser.parse_args()
    (package_file,) = arguments.folder.glob("*.argosmodel")
    with tempfile.TemporaryDirectory() as place:
        for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
            os.environ[name] = place  # read at the import below
        compare(package_file, read_lines(arguments.texts, arguments.lines), arguments.no_split)


def compare(package_file: Path, texts: list[str], no_split: bool) -> None:
    """Translate the texts with Argos Translate and with CTranslate2 by the same options; exit with 1 if they differ."""
    import argostranslate.package as argos_package
    import argostranslate.settings as settings
    import argostranslate.translate as argos
    import ctranslate2
    import sentencepiece

    argos_package.install_from_path(package_file)
    (package,) = argos_package.get_installed_packages()
    languages = {language.code: language for language in argos.get_installed_languages()}
    translation = languages[package.from_code].get_translation(languages[package.to_code])
    splitter = translation.underlying.sentencizer
    if not no_split:
        try:
            splitter.split_sentences(texts[0])
        except Exception as error:  # whatever the download raises
            print(f"no sentence splitter ({error}): each line is passed on whole", file=sys.stderr)
            no_split = True
    if no_split:
        splitter.split_sentences = lambda text: [text]
    found = [translation.translate(text) for text in texts]

    subwords = sentencepiece.SentencePieceProcessor(model_file=str(package.package_path / "sentencepiece.model"))
    model = ctranslate2.Translator(str(package.package_path / "model"), compute_type=settings.compute_type)
    different = 0
    for text, answer in zip(texts, found, strict=True):
        tokens = [subwords.encode(part, out_type=str) for part in splitter.split_sentences(text)]
        results = model.translate_batch(tokens, beam_size=settings.beam_size, length_penalty=0.2, replace_unknowns=True)
        expected = subwords.decode_pieces([piece for result in results for piece in result.hypotheses[0]])
        if answer != expected:
            different += 1
            print(f"{text!r}\n  Argos Translate: {answer!r}\n  CTranslate2:     {expected!r}")
    num_kinds = len(set(found))
    print(f"{package}: {len(texts) - different} of {len(texts)} answers are CTranslate2's ({num_kinds} different ones)")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
