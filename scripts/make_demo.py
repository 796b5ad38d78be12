"""Make the built-in model again: train twice, and put the result into the package.

    python scripts/make_demo.py FOLDER [--eflomal PROGRAM] [--time 184m 100m] [--only links|recipe|train|install]

The first training is the recipe en-de-general. The second begins with the model of the first, at a lower learning rate,
with more typing errors and with a head guided by eflomal's word links (`pip install eflomal` in another environment;
without --eflomal, by the links that the first one learned). The corpora are below DRAGOMAN_DATA. A step whose files
exist is not made again, and interrupted trainings resume.

`install` writes the bundle to src/dragoman/demo (or --demo), with the commands that measured its scores, those on
everyday texts and of word links among them, and checks on 1,000 dev sentences that CTranslate2 translates as torch
does. Only the hash of the export is stored, so that the wheel does not carry the weights twice.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

import dragoman
from dragoman.alignment.error_rate import alignment_score
from dragoman.alignment.moses import read_gold, to_moses
from dragoman.alignment.symmetrise import symmetrise_all
from dragoman.bundle import demo_folder, open_bundle, write_bundle
from dragoman.bundle.card import CardScore
from dragoman.evaluation.metrics import score_translations
from dragoman.evaluation.text_files import read_text
from dragoman.io.streams import read_blocks
from dragoman.recipes.catalog import library_path
from dragoman.translation.export_check import export_bundle

DATA = Path(os.environ.get("DRAGOMAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
RECIPE = "en-de-general"
SENTENCES = 1000
AROUND_WORDS = re.compile(r"^\W+|\W+$")
STEPS = ("links", "recipe", "train", "install")


def first_recipe() -> dict[str, Any]:
    """Return the recipe of the first training, as it is written."""
    recipe: dict[str, Any] = yaml.safe_load(library_path(RECIPE).read_text(encoding="utf-8"))
    return recipe


def second_recipe(folder: Path, time: str) -> dict[str, Any]:
    """Return the recipe of the second training, which takes the vocabulary and the shape of the first model."""
    recipe = first_recipe()
    del recipe["data"]["vocabulary"]
    for corpus in recipe["data"]["train"]:
        corpus["links"] = str(links_file(folder, corpus["name"]))
    training = recipe["training"]
    training["augment"] |= {"upper_case": 0.01, "title_case": 0.02, "typing_errors": 0.1}
    training["guided_alignment"] = {"weight": 0.1}
    training["schedule"] |= {"rate": 7e-4, "warmup": 200}
    training["stop"]["time"] = time
    return {**recipe, "init": {"bundle": str(folder / "first")}, "model": {"dropout": recipe["model"]["dropout"]}}


def links_file(folder: Path, corpus: str) -> Path:
    """Return the path of eflomal's links, or of those of the first training."""
    made = folder / f"{corpus}.links"
    return made if made.exists() else folder / "first" / "links" / f"{corpus}.links"


def write_links(folder: Path, eflomal: str) -> None:
    """Align the words of all corpora together, in lower case and without the punctuation around them."""
    corpora = {corpus["name"]: corpus for corpus in first_recipe()["data"]["train"]}
    sides = {side: {name: lines_of(corpus[side]) for name, corpus in corpora.items()} for side in ("source", "target")}
    with tempfile.TemporaryDirectory() as temporary:
        for side, lines in sides.items():
            text = "".join(f"{' '.join(map(plain, line.split()))}\n" for corpus in lines.values() for line in corpus)
            Path(temporary, side).write_text(text, encoding="utf-8")
        names = {
            letter: f"{temporary}/{name}" for letter, name in zip("stfr", ("source", "target", "f", "r"), strict=True)
        }
        subprocess.run(
            [eflomal, *(part for letter, name in names.items() for part in (f"-{letter}", name))], check=True
        )
        forward, backward = ([read_links(line) for line in Path(names[way]).read_text().splitlines()] for way in "fr")
    links = iter(symmetrise_all(forward, backward, "grow-diag-final-and"))
    for name, part in sides["source"].items():
        text = "".join(f"{to_moses(next(links))}\n" for _ in part)
        (folder / f"{name}.links").write_text(text, encoding="utf-8")


def lines_of(address: str) -> list[str]:
    """Return the lines of a file, unpacked."""
    content = b"".join(read_blocks(os.path.expandvars(address)))
    return content.decode(errors="replace").removesuffix("\n").split("\n")


def plain(word: str) -> str:
    """Return a word as the aligner compares it."""
    return AROUND_WORDS.sub("", word.lower()) or word


def read_links(line: str) -> frozenset[tuple[int, int]]:
    """Return the links of a line such as `0-0 1-2`."""
    return frozenset((int(source), int(target)) for source, _, target in (link.partition("-") for link in line.split()))


