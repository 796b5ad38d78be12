"""What `dragoman translate` writes beside a translation: the next best ones, scores and links between words."""

import shutil
import subprocess
from pathlib import Path

import pytest
from fork_server import DRAGOMAN

from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.bundle.writing import store_alignment_heads

GOLDEN = Path(__file__).parents[1] / "golden" / "v1"
LINES = ["two red dogs.", "", "- ten old houses.  four green women.", "   ", "four green women."]
GERMAN = ["zwei rote Hunde.", "", "- zehn alte Häuser.  vier grüne Frauen.", "   ", "vier grüne Frauen."]


def parse_links(line: str) -> frozenset[tuple[int, int]]:
    """Read a line in the Moses format."""
    pairs = (link.split("-") for link in line.split())
    return frozenset((int(source), int(target)) for source, target in pairs)


def run(model: Path, *arguments: object, lines: list[str] | None = None) -> tuple[list[list[str]], str]:
    """The columns of each line, and standard error."""
    given = "".join(f"{line}\n" for line in lines or []).encode()
    command = [str(DRAGOMAN), "translate", str(model), *map(str, arguments)]
    done = subprocess.run(command, input=given, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    *written, last = done.stdout.decode().split("\n")
    assert last == ""
    return [line.split(" ||| ") for line in written], done.stderr.decode()


def test_a_score_follows_each_translation_and_adds_up_over_sentences(exported: Path) -> None:
    found, errors = run(exported, "--scores", lines=LINES)
    assert errors == ""
    assert [text for text, _ in found] == GERMAN
    score = [float(score) for _, score in found]
    assert (score[1], score[3]) == (0.0, 0.0)
    assert all(score[i] < 0 for i in (0, 2, 4))
    (alone,), _ = run(exported, "ten old houses.", "--scores")
    assert score[2] == pytest.approx(float(alone[1]) + score[4], abs=2e-4)


def test_the_score_is_the_log_probability_under_the_penalty(exported: Path) -> None:
    import dragoman

    model = dragoman.load(exported)
    (found,), _ = run(exported, "two red dogs.", "--scores")
    by_token = model.score("two red dogs.", "zwei rote Hunde.")
    penalty = model.translator.options.penalty
    assert (penalty.formula, penalty.alpha) == ("gnmt", 0.6)
    assert float(found[1]) == pytest.approx(penalty.score(sum(by_token), len(by_token)), abs=1e-4)


@pytest.mark.parametrize("engine", ["ctranslate2", "torch"])
def test_the_best_are_numbered_by_line_and_sorted(engine: str, exported: Path) -> None:
    found, errors = run(exported, "--nbest", 3, "--engine", engine, lines=LINES)
    assert errors == ""
    by_line = [[(text, float(score)) for line, text, score in found if int(line) == number] for number in range(5)]
    assert [line for line, *_ in found] == sorted(line for line, *_ in found)
    assert [best[0][0] for best in by_line] == GERMAN
    assert [len(best) for best in by_line] == [3, 1, 3, 1, 3]
    for best in by_line:
        assert [score for _, score in best] == sorted((score for _, score in best), reverse=True)
        assert len({text for text, _ in best}) == len(best)
    for text, _ in by_line[2]:
        assert text.startswith("- ")
        assert "  " in text


def test_both_engines_give_the_same_scores(exported: Path) -> None:
    ours, theirs = (run(exported, "--nbest", 3, "--engine", name, lines=LINES)[0] for name in ("ctranslate2", "torch"))
    assert [row[:2] for row in ours] == [row[:2] for row in theirs]
    assert [float(row[2]) for row in ours] == pytest.approx([float(row[2]) for row in theirs], abs=2e-4)


def test_a_prefix_is_what_the_translation_begins_with(exported: Path) -> None:
    (free,), _ = run(exported, "two red dogs.")
    found, _ = run(exported, "two red dogs.", "--prefix", "drei", "--nbest", 2)
    assert free == ["zwei rote Hunde."]
    assert [text.split()[0] for _, text, _ in found] == ["drei", "drei"]


def test_what_must_stay_stays_unless_protection_is_off(exported: Path) -> None:
    address = "https://example.org/a?b=1"
    for options in ([], ["--protect"], ["--alignment"], ["--nbest", 2], ["--prefix", "drei"], ["--scores"]):
        rows, _ = run(exported, f"two red {address} dogs.", *options)
        assert all(address in row[1 if "--nbest" in options else 0] for row in rows), options
    (found,), _ = run(exported, f"two red {address} dogs.", "--no-protect")
    assert address not in found[0]


def test_links_count_the_words_of_a_text_with_protected_strings(exported: Path) -> None:
    (found,), _ = run(exported, "two {{ red }} dogs.", "--alignment")
    links = parse_links(found[1])
    assert links
    assert all(source < 5 and target < len(found[0].split()) for source, target in links)


def test_code_between_fences_stays_in_lines_of_text(exported: Path) -> None:
    lines = ["two red dogs.", "```python", "two red dogs.", "```", "two red dogs.", "~~~", "two red dogs."]
    found, _ = run(exported, lines=lines)
    german = "zwei rote Hunde."
    assert [row[0] for row in found] == [german, "```python", "two red dogs.", "```", german, "~~~", german]
    assert run(exported, "--no-split", lines=lines[1:4])[0][1] == [german]


def test_a_text_without_a_translation_stays_with_a_warning(exported: Path) -> None:
    found, errors = run(exported, "--no-split", lines=["two red dogs.", "\u200b", ""])
    assert found == [["zwei rote Hunde."], ["\u200b"], [""]]
    assert errors.startswith("line 2 ")
    assert "empty translation" in errors


def test_int8_says_what_it_costs(exported: Path) -> None:
    found, errors = run(exported, "two red dogs.", "--compute", "int8")
    assert found == [["zwei rote Hunde."]]
    assert errors == "int8: the translation of a text may depend on its batch\n"


@pytest.mark.parametrize("engine", ["ctranslate2", "torch"])
def test_links_follow_each_translation_and_count_the_words_of_the_line(engine: str, exported: Path) -> None:
    found, errors = run(exported, "--alignment", "--engine", engine, lines=LINES)
    assert errors == ""
    assert [text for text, _ in found] == GERMAN
    links = [parse_links(link) for _, link in found]
    assert (links[1], links[3]) == (frozenset(), frozenset())
    for english, german, own in zip(LINES, GERMAN, links, strict=True):
        marks = int(english.startswith("- "))  # of a list: no model reads it, and it is linked to nothing
        assert {target for _, target in own} == set(range(marks, len(german.split())))
        assert {source for source, _ in own} <= set(range(marks, len(english.split())))
    first = {(source, target) for source, target in links[2] if target < 4}
    second = {(source - 4, target - 4) for source, target in links[2] if target >= 4}
    assert all(source < 4 for source, _ in first)
    assert second == links[4]


def test_both_engines_align_alike_and_as_the_aligner_does(exported: Path, tmp_path: Path) -> None:
    lines = ["two red dogs.", "ten old houses.", "four green women.", "three tables."]
    (ours, _), (theirs, _) = (run(exported, "--alignment", "--engine", name, lines=lines) for name in ("auto", "torch"))
    assert ours == theirs
    (tmp_path / "a.en").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "a.de").write_text("".join(f"{text}\n" for text, _ in ours), encoding="utf-8")
    align = [str(DRAGOMAN), "align", str(exported), "--source", "a.en", "--target", "a.de"]
    done = subprocess.run(align, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [links for _, links in ours]


def test_each_of_the_best_has_its_own_links(exported: Path) -> None:
    found, _ = run(exported, "--nbest", 2, "--alignment", lines=["ten old houses. four green women."])
    assert [len(row) for row in found] == [4, 4]
    for _, text, _, links in found:
        own = parse_links(links)
        assert {target for _, target in own} == set(range(len(text.split())))


def test_a_line_that_is_cut_is_aligned_to_its_end(exported: Path) -> None:
    ((text, links),), _ = run(exported, "two red dogs. " * 40, "--no-split", "--alignment")
    found = parse_links(links)
    assert {target for _, target in found} == set(range(len(text.split())))
    assert max(source for source, _ in found) >= 3 * 36


def test_where_the_export_cannot_show_the_heads_torch_aligns_and_says_why(exported: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(exported, tmp_path / "model"))
    head = AlignmentHead(layer="decoder.layers.0.cross_attention", head=0)
    store_alignment_heads(model, (head,))
    newer, errors = run(model, "two red dogs.", "--alignment")
    assert errors.startswith("torch aligns, and ctranslate2 translates: ")
    assert errors.endswith(f"the export is older than the stored heads (run dragoman export {model})\n")
    store_alignment_heads(model, (head.model_copy(update={"measure": "norm"}),))
    _, errors = run(model, "two red dogs.", "--alignment")
    assert "the stored heads use norms" in errors
    store_alignment_heads(model, ())
    guessed, errors = run(model, "two red dogs.", "--alignment")
    assert errors.startswith("torch aligns, and ctranslate2 translates: no alignment heads are stored in this model\n")
    assert "links come from a guess" in errors
    assert [row[0] for row in (*newer, *guessed)] == ["zwei rote Hunde."] * 2
