"""The model that comes with the program: small, whole, with its terms; and it translates."""

import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.bundle import Bundle, demo_folder, open_bundle
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.translation.translator import Translator

LARGEST = 20_000_000


@pytest.fixture(scope="module")
def demo() -> Bundle:
    return open_bundle(demo_folder())


def test_it_is_small_enough_to_travel(demo: Bundle) -> None:
    assert sum(path.stat().st_size for path in demo.folder.rglob("*") if path.is_file()) <= LARGEST


def test_its_card_says_where_it_is_from_and_what_it_is_worth(demo: Bundle) -> None:
    assert (demo.info.source_language, demo.info.target_language) == ("en", "de")
    assert {data.name for data in demo.card.data} == {"tatoeba", "libreoffice"}
    assert all(data.licence and data.attribution for data in demo.card.data)
    measured = {score.test_set for score in demo.card.scores}
    assert measured >= {"tatoeba_2021", "tatoeba_2023", "multi30k_2016", "flores", "newstest2013", "everyday texts"}
    assert all(score.command and score.low is not None for score in demo.card.scores)
    assert all(score.signature for score in demo.card.scores if score.metric != "AER")
    assert {path.name for path in (demo.folder / "licences").iterdir()} == {"CC-BY-2.0.txt", "MPL-2.0.txt"}
    assert "creativecommons.org/licenses/by/2.0/fr/" in str(demo.card.licence)
    assert demo.card.command
    assert "tatoeba.org" in (Path(demo.folder) / "README.md").read_text(encoding="utf-8")


def test_it_knows_the_head_that_was_trained_to_align(demo: Bundle) -> None:
    guided = AlignmentHead(layer="decoder.layers.1.cross_attention", head=0, rows="read", measure="attention")
    assert demo.info.alignment_heads == (guided,)  # docs/results.md has what it is worth


def test_it_translates(demo: Bundle) -> None:
    translations = Translator.load(demo).translate(["Where is the station?", "", "The cat is sleeping on the sofa."])
    assert translations == ["Wo ist der Bahnhof?", "", "Die Katze schläft auf dem Sofa."]


def test_it_is_translated_with_ctranslate2_by_an_export_that_was_proven(demo: Bundle) -> None:
    (export,) = demo.exports
    assert (export.store, export.kept, export.proof.held_out) == ("float32", False, True)
    assert export.proof.texts > 900
    assert export.proof.identical >= 0.998 * export.proof.texts
    assert export.proof.largest_difference < 1e-4
    translator = Translator.load(demo)
    assert translator.engine.name == "ctranslate2"


@pytest.mark.slow
def test_it_needs_nothing_of_the_training_stack() -> None:
    code = """
import sys
from dragoman.cli.main import main
sys.argv = ["dragoman", "translate", "demo", "A dog is running."]
try:
    main()
finally:
    for name in ("torch", "pyarrow", "matplotlib", "sacrebleu"):
        assert name not in sys.modules, name
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "Ein Hund läuft.\n"), done.stderr
