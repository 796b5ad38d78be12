"""Systems: folders are translated with, files are read, everything else is refused before any work is done."""

from pathlib import Path

import pytest

from dragoman.bundle import open_bundle
from dragoman.evaluation.output import Output, gather
from dragoman.evaluation.text import Text, read_text

GOLDEN = Path(__file__).parents[2] / "golden" / "v1"
SOURCE = ["two red dogs.", "ten old houses.", "", "two red dogs."]


def text(lines: list[str], file: str = "test") -> Text:
    return Text(file, lines, "")


def file(path: Path, *lines: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def test_a_file_is_taken_as_it_is(tmp_path: Path) -> None:
    address = file(tmp_path / "a.de", "eins ", "zwei")
    [output] = gather([address], None, [text(["1", "2"])])
    assert output == Output("a.de", "file", read_text(address).sha256, ["eins ", "zwei"])


def test_a_bundle_translates_the_source_and_keeps_its_order(tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    [output] = gather([str(GOLDEN)], text(SOURCE), [text(SOURCE)], lambda *what: told.append(what))
    assert output == Output(
        "v1", "bundle", open_bundle(GOLDEN).sha256, ["zwei rote Hunde.", "zehn alte Häuser.", "", "zwei rote Hunde."]
    )
    assert told[-1] == ("translate with v1", 2, 2)  # a sentence that comes twice is translated once


def test_bundles_and_files_stay_in_the_order_given(tmp_path: Path) -> None:
    addresses = [file(tmp_path / "b.de", *"abcd"), str(GOLDEN), file(tmp_path / "a.de", *"efgh")]
    outputs = gather(addresses, text(SOURCE), [text(SOURCE)])
    assert [(output.name, output.kind, output.lines[0]) for output in outputs] == [
        ("b.de", "file", "a"),
        ("v1", "bundle", "zwei rote Hunde."),
        ("a.de", "file", "e"),
    ]


def test_systems_that_end_alike_are_called_by_all_of_their_path(tmp_path: Path) -> None:
    addresses = [file(tmp_path / "x" / "a.de", "1"), file(tmp_path / "y" / "a.de", "2"), file(tmp_path / "b.de", "3")]
    assert [output.name for output in gather(addresses, None, [text(["0"])])] == [addresses[0], addresses[1], "b.de"]


def test_what_can_be_refused_is_refused(tmp_path: Path) -> None:
    one, two = file(tmp_path / "one", "1"), file(tmp_path / "two", "1", "2")
    with pytest.raises(ValueError, match="one is given 2 times"):
        gather([one, one], None, [text(["0"])])
    with pytest.raises(ValueError, match="three: there is neither a model's folder nor a file"):
        gather([one, str(tmp_path / "three")], None, [text(["0"])])
    with pytest.raises(ValueError, match="v1 is a model and needs something to translate: give --source"):
        gather([str(GOLDEN)], None, [text(["0"])])
    with pytest.raises(ValueError, match="two has 2 lines but test has 1"):
        gather([one, two], None, [text(["0"])])
    with pytest.raises(ValueError, match="source has 2 lines but test has 1"):
        gather([str(GOLDEN)], text(["0", "1"], "source"), [text(["0"])])
    with pytest.raises(ValueError, match="second has 2 lines but test has 1"):
        gather([one], None, [text(["0"]), text(["0", "1"], "second")])
    with pytest.raises(ValueError, match="manifest"):
        gather([str(tmp_path)], text(["0"]), [text(["0"])])
