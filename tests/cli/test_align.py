"""`dragoman align` as installed: a line of links for each pair, the ranking of heads, and mistakes in one line."""

import gzip
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fork_server import DRAGOMAN

from dragoman.bundle import demo_folder, open_bundle
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.bundle.writing import write_bundle

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[1] / "golden"
ENGLISH = ["ten old houses.", "", "two  red \u2060 dogs.", "four green women.", "two"]
GERMAN = ["zehn alte Häuser.", "nichts", "zwei rote Hunde.", "vier grüne Frauen.", ""]
GOLD = ["1-1 2-2 3-3", "", "1-1 2-2 4-3 2p3", "1-1 2p2 3-3", ""]
FILES = ("--source", "a.en", "--target", "a.de")
HEAD = AlignmentHead(layer="decoder.layers.0.cross_attention", head=1, rows="read", measure="norm")


def parse_links(line: str) -> frozenset[tuple[int, int]]:
    """Read a line in the Moses format."""
    pairs = (link.split("-") for link in line.split())
    return frozenset((int(source), int(target)) for source, target in pairs)


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, lines in (("a.en", ENGLISH), ("a.de", GERMAN), ("a.gold", GOLD)):
        write(tmp_path / name, lines)
    turned = [re.sub(r"(\d+)([-p])(\d+)", r"\3\2\1", line) for line in GOLD]
    write(tmp_path / "turned.gold", turned)
    shutil.copytree(GOLDEN / "v1", tmp_path / "there")
    golden = open_bundle(GOLDEN / "v1-recurrent")
    info = golden.info.model_copy(update={"source_language": "de", "target_language": "en"})
    write_bundle(tmp_path / "back", info, golden.weights(), golden.vocab, golden.card)
    return tmp_path


