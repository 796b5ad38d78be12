"""The guide to fine-tuning, followed as a new user would, with a random Marian model in place of a downloaded one."""

import random
import sys
from pathlib import Path

import pytest
from test_readme import ROOT, blocks, run

sys.path.insert(0, str(Path(__file__).parents[1] / "parity"))  # for marian_packages.py
from marian_packages import ENGLISH, GERMAN, MarianFiles, Words

from dragoman.bundle import open_bundle

GUIDE = ROOT / "docs" / "guides" / "finetune.md"
TEXTS = {"mine": 150, "old": 200, "test": 30}
"""The pairs that the user has collected, by the name of the files in the guide."""


def write_pairs(folder: Path, name: str, count: int) -> None:
    """Write pairs in which each English word has its German one."""
    draw, words = random.Random(name), list(zip(ENGLISH, GERMAN, strict=False))
    rows = [draw.choices(words, k=draw.randint(3, 9)) for _ in range(count)]
    for side, language in enumerate(("en", "de")):
        lines = (" ".join(word[side] for word in row) + ".\n" for row in rows)
        (folder / f"{name}.{language}").write_text("".join(lines), encoding="utf-8")


@pytest.mark.slow
def test_the_afternoon_of_the_guide(tmp_path: Path) -> None:
    for name, count in TEXTS.items():
        write_pairs(tmp_path, name, count)
    lines = [(tmp_path / f"old.{language}").read_text(encoding="utf-8").splitlines() for language in ("en", "de")]
    files = MarianFiles(Words.made(*lines, (60, 60)), layers=(1, 1))
    files.hugging_face(tmp_path / "opus-mt-en-de")

    printed = {}
    for _, block in blocks(GUIDE, "sh"):
        for command in block.splitlines():
            printed[command] = run(command, tmp_path)

    commands = [command.split()[:2] for command in printed if command.startswith("dragoman")]
    steps = ["import", "doctor", "train", "evaluate", "translate", "export", "export"]
    assert [words[1] for words in commands] == steps
    by_step = {command.split()[1]: " ".join(output.split()) for command, output in printed.items()}
    assert "imported: base" in by_step["import"]
    assert "test set pairs BLEU before after difference p dev " in by_step["train"]
    assert " kept 20 " in by_step["train"]
    assert by_step["translate"]
    model = open_bundle(tmp_path / "run")
    assert model.card.parent is not None
    assert model.card.parent.sha256 == open_bundle(tmp_path / "base").model_sha256
    assert model.card.parent.licence == "apache-2.0"
    assert (tmp_path / "for-transformers" / "config.json").is_file()
    assert (tmp_path / "for-ctranslate2" / "model.bin").is_file()
