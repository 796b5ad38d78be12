"""`dragoman inspect` as installed: the map and its caption, the files, what if, and mistakes in one line."""

import csv
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import typer
from rich.cells import cell_len

from dragoman.alignment.moses import to_moses
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.bundle.writing import store_alignment_heads
from dragoman.cli import main as command
from dragoman.cli.inspect import inspect
from dragoman.inspection.head_search import head_links
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.intervene import counterfactual
from dragoman.inspection.interventions import HeadsOff, HeadsUniform
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import view

pytestmark = pytest.mark.slow

DRAGOMAN = Path(sys.executable).with_name("dragoman")
GOLDEN = Path(__file__).parents[1] / "golden"
MODEL = ("--model", str(GOLDEN / "v1"))
CROSS = "decoder.layers.0.cross_attention"
TEXT, GERMAN = "two red dogs.", "zwei rote Hunde."


class Done(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Done]
Shown = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> Run:
    """The command in this process, for torch takes seconds to import; those tests that are about it start their own."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(inspect)
    monkeypatch.setattr(command, "app", app)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, columns: int = 80) -> Done:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys, "argv", ["dragoman", *arguments])
        with pytest.raises(SystemExit) as ended:
            command.main()
        out, err = capfdbinary.readouterr()
        return Done(int(ended.value.code or 0), out.decode(), err.decode())

    return run


@pytest.fixture
def shown(run: Run) -> Shown:
    """What is printed, with the line breaks of the terminal taken out."""

    def shown(*arguments: str, columns: int = 80) -> str:
        code, out, err = run(*arguments, columns=columns)
        assert (code, err) == (0, "")
        assert "\x1b" not in out
        assert max(map(cell_len, out.splitlines())) <= columns
        return " ".join(out.split())

    return shown


# What it shows


def test_without_a_model_the_demo_is_looked_into_and_no_pictures_are_prepared_for() -> None:
    code = "import sys; sys.argv[0] = 'dragoman'; from dragoman.cli.main import app; app(standalone_mode=False)"
    code += "; print('matplotlib' in sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, "inspect", "A man sleeps on a bench.", "--layer", "-1"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    printed = " ".join(done.stdout.split())
    assert printed.startswith("source A man sleeps on a bench. translation Ein Mann ")
    assert "▁Mann " in printed
    for part in ("per token", "free-running; model ", "decoder.layers.2.cross_attention, mean of 4 heads"):
        assert part in printed
    assert printed.endswith("of it rests on marks and punctuation.")
    assert done.stderr == "False\n"


def test_it_shows_the_translation_how_sure_it_was_and_the_map_with_its_caption(shown: Shown) -> None:
    trace = Inspector.load(GOLDEN / "v1").trace(TEXT)
    printed = shown(TEXT, *MODEL)
    each = trace.log_probabilities
    assert printed.startswith(
        f"source {TEXT} translation {GERMAN} log-probability {each.sum():.2f}, {each.mean():.2f} per token over "
        f"{len(each)}; lowest at {trace.target.pieces[each.argmin()]} ({each.min():.2f}); free-running "
    )
    assert "No alignment head is known for this model: this is a guess, the mean of layer 0." in printed
    assert printed.endswith(view(trace).with_sink_share().caption)
    assert "Where it looked, not why." in printed
    assert "█" in printed


def test_a_target_can_be_given_and_the_map_chosen(shown: Shown) -> None:
    trace = Inspector.load(GOLDEN / "v1").trace(TEXT, "zwei Hunde")
    chosen = ("--layer", "0", "--head", "1", "--rows", "read", "--measure", "norm")
    printed = shown(TEXT, *MODEL, "--target", "zwei Hunde", *chosen, columns=120)
    assert "target zwei Hunde log-probability" in printed
    assert "forced (teacher forcing)" in printed
    assert printed.endswith(view(trace, 0, 1, rows="read", measure="norm").with_sink_share().caption)
    assert "alignment head" not in printed


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_each_side_can_look_at_itself(shown: Shown, kind: str) -> None:
    assert f"{kind}.layers.0.self_attention, mean of 2 heads: attention weights" in shown(TEXT, *MODEL, "--kind", kind)


def test_words_without_sinks(shown: Shown) -> None:
    printed = shown("two red dogs .", *MODEL, "--words", "--hide-sinks")
    assert "By word, EOS left out" in printed
    assert "Sinks hidden, as rows too; rows renormalised." in printed


def test_the_head_that_a_model_aligns_by_is_shown_first(shown: Shown, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "v1", tmp_path / "model")
    store_alignment_heads(tmp_path / "model", (AlignmentHead(layer=CROSS, head=1, rows="read", measure="norm"),))
    printed = shown(TEXT, "--model", "model", "--save", "a.trace", "--moses", "by_head")
    for part in ("The head that this model aligns by.", f"{CROSS}, head 1 of 2: norms", "the token just read"):
        assert part in printed
    assert "The head that this model aligns by." in shown("--trace", "a.trace")
    shown(TEXT, "--model", "model", "--head", "0", "--moses", "other")
    head = ("--layer", "0", "--head", "1", "--rows", "read", "--measure", "norm")
    shown(TEXT, *MODEL, *head, "--moses", "same")
    by_head, other, same = ((tmp_path / name).read_text() for name in ("by_head", "other", "same"))
    assert by_head == same != other


def test_the_recurrent_family_is_looked_into_by_the_same_words(shown: Shown) -> None:
    printed = shown("four green women.", "--model", str(GOLDEN / "v1-recurrent"), "--beam", "1")
    assert "decoder.attention, its only head: attention weights" in printed


@pytest.mark.parametrize("columns", [80, 120])
def test_a_long_sentence_and_a_narrow_terminal_are_no_matter(shown: Shown, columns: int) -> None:
    long = "The man who had lost his blue hat in the park on Monday " * 5
    printed = shown(long, "--beam", "1", "--layer", "-1", columns=columns)
    assert re.search(r"a cell is the largest of 2 x 2|from 0\.", printed)


def test_any_script_is_shown(shown: Shown) -> None:
    printed = shown("猫は كتاب ๑ \u05d0\u05d1", "--beam", "1")
    for part in ("猫は", "كتاب", "\u05d0\u05d1"):
        assert part in printed
    assert re.search(r"\d+ of \d+ source pieces are single bytes: this model does not know these characters", printed)
    assert "does not know" not in shown("A cat.", "--beam", "1")


def test_in_a_terminal_there_is_colour() -> None:
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen([DRAGOMAN, "inspect", TEXT, *MODEL], stdout=theirs, env=environment)
    os.close(theirs)
    printed = b""
    while True:
        try:
            printed += os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert process.wait(60) == 0
    assert re.search(rb"\x1b\[(?:\d+;)*48;", printed)
    assert b"bright = " in printed


# Every head


def test_every_head_has_a_label_with_its_evidence(shown: Shown, tmp_path: Path) -> None:
    printed = shown(TEXT, *MODEL, "--heads", "--csv", "heads.csv", "--json", "heads.json", "-o", "h.svg")
    for name in ("encoder.layers.0.self_attention", "decoder.layers.0.self_attention", CROSS):
        assert name in printed
    assert len(re.findall(r"uniform attention has|entropy 0|no row has any weight", printed)) == 6
    assert printed.endswith(
        "These values are of one sentence, which is an anecdote. wrote h.svg wrote heads.json wrote heads.csv"
    )
    assert "█" not in printed
    with (tmp_path / "heads.csv").open(encoding="utf-8") as file:
        labels = [line["label"] for line in csv.DictReader(file)]
    assert labels == [habit["label"] for habit in json.loads((tmp_path / "heads.json").read_text())["heads"]]
    assert len(labels) == 6
    assert "every head" in (tmp_path / "h.svg").read_text(encoding="utf-8")


def test_the_heads_of_one_kind(shown: Shown) -> None:
    printed = shown(TEXT, *MODEL, "--heads", "--kind", "encoder")
    assert "encoder.layers.0.self_attention" in printed
    assert "decoder" not in printed


# Files

FILES = {
    "svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF", "html": b"<!doctype html", "json": b"{\n",
    "csv": b'"decoder.layers.0.cross_attention, head 1', "moses": b"1-0 1-1 2-2\n", "save": b"",
}  # fmt: skip


def test_every_file_is_written_and_named(shown: Shown, tmp_path: Path) -> None:
    names = {option: "a.trace" if option == "save" else f"map.{option}" for option in FILES}
    pictures = ("svg", "png", "pdf")
    options = [p for kind, name in names.items() for p in ("-o" if kind in pictures else f"--{kind}", name)]
    printed = shown(TEXT, *MODEL, "--head", "1", *options)
    assert printed.endswith(" ".join(f"wrote {name}" for name in names.values()))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names.values())
    for option, beginning in FILES.items():
        content = (tmp_path / names[option]).read_bytes()
        assert content.lower().startswith(beginning.lower()), option
    trace = Inspector.load(GOLDEN / "v1").trace(TEXT)
    caption = view(trace, head=1).with_sink_share().caption
    drawn = " ".join(re.sub(r"<[^>]*>", " ", (tmp_path / "map.svg").read_text(encoding="utf-8")).split())
    assert caption.split("; ")[-1] in drawn
    assert json.loads((tmp_path / "map.json").read_text(encoding="utf-8"))["map"]["caption"] == caption
    np.testing.assert_allclose(Trace.load(tmp_path / "a.trace").attention[CROSS], trace.attention[CROSS], atol=0.01)
    head = AlignmentHead(layer=CROSS, head=1)
    assert (tmp_path / "map.moses").read_text() == to_moses(head_links(trace, head)) + "\n"


def test_letters_without_a_font_give_one_warning_for_all_pictures(run: Run) -> None:
    done = run(
        f"{TEXT} \U0010fffd", *MODEL, "--target", "zwei \U0010fffd", "--words", "--output", "a.png", "--output", "a.pdf"
    )
    assert done.code == 0
    assert done.err.count("no font of this machine has the letters") == 1


def numbers(path: Path) -> np.ndarray:
    with path.open(encoding="utf-8") as file:
        return np.array([line[1:] for line in list(csv.reader(file))[1:]], np.float64)


def test_what_was_kept_opens_again_without_the_model_without_torch_and_without_matplotlib(
    run: Run, tmp_path: Path
) -> None:
    first = run(TEXT, *MODEL, "--save", "a.trace", "--csv", "a.csv", "--history")
    assert Trace.load(tmp_path / "a.trace").history
    again = ("--trace", "a.trace", "--csv", "b.csv", "--html", "b.html", "--moses", "b.moses")
    done = bare(*again, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n\n")[0] == first.out.split("\n\n")[0]
    np.testing.assert_allclose(numbers(tmp_path / "b.csv"), numbers(tmp_path / "a.csv"), atol=0.01)
    heads = bare("--trace", "a.trace", "--heads", cwd=tmp_path)
    assert (heads.returncode, heads.stderr) == (0, "")
    assert "one sentence, which is an anecdote." in " ".join(heads.stdout.split())


def bare(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command where there is neither torch nor matplotlib."""
    code = "import sys; sys.modules |= {'torch': None, 'matplotlib': None}; sys.argv[0] = 'dragoman'"
    code += "; from dragoman.cli.main import main; main()"
    command = [sys.executable, "-c", code, "inspect", *arguments]
    environment = os.environ | {"COLUMNS": "80"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("option", "beginning"), [("moses", "1-0 1-1 2-2\n"), ("json", "{\n"), ("csv", '"decoder.')])