def run(folder: Path, *arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [DRAGOMAN, "align", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, input=given, capture_output=True, text=True, timeout=120, check=False
    )


def aligned(folder: Path, *arguments: str, given: str | None = None) -> list[str]:
    done = run(folder, *arguments, given=given)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


def test_each_pair_has_a_line_in_its_place(folder: Path) -> None:
    done = run(folder, "there", *FILES)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")
    assert len(lines) == len(ENGLISH) + 1
    assert (lines[1], lines[4], lines[5]) == ("", "", "")
    found = [parse_links(line) for line in lines[:-1]]
    for pair, english, german in zip(found, ENGLISH, GERMAN, strict=True):
        assert {target for _, target in pair} == (set(range(len(german.split()))) if english and german else set())
        assert all(source < len(english.split()) for source, _ in pair)
    assert not any((2, target) in found[2] for target in range(3))  # the word that nobody sees
    assert "there has no alignment head stored: links come from a guess" in done.stderr
    assert "decoder.layers.0.cross_attention, mean of heads, written, attention" in done.stderr
    assert "--search --store finds and stores a better head" in done.stderr
    assert max(map(len, done.stderr.splitlines())) <= 80


def test_files_may_be_packed_or_standard_input_and_a_run_is_a_model(folder: Path) -> None:
    plain = aligned(folder, "there", *FILES)
    (folder / "run").mkdir()
    (folder / "there").rename(folder / "run" / "bundle")
    (folder / "a.de.gz").write_bytes(gzip.compress((folder / "a.de").read_bytes()))
    given = "".join(f"{line}\r\n" for line in ENGLISH)
    arguments = ("run", "--source", "-", "--target", "a.de.gz", "--output", "links")
    assert aligned(folder, *arguments, given=given) == [""]
    assert (folder / "links").read_text() == "\n".join(plain)


def test_a_head_that_is_named_is_used_and_can_be_kept(folder: Path) -> None:
    named = ("--layer", "-1", "--head", "1", "--rows", "read", "--measure", "norm")
    done = run(folder, "there", *FILES, *named, "--store")
    assert done.returncode == 0, done.stderr
    assert "guess" not in done.stderr
    bundle = open_bundle(folder / "there")
    assert bundle.info.alignment_heads == (HEAD,)
    assert f"stored in there, new hash {bundle.sha256[:12]}" in done.stderr
    again = run(folder, "there", *FILES)
    assert again.stdout == done.stdout != run(folder, "there", *FILES, "--layer", "0").stdout
    assert "guess" not in again.stderr


def test_gold_gives_a_score_with_its_interval(folder: Path) -> None:
    done = run(folder, "there", *FILES, "--gold", "a.gold")
    assert done.stdout == run(folder, "there", *FILES).stdout
    number = r" *\d+\.\d"
    score = rf"AER{number} \[{number},{number}\]  precision{number}  recall{number}"
    assert re.search(rf"^diagonal +{score}$", done.stderr, re.MULTILINE)
    assert re.search(rf"^model +{score}$", done.stderr, re.MULTILINE)
    assert "in percent, 95 % intervals, 5 pairs" in done.stderr
    turned = run(folder, "there", *FILES, "--gold", "turned.gold", "--swap-gold")
    assert turned.stderr == done.stderr


def rates(table: str) -> list[float]:
    rows = re.findall(r"^ +\d+ +(?:\d+|mean)  (?:written|read   )  (?:attention|norm     ) +(\S+)", table, re.MULTILINE)
    return [float(rate) for rate in rows]


def test_a_search_by_gold_ranks_the_heads_says_what_that_is_worth_and_keeps_the_best(folder: Path) -> None:
    options = ("there", *FILES, "--gold", "a.gold", "--search")
    done = run(folder, *options, "--store", "--output", "links", "--grid", "grid.png")
    assert done.returncode == 0, done.stderr
    ranking = rates(done.stdout)
    assert len(ranking) == 10
    assert ranking == sorted(ranking)
    assert "Best of 12: decoder.layers.0.cross_attention, " in done.stdout
    assert "Chosen on these 3 pairs: the score of the best of many heads is optimistic." in done.stdout
    assert re.search(r"Chosen on one half of the pairs and scored on the other, both ways: AER \d+\.\d\.", done.stdout)
    assert "Warning: 3 pairs are too few to compare heads: search with 50 or more." in done.stdout
    assert ranking[0] < ranking[1]
    assert "as good" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "\x1b" not in done.stdout + done.stderr
    assert f"model               AER {ranking[0]:5.1f} [" in done.stderr
    assert (folder / "grid.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "links").read_text() == run(folder, "there", *FILES).stdout
    (suggested,) = re.findall(r"^  (--layer .*)$", done.stdout, re.MULTILINE)
    (head,) = open_bundle(folder / "there").info.alignment_heads
    which = "mean" if head.head is None else head.head
    assert suggested == f"--layer 0 --head {which} --rows {head.rows} --measure {head.measure}"


def test_heads_that_are_as_good_as_the_best_are_named(folder: Path) -> None:
    for name, lines in (("b.en", ["two"] * 50), ("b.de", ["zwei"] * 50), ("b.gold", ["1-1"] * 50)):
        write(folder / name, lines)
    done = run(folder, "there", "--source", "b.en", "--target", "b.de", "--gold", "b.gold", "--search")
    assert done.returncode == 0, done.stderr
    tied = re.search(
        r"These heads tie with the best; .*:\n((?:  decoder\.layers\.0\.cross_attention, .*\n){3})(.*)\n", done.stdout
    )
    assert tied is not None
    assert tied[2] == "  and 8 more"  # of 12, with the best and the three that are named
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "Warning" not in done.stdout


def test_without_store_a_search_changes_nothing(folder: Path) -> None:
    before = {path: path.read_bytes() for path in (folder / "there").iterdir()}
    assert run(folder, "there", *FILES, "--gold", "a.gold", "--search").returncode == 0
    assert {path: path.read_bytes() for path in (folder / "there").iterdir()} == before


def test_two_directions_are_joined_by_each_method(folder: Path) -> None:
    both = ("there", *FILES, "--reverse", "back")
    found = {
        method: [parse_links(line) for line in aligned(folder, *both, "--symmetrise", method)]
        for method in ("intersection", "union", "grow-diag", "grow-diag-final-and")
    }
    assert [*map(len, found.values())] == [len(ENGLISH) + 1] * 4
    for least, grown, final, most in zip(
        found["intersection"], found["grow-diag"], found["grow-diag-final-and"], found["union"], strict=True
    ):
        assert least <= grown <= final <= most
    assert sum(map(len, found["intersection"])) < sum(map(len, found["union"]))
    done = run(folder, *both, "--gold", "a.gold")
    assert [parse_links(line) for line in done.stdout.split("\n")] == found["grow-diag-final-and"]
    assert re.findall(r"^(\S+) +AER", done.stderr, re.MULTILINE) == [
        "diagonal",
        "forward",
        "backward",
        "grow-diag-final-and",
    ]
    assert done.stderr.count("links come from a guess") == 2


def test_a_search_by_gold_in_both_directions_ranks_both(folder: Path) -> None:
    done = run(folder, "there", *FILES, "--reverse", "back", "--gold", "a.gold", "--search")
    assert done.returncode == 0, done.stderr
    there, back = done.stdout.split("\nback\n")
    assert there.startswith("there\n")
    assert (len(rates(there)), len(rates(back))) == (10, 4)


def test_without_gold_the_directions_that_agree_most_win(folder: Path) -> None:
    done = run(folder, "there", *FILES, "--reverse", "back", "--search", "--store")
    assert done.returncode == 0, done.stderr
    shares = [float(row) for row in re.findall(r"^ +0 .*  (\d+\.\d)$", done.stdout, re.MULTILINE)]
    assert len(shares) == 10
    assert shares == sorted(shares, reverse=True)
    assert "Best of 48 pairs of heads" in done.stdout
    assert "the score of the best of many heads is optimistic" in done.stdout
    assert re.search(r"\d+ % of the forward links lie on the diagonal", done.stdout)
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert len(open_bundle(folder / "there").info.alignment_heads) == 1
    assert open_bundle(folder / "back").info.alignment_heads[0].layer == "decoder.attention"


def write_toy_pairs(folder: Path) -> list[str]:
    """Write b.en, b.de with the first two words swapped, b.gold and b.tsv; return the true links."""
    rows = [[f"a{i}", f"b{j}", f"c{i + j}"] for i in range(12) for j in range(12)]
    write(folder / "b.en", [" ".join(row) for row in rows] + [""])
    write(folder / "b.de", [f"{second}x {first}x {third}x" for first, second, third in rows] + ["nichts"])
    write(folder / "b.gold", ["1-2 2-1 3-3" for _ in rows] + [""])
    write(folder / "b.tsv", [f"{' '.join(row)}\t{row[1]}x {row[0]}x {row[2]}x" for row in rows])
    return ["0-1 1-0 2-2" for _ in rows]


TOY_FILES = ("--source", "b.en", "--target", "b.de")


def test_without_a_model_the_links_are_learned_from_the_pairs(folder: Path) -> None:
    links = write_toy_pairs(folder)
    done = run(folder, *TOY_FILES, "--gold", "b.gold")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == [*links, "", ""]
    rows = dict(re.findall(r"^(\S+) +AER +(\d+\.\d)", done.stderr, re.MULTILINE))
    assert list(rows) == ["diagonal", "forward", "backward", "grow-diag-final-and"]
    assert float(rows["diagonal"]) > 50
    assert float(rows["grow-diag-final-and"]) == 0
    assert aligned(folder, *TOY_FILES, "--symmetrise", "intersection", "--output", "links") == [""]
    assert (folder / "links").read_text() == done.stdout
    assert aligned(folder, "--pairs", "b.tsv") == [*links, ""]


def test_links_are_learned_without_torch(folder: Path) -> None:
    write_toy_pairs(folder)
    code = "import sys; sys.modules['torch'] = None; from dragoman.cli.main import main; main()"
    command = [sys.executable, "-c", code, "align", *TOY_FILES, "--gold", "b.gold"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 145


HEAD_OPTIONS = [
    ("--search",), ("--store",), ("--grid", "g.png"), ("--layer", "0"), ("--head", "1"), ("--rows", "read"),
    ("--measure", "norm"), ("--reverse", "back"),
]  # fmt: skip


@pytest.mark.parametrize("option", HEAD_OPTIONS, ids=" ".join)
def test_without_a_model_options_of_heads_are_refused(option: tuple[str, ...], folder: Path) -> None:
    done = run(folder, *FILES, "--gold", "a.gold", "--output", "links", *option)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert option[0] in done.stderr
    assert "MODEL" in done.stderr
    assert not (folder / "links").exists()


def test_the_demo_aligns(folder: Path) -> None:
    write(folder / "b.en", ["A man is sleeping."])
    write(folder / "b.de", ["Ein Mann schläft."])
    (line, last) = aligned(folder, "demo", "--source", "b.en", "--target", "b.de")
    assert ({target for _, target in parse_links(line)}, last) == ({0, 1, 2}, "")


Mistake = Callable[[Path], tuple[str, ...]]


def other(name: str, lines: list[str], *arguments: str) -> Mistake:
    def mistake(folder: Path) -> tuple[str, ...]:
        write(folder / name, lines)
        return arguments

    return mistake


def plain(*arguments: str) -> Mistake:
    return lambda _: arguments


def copied(folder: Path) -> tuple[str, ...]:
    shutil.copytree(folder / "there", folder / "too")
    return ("there", *FILES, "--reverse", "too")


def blind(folder: Path) -> tuple[str, ...]:
    """A model that a head was stored in which it does not have."""
    golden = open_bundle(GOLDEN / "v1")
    info = golden.info.model_copy(update={"alignment_heads": (HEAD.model_copy(update={"head": 7}),)})
    write_bundle(folder / "blind", info, golden.weights(), golden.vocab, golden.card)
    return ("blind", *FILES)


def linked(folder: Path) -> tuple[str, ...]:
    """A run folder whose model is a symbolic link to the built-in one."""
    (folder / "run").mkdir()
    (folder / "run" / "bundle").symlink_to(demo_folder())
    return ("run", *FILES, "--gold", "a.gold", "--search", "--store")


def damaged(folder: Path) -> tuple[str, ...]:
    (folder / "there" / "vocab.model").unlink()
    return ("there", *FILES)


def empty(folder: Path) -> tuple[str, ...]:
    (folder / "none.en").touch()
    (folder / "none.de").touch()
    return ("there", "--source", "none.en", "--target", "none.de")


SEARCH = ("there", "--gold", "a.gold", "--search")
GOLDEN_FILES = ("there", *FILES, "--gold", "a.gold")
MISTAKES: dict[str, tuple[Mistake, str]] = {
    "no such model": (plain("nowhere", *FILES), "nowhere: there is no such folder"),
    "a damaged model": (damaged, "vocab.model: the file is missing"),
    "a missing file": (plain("there", "--source", "b.en", "--target", "a.de"), "did you mean a.en"),
    "other line counts": (
        other("b.de", ["eins"], "there", "--source", "a.en", "--target", "b.de"),
        "a.en has 5 lines but b.de has 1",
    ),
    "nothing in the files": (empty, "none.en: the file is empty"),
    "both from standard input": (plain("there", "--source", "-", "--target", "-"), "give - to one of --source"),
    "a line too long": (
        other("b.de", [*GERMAN[:3], "rote Hunde " * 99, ""], "there", "--source", "a.en", "--target", "b.de"),
        "line 4 of the target has",
    ),
    "a line too long to search by": (
        other("b.en", ["red dogs " * 99, *ENGLISH[1:]], *(*SEARCH, "--source", "b.en", "--target", "a.de")),
        "line 1 of the source has",
    ),
    "an output in no folder": (
        plain("there", *FILES, "--output", "b/links"),
        "folder b does not exist: create the folder first",
    ),
    "an output onto an input": (
        plain("there", *FILES, "--output", "./a.de"),
        "is an input file",
    ),
    "neither a model nor files": (plain(), "one side is missing"),
    "a model alone": (plain("there"), "one side is missing"),
    "joined without a second model": (plain("there", *FILES, "--symmetrise", "union"), "add --reverse MODEL"),
    "an unknown way to join": (
        plain("there", *FILES, "--reverse", "back", "--symmetrise", "grow"),
        "--symmetrise grow: give intersection, union, grow-diag or grow-diag-final-and",
    ),
    "the same model as its reverse": (plain("there", *FILES, "--reverse", "there"), "has the same direction as MODEL"),
    "a reverse of the same direction": (copied, "has the same direction as MODEL (en to de)"),
    "gold that is none": (
        other("bad.gold", ["1-1", "", "1:1", "", ""], "there", *FILES, "--gold", "bad.gold"),
        "bad.gold, line 3: '1:1' is not a link",
    ),
    "gold from zero": (
        other("bad.gold", ["0-0", "", "", "", ""], "there", *FILES, "--gold", "bad.gold"),
        "line 1: '0-0' is not a link: write 1-1",
    ),
    "gold of other text": (
        other("bad.gold", ["1-1", "", "1-4", "", ""], "there", *FILES, "--gold", "bad.gold"),
        "bad.gold, line 3: a link has target word 4, but there are 3 words",
    ),
    "gold the wrong way round": (
        plain("there", *FILES, "--gold", "turned.gold"),
        "add --swap-gold if the target word comes first",
    ),
    "gold of fewer lines": (
        other("bad.gold", ["1-1"], "there", *FILES, "--gold", "bad.gold"),
        "a.en has 5 lines but bad.gold has 1",
    ),
    "gold without sure links": (
        other("bad.gold", ["1p1", "", "", "", ""], "there", *FILES, "--gold", "bad.gold"),
        "AER is undefined without sure links",
    ),
    "a search by nothing": (
        plain("there", *FILES, "--search"),
        "add --gold FILE or --reverse MODEL",
    ),
    "a search for a head that is named": (
        plain(*GOLDEN_FILES, "--search", "--layer", "0"),
        "leave out --search, or --layer",
    ),
    "nothing to store": (plain("there", *FILES, "--store"), "--store has no head to store: add --search"),
    "the demo changed": (
        plain("demo", *FILES, "--gold", "a.gold", "--search", "--store"),
        "the built-in model `demo` cannot be changed",
    ),
    "the demo changed by another path": (linked, "the built-in model `demo` cannot be changed"),
    "the demo changed as the reverse": (
        plain("back", "--source", "a.de", "--target", "a.en", "--reverse", "demo", "--search", "--store"),
        "the built-in model `demo` cannot be changed",
    ),
    "a grid of nothing": (plain("there", *FILES, "--grid", "g.png"), "add --search and --gold FILE"),
    "a grid in no format": (
        plain(*GOLDEN_FILES, "--search", "--grid", "g.jpg"),
        "give a name ending in .svg",
    ),
    "a head of no layer": (plain("there", *FILES, "--head", "1"), "as in --layer 1 --head mean"),
    "a head that is no number": (plain("there", *FILES, "--layer", "0", "--head", "best"), "from 0, or mean"),
    "a layer that is not there": (plain("there", *FILES, "--layer", "3"), "there is no layer 3: choose 0 to 0"),
    "a head that is not there": (plain("there", *FILES, "--layer", "0", "--head", "2"), "there is no head 2"),
    "an unknown row": (plain("there", *FILES, "--layer", "0", "--rows", "both"), "--rows both: give written or read"),
    "an unknown measure": (plain("there", *FILES, "--layer", "0", "--measure", "x"), "give attention or norm"),
    "a stored head that is not there": (blind, "there is no head 7 in"),
    "no pair with words": (
        other("no.en", [""] * 5, "there", "--source", "no.en", "--target", "a.de", "--reverse", "back", "--search"),
        "every sentence pair has an empty side",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_line_and_exit_code_2(name: str, folder: Path) -> None:
    mistake, expected = MISTAKES[name]
    done = run(folder, *mistake(folder))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: ")
    assert expected in done.stderr


def test_no_links_are_left_when_something_is_wrong(folder: Path) -> None:
    write(folder / "bad.gold", ["1p1", "", "", "", ""])
    assert run(folder, "there", *FILES, "--gold", "bad.gold", "--output", "links").returncode == 2
    assert not (folder / "links").exists()