def train(folder: Path, times: list[str]) -> None:
    """Train the model of the recipe, then the second one, which begins with it."""
    first = [RECIPE, "--set", f"training.stop.time={times[0]}"]
    for name, what in (("first", first), ("second", [str(folder / "second.yaml")])):
        if name == "second":
            write_second(folder, times[1])
        command = [sys.executable, "-m", "dragoman", "train", *what, "--out", str(folder / name), "--processes", "2"]
        subprocess.run(command, check=True)


def write_second(folder: Path, time: str) -> None:
    """Write the recipe of the second training."""
    text = yaml.safe_dump(second_recipe(folder, time), sort_keys=False, allow_unicode=True)
    (folder / "second.yaml").write_text(text, encoding="utf-8")


def install(folder: Path, demo: Path, dev: str) -> None:
    """Write the bundle of the second training to the package, and print its size and hash."""
    bundle = open_bundle(folder / "second")
    files = {test["name"]: test for test in first_recipe()["data"]["test"]} | {"dev": first_recipe()["data"]["dev"]}
    names = {name: [Path(test[side]).name for side in ("source", "target")] for name, test in files.items()}
    commands = {
        name: f"dragoman evaluate src/dragoman/demo --source {source} --reference {target}"
        for name, (source, target) in names.items()
    }
    scores = tuple(
        score.model_copy(update={"command": commands.get(str(score.test_set), score.command)})
        for score in bundle.card.scores
    )
    made = "python scripts/make_demo.py FOLDER --eflomal eflomal-align"
    licence = f"{bundle.card.licence}. The texts of CC-BY 2.0 and of MPL-2.0 are in the folder licences."
    card = bundle.card.model_copy(update={"scores": scores, "command": made, "licence": licence})
    write_bundle(demo, bundle.info, bundle.weights(), bundle.vocab, card, "float16")
    more = tuple(everyday_scores(demo)) + tuple(alignment_scores(demo))
    card = card.model_copy(update={"scores": (*scores, *more)})
    write_bundle(demo, bundle.info, bundle.weights(), bundle.vocab, card, "float16")
    written = export_bundle(demo, "float32", read_text(dev).lines[:SENTENCES], keep=False)
    size = sum(path.stat().st_size for path in demo.iterdir() if path.is_file())
    print(f"{demo}: {size:,} bytes, sha256 {written.sha256}\n{written.exports[0].proof}")


def everyday_scores(demo: Path) -> Iterator[CardScore]:
    """Yield the scores of everyday texts with two references, if the texts are there."""
    if not (table := DATA / "everyday-en-de" / "everyday.tsv").exists():
        return
    rows = [line.split("\t") for line in read_text(str(table)).lines[1:]]
    _, _, english, *references = ([row[column] for row in rows] for column in range(5))
    command = "python bench/everyday.py src/dragoman/demo --texts everyday.tsv"
    scores = score_translations(dragoman.load(demo).translate(english), references, ("bleu", "chrf"))
    for score in scores.values():
        limits = {"value": score.value, "low": score.low, "high": score.high}
        yield CardScore(
            metric=score.metric, signature=score.signature, test_set="everyday texts", command=command, **limits
        )


def alignment_scores(demo: Path) -> Iterator[CardScore]:
    """Yield the alignment error rate of the stored head in percent, if the gold links are there."""
    if not (folder := DATA / "align-de-en").exists():
        return
    english, german = (read_text(str(folder / f"test.{language}.gz")).lines for language in ("en", "de"))
    gold = [links.swapped() for links in read_gold(read_text(str(folder / "gold.talp.gz")).lines)]
    result = alignment_score(map(frozenset, dragoman.load(demo).align(english, german)), gold)
    low, high = result.interval()
    command = "dragoman align src/dragoman/demo --source test.en --target test.de --gold gold.talp --swap-gold"
    limits = {"value": 100 * result.aer, "low": 100 * low, "high": 100 * high}
    yield CardScore(metric="AER", test_set="508 sentences of Europarl", command=command, **limits)


def main() -> None:
    """Make all steps, or one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--eflomal", metavar="PROGRAM", help="path of eflomal-align")
    parser.add_argument("--time", nargs=2, default=["184m", "100m"], metavar="TIME", help="of each training")
    parser.add_argument("--only", choices=STEPS, help="make one step alone")
    parser.add_argument("--demo", type=Path, default=demo_folder(), metavar="DIR", help="where to install the model")
    parser.add_argument("--dev", help="sentences for the check; default: the recipe's")
    options = parser.parse_args()
    steps = {options.only} if options.only else {*STEPS}
    options.folder.mkdir(parents=True, exist_ok=True)
    names = [corpus["name"] for corpus in first_recipe()["data"]["train"]]
    if "links" in steps and options.eflomal and not all((options.folder / f"{name}.links").exists() for name in names):
        write_links(options.folder, options.eflomal)
    if "recipe" in steps:
        write_second(options.folder, options.time[1])
    if "train" in steps:
        train(options.folder, options.time)
    if "install" in steps:
        install(
            options.folder, options.demo, options.dev or os.path.expandvars(first_recipe()["data"]["dev"]["source"])
        )


if __name__ == "__main__":
    main()