def test_standard_output_holds_nothing_but_the_file(run: Run, option: str, beginning: str, tmp_path: Path) -> None:
    done = run(TEXT, *MODEL, "--head", "1", f"--{option}", "-")
    assert done.code == 0
    assert done.out.startswith(beginning)
    assert GERMAN not in done.out or option == "json"
    assert f"translation  {GERMAN}" in done.err
    assert "wrote" not in done.err
    assert not [*tmp_path.iterdir()]


# What if


def test_a_page_and_json_have_the_unchanged_translation_and_the_counterfactual_too(
    shown: Shown, tmp_path: Path
) -> None:
    options = ("--without", f"{CROSS}.0,{CROSS}.1", "--counterfactual", "--kind", "decoder", "--head", "1")
    shown(TEXT, *MODEL, *options, "--html", "a.html", "--json", "a.json")
    inspector = Inspector.load(GOLDEN / "v1")
    what_if = f"{counterfactual(inspector.model, inspector.trace(TEXT)).text} (of the unchanged model)"
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    data = json.loads(page.split('id="dragoman-trace">')[1].split("</script>")[0])
    assert data["notes"] == {"unchanged": GERMAN, "what if": what_if}
    assert (data["choice"]["kind"], data["choice"]["head"]) == ("decoder", 1)
    assert "decoder.layers.0.self_attention, head 1 of 2" in page.split("<caption>")[1].split("</caption>")[0]
    notes = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["notes"]
    assert notes == {"unchanged": GERMAN, "what if": what_if}


