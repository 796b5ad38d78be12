"""`dragoman explain` as installed: a lesson in the terminal, as a page and as data, and mistakes in one line."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fork_server import DRAGOMAN

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[1] / "golden"
MODEL, RECURRENT = str(GOLDEN / "v1"), str(GOLDEN / "v1-recurrent")
TEXT = "two red dogs."


def run(*arguments: str, cwd: Path | None = None, **options: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | options
    command = [DRAGOMAN, "explain", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_without_anything_else_it_is_the_longest_word_in_the_demos_first_layer() -> None:
    done = run("I ate an apple.")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "How one attention head looks from “apple”"
    assert "Word: apple (the longest word)." in lines
    assert "Attention: encoder.layers.0.self_attention, layer 0 of 3 counted from 0." in lines
    assert sum(line.split(".")[0].isdigit() for line in lines) == 11  # the norm comes first
    assert "\x1b" not in done.stdout
    assert max(map(len, lines)) <= 80


def test_demo_is_a_valid_model_name() -> None:
    done = run("I ate an apple.", "--model", "demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run("I ate an apple.").stdout


def test_every_choice_is_taken(tmp_path: Path) -> None:
    options = ("--kind", "cross", "--target", "zwei rote Hunde.", "--word", "Hunde", "--layer", "-1", "--head", "1")
    done = run(TEXT, "--model", MODEL, *options, "--json", str(tmp_path / "a.json"))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"wrote {tmp_path / 'a.json'}\n", "")
    data = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert (data["kind"], data["layer"], data["head"], data["word"]) == ("cross", 0, 1, "Hunde")
    assert (data["source"], data["target"], data["free"]) == (TEXT, "zwei rote Hunde.", False)
    assert data["recomputed"]["weights"] == pytest.approx(data["model_weights"], abs=1e-5)
    assert sum(data["model_weights"]) == pytest.approx(1, abs=1e-5)


def test_a_row_and_a_key_are_chosen_by_number(tmp_path: Path) -> None:
    options = ("--kind", "cross", "--row", "1", "--key", "3", "--json", str(tmp_path / "a.json"))
    done = run(TEXT, "--model", MODEL, *options)
    assert done.returncode == 0, done.stderr
    data = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert data["row"] == 1
    blocks = [block for step in data["steps"] for block in step["blocks"]]
    assert f"For {data['keys'][3]}:" in blocks


def test_a_page_and_data_at_once_and_nothing_beside_them(tmp_path: Path) -> None:
    done = run(TEXT, "--model", RECURRENT, "--html", str(tmp_path / "a.html"), "--json", str(tmp_path / "a.json"))
    lines = "".join(f"wrote {tmp_path / name}\n" for name in ("a.html", "a.json"))
    assert (done.returncode, done.stdout, done.stderr) == (0, lines, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.json"]
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    data = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    embedded = json.loads(page.split('id="dragoman-explanation">')[1].split("</script>")[0])
    assert len(embedded["cell"]["steps"]) == len(data["steps"]) == 9
    assert embedded["cell"]["title"] == data["title"]
    assert data["target"] == "zwei rote Hunde."


def test_data_on_standard_output_have_it_to_themselves(tmp_path: Path) -> None:
    done = run(TEXT, "--model", RECURRENT, "--html", str(tmp_path / "a.html"), "--json", "-", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, f"wrote {tmp_path / 'a.html'}\n")
    assert json.loads(done.stdout)["target"] == "zwei rote Hunde."
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_a_terminal_without_these_letters_gets_others() -> None:
    done = run(TEXT, "--model", MODEL, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "s_j = q * k_j / sqrt d_k" in done.stdout
    assert "?" not in done.stdout.replace("answer?", "")


def test_help_shows_what_to_type() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert 'dragoman explain "I ate an apple."' in done.stdout
    assert all(
        option in done.stdout
        for option in ("--word", "--row", "--key", "--layer", "--head", "--kind", "--target", "--html")
    )


Mistake = Callable[[Path], list[str]]
MISTAKES: dict[str, tuple[Mistake, str]] = {
    "no sentence": (lambda _: ["  "], "as in: dragoman explain 'I ate an apple.'"),
    "no quotes": (lambda _: ["I", "ate", "an", "apple."], "put the sentence in quotes"),
    "an unknown word": (lambda _: [TEXT, "--model", MODEL, "--word", "apple"], "choose by spelling or number: 0 two"),
    "a misspelled word": (lambda _: [TEXT, "--model", MODEL, "--word", "dgos"], "did you mean dogs?"),
    "a number past the last word": (lambda _: [TEXT, "--model", MODEL, "--word", "3"], "there is no word '3'"),
    "a word of the other side": (
        lambda _: [TEXT, "--model", MODEL, "--kind", "cross", "--word", "dogs"],
        "in the target, whose words this attention is about: choose by spelling or number: 0 zwei, 1 rote, 2 Hunde",
    ),
    "a row too high": (lambda _: [TEXT, "--model", MODEL, "--row", "99"], "there is no row 99: choose 0 to 10"),
    "a key too high": (lambda _: [TEXT, "--model", MODEL, "--key", "99"], "there is no key 99: choose 0 to 10"),
    "a word and a row": (lambda _: [TEXT, "--word", "two", "--row", "0"], "--word and --row both choose the word"),
    "a layer too high": (lambda _: [TEXT, "--model", MODEL, "--layer", "1"], "choose 0 to 0"),
    "a layer the demo has not": (lambda _: [TEXT, "--layer", "3"], "choose 0 to 2, or -1 for the last"),
    "a head too high": (lambda _: [TEXT, "--model", MODEL, "--head", "2"], "there is no head 2: choose 0 to 1"),
    "an unknown kind": (lambda _: [TEXT, "--kind", "self"], "--kind self: give cross, encoder or decoder"),
    "a kind the model has not": (
        lambda _: [TEXT, "--model", RECURRENT, "--kind", "encoder"],
        "this model has no encoder attention, in which source would look at source: choose cross",
    ),
    "a target for the encoder": (lambda _: [TEXT, "--model", MODEL, "--target", "zwei"], "leave out --target"),
    "a target without words": (
        lambda _: [TEXT, "--model", MODEL, "--kind", "decoder", "--target", " "],
        "the target has no word to explain",
    ),
    "a sentence too long": (lambda _: ["dogs " * 90, "--model", MODEL], "but the model takes 64: shorten the"),
    "a model that is not there": (lambda f: [TEXT, "--model", str(f / "run")], "there is no such folder"),
    "a folder without a model": (lambda f: [TEXT, "--model", str(f)], "a folder that dragoman train has written"),
    "a page in no folder": (
        lambda f: [TEXT, "--html", str(f / "b" / "a.html")],
        "does not exist: create the folder first",
    ),
    "a page by another name": (
        lambda f: [TEXT, "--html", str(f / "a.txt")],
        "a.txt has an unsupported extension: give a name ending in .html",
    ),
    "a page on standard output": (
        lambda _: [TEXT, "--html", "-"],
        "--html - has an unsupported extension: give a name ending in .html",
    ),
    "one name for two files": (
        lambda f: [TEXT, "--html", str(f / "a"), "--json", str(f / "a")],
        "give two different files",
    ),
    "half a character": (lambda _: [os.fsdecode(b"two \xff"), "--model", MODEL], "half of a character"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_line_and_exit_code_2(name: str, tmp_path: Path) -> None:
    mistake, message = MISTAKES[name]
    done = run(*mistake(tmp_path))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []
