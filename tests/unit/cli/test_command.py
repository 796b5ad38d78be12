"""Options that several commands share."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dragoman.cli.command import check_local_folder, check_name, complete_path, model_folder
from dragoman.cli.main import app
from dragoman.cli.output_files import check_different, check_output_file


@pytest.mark.parametrize("out", ["s3://bucket/run", "gs://bucket/run", "", "."])
def test_a_folder_must_be_local_and_have_a_name(out: str) -> None:
    with pytest.raises(ValueError, match="--out"):
        check_local_folder(Path(out))


@pytest.mark.parametrize("out", ["run", "/tmp/run", "../run", "a:b", "C:\\run"])
def test_any_local_folder_is_taken(out: str) -> None:
    check_local_folder(Path(out))
    check_local_folder(None)


@pytest.mark.parametrize(
    ("out", "wrong"), [("carrier-pigeon://b/out", "not known"), ("", "--out is empty"), (".", "--out is empty")]
)
def test_bulk_translation_refuses_what_is_no_folder_of_a_known_store(out: str, wrong: str) -> None:
    assert wrong in mistake("translate", "demo", "--shards", "in/*", "--out", out)


def mistake(*arguments: str) -> str:
    """Return the message of an error that the arguments alone show."""
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, ValueError), error
    return str(error)


@pytest.mark.parametrize("text", ["-hello", "-5", "-one", "-o'clock it is", "- a list item", "-h2o is water"])
@pytest.mark.parametrize("command", [("translate", "demo"), ("inspect",), ("explain", "--model", "demo")], ids=" ".join)
def test_a_text_that_begins_with_a_dash_needs_two_dashes_before(text: str, command: tuple[str, ...]) -> None:
    assert "give --: -- " in mistake(*command, text)


def test_a_value_of_an_option_may_begin_with_a_dash() -> None:
    assert "--prefix" in mistake("translate", "demo", "--prefix", "-5 Grad", "--nbest", "2", "One.", "Two.")


@pytest.mark.parametrize(
    ("command", "new"),
    [
        (("inspect", "A text.", "--png", "a.png"), "--output"),
        (("score", "demo", "--json-lines"), "--json"),
        (("evaluate", "demo", "--hypotheses=a.de"), "--output"),
        (("key", "shop", "--file", "keys.yaml"), "--keys"),
    ],
)
def test_an_option_of_an_earlier_version_names_the_new_one(command: tuple[str, ...], new: str) -> None:
    assert f"give {new}" in mistake(*command)


def test_the_nearest_name_is_given() -> None:
    with pytest.raises(ValueError, match=r"did you mean dates\?"):
        check_name("example", "date", ("dates", "numbers"))
    with pytest.raises(ValueError, match="dates, numbers"):
        check_name("example", "xyz", ("dates", "numbers"))


def test_an_input_is_no_output_by_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.en").write_text("A text.\n")
    Path("hard").hardlink_to("a.en")
    Path("soft").symlink_to("a.en")
    for name in ("a.en", "./a.en", str(tmp_path / "a.en"), "hard", "soft"):
        with pytest.raises(ValueError, match="is an input file"):
            check_output_file("--output", Path(name), inputs=["a.en"])
    check_output_file("--output", Path("b.en"), inputs=["a.en", "-", "s3://bucket/b.en"])


def test_two_outputs_are_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="--html and --json"):
        check_different(("--html", Path("a")), ("--json", Path("./a")))
    with pytest.raises(ValueError, match="--output and --output"):
        check_different(("--output", Path("a")), ("--output", tmp_path / "a"))
    check_different(("--html", Path("a")), ("--json", Path("b")), ("--output", None))


def test_a_shell_is_offered_folders_and_files_of_a_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("run/bundle", ".hidden"):
        Path(name).mkdir(parents=True)
    Path("r.yaml").touch()
    assert complete_path("", (".yaml",)) == ["run/", "r.yaml"]
    assert complete_path("run/b", ()) == ["run/bundle/"]
    assert complete_path("nowhere/b", ()) == []


def test_a_model_named_demo_is_the_built_in_one() -> None:
    assert (model_folder("demo") / "manifest.json").is_file()
    assert model_folder("./demo") == Path("demo")