def test_heads_switched_off_translate_again_beside_the_unchanged_model(shown: Shown, tmp_path: Path) -> None:
    inspector = Inspector.load(GOLDEN / "v1")
    changes = [HeadsOff(where=CROSS, heads=(0, 1)), HeadsUniform(where="encoder")]
    changed = inspector.trace(TEXT, interventions=changes)
    assert changed.target.text != GERMAN
    options = ("--without", f"{CROSS}.0,{CROSS}.1", "--uniform", "encoder", "--save", "a.trace")
    printed = shown(TEXT, *MODEL, *options)
    words = f"heads 0 and 1 of {CROSS} off, every self-attention of the encoder uniform"
    assert re.search(rf"translation {GERMAN} log-prob.* changed {re.escape(changed.target.text)} log-prob", printed)
    assert f"with {words} The map is of the changed model. Heads are redundant" in printed
    assert f"changed on purpose: {words}. Where it looked" in printed
    assert Trace.load(tmp_path / "a.trace").interventions == tuple(changes)
    again = shown("--trace", "a.trace")
    assert f"changed {changed.target.text} log-probability" in again
    assert "The map is of the changed model." in again
    assert GERMAN not in again


def test_a_change_that_changes_no_word_is_named(shown: Shown) -> None:
    printed = shown(TEXT, *MODEL, "--uniform", "encoder.layers.0.self_attention.1")
    assert "with head 1 of encoder.layers.0.self_attention uniform: the same words" in printed


