"""The wording of messages: what real commands with real mistakes print, compared with messages.txt.

This is the only place that asserts wording; other tests assert behaviour. After an intended change, regenerate the
file and review its diff:

    python tests/golden/test_messages.py --write
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pytest

HERE = Path(__file__).parent
MESSAGES = HERE / "messages.txt"

RECIPE = """\
name: small
data:
  train: [{source: a.en, target: a.de}]
  dev: {source: dev.en, target: dev.de}
  vocabulary: {size: 300}
model: {preset: tiny}
training:
  schedule: {factors: [warmup], rate: 1e-3, warmup: 1}
  stop: {updates: 2}
"""
TMX = """<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en"><seg>One dog.</seg></tuv><tuv xml:lang="de"><seg>Ein Hund.</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Two cats.</seg></tuv><tuv xml:lang="{}"><seg>Deux chats.</seg></tuv></tu>
</body></tmx>
"""
FILES = {
    "a.en": "One dog.\nTwo cats.\nThree birds.\n",
    "a.de": "Ein Hund.\nZwei Katzen.\nDrei Vögel.\n",
    "dev.en": "Four dogs.\n",
    "dev.de": "Vier Hunde.\n",
    "short.de": "Ein Hund.\nZwei Katzen.\n",
    "empty.en": "",
    "bad.jsonl": '{"text": "One dog."}\n{"text": 3}\n',
    "broken.jsonl": '{"text": "One dog."\n',
    "table.csv": "a,b\n",
    "twice.tsv": "dog\tHund\ncat\tKatze\ndog\tKöter\n",
    "gold.talp": "0-0\n",
    "three.csv": "id,English,German\n1,One dog.,Ein Hund.\n",
    "quote.csv": 'en,de\n"One dog.,Ein Hund.\n',
    "comma.csv": "en,de\nOne dog, two cats,Ein Hund\n",
    "three.tmx": TMX.format("fr"),
    "entity.tmx": '<!DOCTYPE tmx [<!ENTITY a "b">]>\n' + TMX.format("de"),
    "cut.tmx": TMX.format("de")[:-20],
    "bad.po": 'msgid "One dog."\nmsgstr "Ein "Hund"."\n',
    "none.xlf": '<xliff version="2.0" srcLang="en"><file id="f"/></xliff>\n',
    "recipe.yaml": RECIPE,
    "keys.yaml": RECIPE.replace("preset", "prset").replace("updates: 2", "updates: two"),
    "section.yaml": RECIPE + "  r_drop: 1.0\n",
    "syntax.yaml": "name: [small\n",
    "missing.yaml": RECIPE.replace("a.en", "absent.en"),
    "conflict.yaml": RECIPE.replace("preset: tiny", "preset: tiny, dropout: 0.0").replace(
        "  stop", "  loss: {r_drop: 1.0}\n  stop"
    ),
    "variable.yaml": RECIPE.replace("a.en", '"${NO_SUCH_VARIABLE}/a.en"'),
    "same.yaml": RECIPE.replace("dev.en", "a.en").replace("dev.de", "a.de"),
}
COMMANDS = """\
translat "One dog."
translate v1 --bem 3 "One dog."
translate v1 --beam 0 "One dog."
translate v1 --nbest 100 "One dog."
translate v1 --engine tpu "One dog."
translate v1 --engine torch --compute int8 "One dog."
translate absent "One dog."
translate dmo "One dog."
translate v1 -one
translate --demo "One dog."
translate damaged "One dog."
translate incomplete "One dog."
translate v1 --input absent.en
translate v1 --input bad.jsonl
translate v1 --input broken.jsonl
translate v1 --input table.csv
translate v1 --input a.en --output absent/a.de
translate v1 --protect --no-split --prefix Ein "One dog." "Two dogs."
translate v1 --glossary absent.tsv "One dog."
translate v1 --glossary a.en "One dog."
translate v1 --glossary twice.tsv "One dog."
translate v1 --terms "One dog."
translate v1 --shards a.en
translate v1 --shards 'absent*.en' --out out
translate v1 --shards a.en --out out --shard-index 3/2
backtranslate v1 --shards 'absent*.en' --out out
distill v1 --source a.en --out out --size 6
distill v1 --source absent.en --out out
train keys.yaml --out run
train section.yaml --out run
train syntax.yaml --out run
train missing.yaml --out run
train conflict.yaml --out run
train variable.yaml --out run
train same.yaml --out run
train absent.yaml --out run
train recipe.yaml
train recipe.yaml --out run --set model.droput=0.1
train recipe.yaml --out run --set training.stop.updates=many
train recipe.yaml --out run --set training
train recipe.yaml --out run --time tomorrow
train recipe.yaml --out run --processes 0
train --source a.en --out run
train --source a.en --target short.de --out run
train --from demo --source a.en --target a.de --keep a.en --out run
train --source a.en --target a.de --out run
train --pairs a.en --out run
train --pairs three.csv --out run
train --pairs quote.csv --out run
train --pairs comma.csv --out run
train --pairs three.tmx --out run
train --pairs three.tmx --fields en,es --out run
train --pairs three.tmx --fields en --out run
train --pairs entity.tmx --out run
train --pairs cut.tmx --out run
train --pairs bad.po --out run
train --pairs none.xlf --out run
train recipe.yaml --pairs three.tmx --out run
prepare --out prepared
plan paper-bse
prepare --source a.en --target short.de --out prepared
prepare --source empty.en --target empty.en --out prepared
peek absent 3
evaluate a.de --reference short.de
evaluate v1 --reference a.de
evaluate v1
score v1 --source a.en
score v1 --pairs three.tmx --source a.en
score v1 --source a.en --target short.de
export absent
export v1 --to exported
export v1 --as onnx --out exported
export v1 --as argos
inspect "One dog." --model v1 --layer 9
explain "One dog." --model v1 --layer 9
align v1 --source a.en --target short.de
align --source a.en --target a.de --search --layer 0
align --demo
triage --source a.en --target short.de
evolve v1
evolve v1 --out evolution.html
serve absent
serve v1 --host 0.0.0.0
serve v1 --limit seconds=soon
serve v1 --limit absent=3
key shop --keys keys.yaml
example absent out
example date out
inspect "One dog." --png map.png
score v1 --source a.en --target ./a.en
"""


def prepare_folder(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name in ("v1", "damaged", "incomplete"):
        shutil.copytree(HERE / "v1", folder / name)
    weights = folder / "damaged" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0\0")
    (folder / "incomplete" / "config.json").unlink()


def message(command: str, folder: Path) -> str:
    """Run a command in this process and return its exit code and the text on standard error."""
    from dragoman.cli.main import main

    stderr, code = io.StringIO(), 0
    environment = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(sys, "argv", ["dragoman", *shlex.split(command)]))
        stack.enter_context(mock.patch.dict(os.environ, environment))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(stderr))
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    text = stderr.getvalue().replace(str(folder), "FOLDER")
    lines = [re.sub(r"[╭╮╰╯─│]+", "", line).strip() for line in text.splitlines()]
    shown = "\n".join(line for line in lines if line and not line.startswith(("Usage:", "Try ")))
    return f"$ dragoman {command}\n{shown}\nexit code {code}\n"


def transcript() -> str:
    """Run all commands in one folder of prepared files."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        prepare_folder(folder)
        os.chdir(folder)
        try:
            return "\n".join(message(command, folder) for command in COMMANDS.splitlines())
        finally:
            os.chdir(here)


@pytest.mark.slow
def test_messages_read_as_reviewed() -> None:
    """Run them in another process, where no types are checked, as for a user."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=True)
    expected = MESSAGES.read_text(encoding="utf-8").split("\n\n")
    for part, reviewed in zip(done.stdout.split("\n\n"), expected, strict=True):
        assert part.strip() == reviewed.strip(), (
            "after an intended change: python tests/golden/test_messages.py --write"
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        MESSAGES.write_text(transcript(), encoding="utf-8")
    else:
        print(transcript(), end="")