def test_the_translation_can_be_made_to_begin_with_a_text(shown: Shown) -> None:
    inspector = Inspector.load(GOLDEN / "v1")
    changes = [HeadsOff(where=CROSS, heads=(0,))]
    trace = inspector.trace(TEXT, prefix="drei", interventions=changes)
    printed = shown(TEXT, *MODEL, "--prefix", "drei", "--without", f"{CROSS}.0")
    assert f"changed {trace.target.text} log-probability {trace.log_probabilities.sum():.2f}" in printed
    assert trace.target.text.startswith("drei")
    assert "free-running after" in printed


def test_the_counterfactual_counts_what_would_have_been_written_anyway(shown: Shown) -> None:
    inspector = Inspector.load(GOLDEN / "v1")
    printed = shown(TEXT, *MODEL, "--counterfactual")
    assert f"what if {counterfactual(inspector.model, inspector.trace(TEXT)).text}" in printed


# Mistakes

Mistake = Callable[[Path], list[str]]


def kept(content: bytes) -> Mistake:
    def mistake(folder: Path) -> list[str]:
        (folder / "a.trace").write_bytes(content)
        return ["--trace", str(folder / "a.trace")]

    return mistake


def with_trace(*arguments: str) -> Mistake:
    return lambda _: ["--trace", str(GOLDEN / "schema-1.trace"), *arguments]


def options(*arguments: str) -> Mistake:
    return lambda _: [TEXT, *MODEL, *arguments]


MISTAKES: dict[str, tuple[Mistake, str]] = {
    "no sentence": (lambda _: [], "as in dragoman inspect 'A sentence.'"),
    "an empty sentence": (lambda _: [" \t "], "the sentence is empty"),
    "nothing but invisible letters": (lambda _: ["\u200b", *MODEL], "the source has no text"),
    "no quotes": (lambda _: ["two", "red", "dogs."], "put the sentence in quotes"),
    "the model as in translate": (lambda _: [MODEL[1], TEXT], f"give the model with --model {MODEL[1]}"),
    "a file for a sentence": (lambda _: [__file__], "is a file, not a sentence: give a sentence from the file"),
    "a trace for a sentence": (lambda _: [str(GOLDEN / "schema-1.trace")], "to show a trace, give --trace"),
    "half a character": (lambda _: [os.fsdecode(b"two \xff"), *MODEL], "half of a character"),
    "a sentence that is too long": (lambda _: ["two red dogs. " * 20, *MODEL], "but the model takes 64: shorten the"),
    "no such model": (lambda f: [TEXT, "--model", str(f / "nowhere")], "there is no such folder"),
    "a folder without a model": (lambda f: [TEXT, "--model", str(f)], "a folder that dragoman train has written"),
    "an unknown kind": (options("--kind", "self"), "--kind self: give cross, encoder or decoder"),
    "unknown rows": (options("--rows", "both"), "--rows both: give written or read"),
    "an unknown measure": (options("--measure", "rollout"), "--measure rollout: give attention or norm"),
    "an unknown layer": (options("--layer", "3"), "there is no layer 3: choose 0 to 0"),
    "a head that is no number": (options("--head", "first"), "--head first is not a head"),
    "a head out of range": (options("--head", "2"), "there is no head 2: choose 0 to 1, or the mean"),
    "a kind that a model does not have": (
        lambda _: [TEXT, "--model", str(GOLDEN / "v1-recurrent"), "--kind", "encoder"], "has no encoder attention"
    ),
    "rows of the encoder": (options("--kind", "encoder", "--rows", "read"), "leave out --rows"),
    "words of one side": (options("--kind", "decoder", "--words"), "leave out --kind or --words"),
    "one head of all heads": (options("--heads", "--layer", "0"), "--heads lists every head: leave out --layer"),
    "nothing but sinks to be hidden": (options("--hide-sinks", "--target", "."), "leave out --hide-"),
    "a beam for a given target": (options("--target", "zwei", "--beam", "2"), "runs no search: leave out --beam"),
    "the history of a given target": (options("--target", "zwei", "--history"), "leave out --history"),
    "a history that is not kept": (options("--history"), "add --save FILE.trace"),
    "a picture of another kind": (options("--output", "map.gif"), "--output map.gif has an unsupported extension"),
    "a picture without an ending": (options("--output", "map"), "--output map has an unsupported extension"),
    "a picture on standard output": (options("--output", "-"), "give a name ending in .svg"),
    "a trace by another name": (options("--save", "a.json"), "give a name ending in .trace"),
    "a file in no folder": (options("--html", "no/map.html"), "--html no/map.html: folder no does not exist"),
    "a folder for a file": (lambda f: [TEXT, *MODEL, "--moses", str(f)], "is a folder: give the name of a file"),
    "two files on standard output": (options("--csv", "-", "--moses", "-"), "both use standard output: give --moses"),
    "a head to switch off that is not there": (options("--without", f"{CROSS}.2"), "there is no head 2"),
    "a place that is not there": (options("--uniform", "cross_attention"), "there is no attention at 'c"),
    "no place at all": (options("--without", ""), "there is no attention at ''"),
    "a trace and a model": (with_trace(*MODEL), "runs no model: leave out --model"),
    "a trace and a sentence": (with_trace(TEXT), "leave out the sentence"),
    "a trace and a change": (with_trace("--without", "cross"), "leave out --without"),
    "a trace to be kept again": (with_trace("--save", "b.trace"), "leave out --save"),
    "a trace that is not there": (lambda f: ["--trace", str(f / "a.trace")], "a.trace: there is no such file"),
    "a trace that is a folder": (lambda f: ["--trace", str(f)], "cannot be read as a trace"),
    "a broken trace": (kept((GOLDEN / "schema-1.trace").read_bytes()[:-1]), "cannot be read as a trace"),
    "a changed trace": (
        kept((GOLDEN / "schema-1.trace").read_bytes().replace(b"zwei rote", b"drei rote")), "sha256 differs"
    ),
    "weights for a trace": (lambda _: ["--trace", str(GOLDEN / "v1" / "model.safetensors")], "this is not a trace"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_line_and_exit_code_2(run: Run, name: str, tmp_path: Path) -> None:
    mistake, named = MISTAKES[name]
    before = sorted(tmp_path.iterdir())
    arguments = mistake(tmp_path)
    done = run(*arguments)
    assert (done.code, done.out) == (2, ""), done.err
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert named in done.err
    assert {path.name for path in tmp_path.iterdir()} <= {"a.trace", *before}


def test_a_place_that_cannot_be_written_to_is_named_by_the_system(run: Run, tmp_path: Path) -> None:
    done = run(TEXT, *MODEL, "--csv", "/proc/map.csv")
    assert done.code == 2
    assert re.fullmatch(r"error: /proc/.*map\.csv.*: .*\n", done.err)


def test_without_torch_and_without_an_alignment_head_the_error_names_what_to_install() -> None:
    done = bare(TEXT, *MODEL)
    assert done.returncode == 2
    assert "pip install 'dragoman[train]'" in done.stderr
