"""What is read from a run's probes: series that are those of the heads, and plain words where there are none."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from dragoman.inspection.evolution import (
    Evolution,
    ProbeSnapshot,
    bar,
    headings,
    in_units,
    legend,
    load_traces,
    read_evolution,
    save_snapshot,
    snapshot_rows,
    table,
)
from dragoman.inspection.heads import summarise_heads
from dragoman.inspection.trace import Trace

Traced = Callable[..., Trace]
SOURCE = ("▁ein", "▁Hund", "▁bell", "t", "</s>")
TARGET = ("▁a", "▁dog", "▁barks", "</s>")
SHARPNESS = (0.0, 1.0, 40.0)
"""How far attention is from uniform, before the first update and in two validations."""


def softmax(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return (raised / raised.sum(-1, keepdims=True)).astype(np.float32)


def learned(trace: Trace, sharpness: float) -> Trace:
    """Layer 1 head 2 aligns word by word; head 0 comes to rest on EOS; all else stays uniform."""
    rows, keys = len(trace.target), len(trace.source)
    scores = np.zeros((3, rows, keys))
    scores[2] = sharpness * np.eye(rows, keys)
    scores[0, :, -1] = sharpness
    maps = {name: softmax(np.zeros_like(weights)) for name, weights in trace.attention.items()}
    return replace(trace, attention=maps | {"decoder.layers.1.cross_attention": softmax(scores)}, norms={})


@pytest.fixture
def run(tmp_path: Path, traced: Traced) -> Path:
    """Two sentences at three snapshots, the second of which was the best."""
    for i, sharpness in enumerate(SHARPNESS):
        update = 100 * i
        scores = {"loss": 3.0 - i, "bleu": 10.0 * i, "chrf": 12.5 * i} if i else {}
        snapshot = ProbeSnapshot(update=update, which=f"update {update:,}", best=i == 1, **scores)
        traces = [learned(traced(SOURCE, TARGET, free=False), sharpness), learned(traced(free=False), sharpness)]
        save_snapshot(snapshot, traces, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def evolution(run: Path) -> Evolution:
    return read_evolution(run)


def lines_of(evolution: Evolution, width: int = 80, encoding: str = "utf-8") -> list[str]:
    console = Console(width=width, no_color=True, highlight=False)
    with console.capture() as captured:
        console.print(table(snapshot_rows(evolution), ascii_only=encoding == "ascii"))
    return captured.get().splitlines()


def test_a_heads_series_are_its_habits_at_each_snapshot(evolution: Evolution) -> None:
    assert [snapshot.update for snapshot in evolution.snapshots] == [0, 100, 200]
    for i, folder in enumerate(evolution.folders):
        habits = {(habit.name, habit.head): habit for habit in summarise_heads(load_traces(folder))}
        assert len(habits) == len(evolution.histories) == 18
        for history in evolution.histories:
            habit = habits[history.name, history.head]
            assert (history.entropy[i], history.sink_share[i]) == (habit.entropy, habit.sink_share)
            assert (history.alignment[i], history.label[i], history.evidence[i]) == (
                habit.alignment,
                habit.label,
                habit.evidence,
            )


def test_a_head_is_seen_to_take_its_role(evolution: Evolution) -> None:
    aligned, resting = evolution.head("cross", 1, 2), evolution.head("cross", -1, 0)
    assert aligned.label == ("diffuse", "diffuse", "alignment")
    assert resting.label == ("diffuse", "diffuse", "sink")
    assert aligned.entropy[0] == pytest.approx(1.0, abs=1e-6)
    assert aligned.entropy[2] == pytest.approx(0.0, abs=1e-6)
    assert resting.sink_share[2] == pytest.approx(1.0, abs=1e-6)
    assert evolution.head("encoder", 0, 1).label == ("diffuse",) * 3


def test_heads_come_kind_by_kind_and_layer_by_layer(evolution: Evolution) -> None:
    assert [(history.kind, history.layer, history.head) for history in evolution.histories] == [
        (kind, layer, head) for kind in ("cross", "encoder", "decoder") for layer in (0, 1) for head in (0, 1, 2)
    ]
    assert [history.name for history in evolution.heads("decoder")][3:] == ["decoder.layers.1.self_attention"] * 3
    assert len(evolution.heads(None)) == 18


def test_what_stands_out_is_the_best_aligned_head_or_the_sharpest(evolution: Evolution) -> None:
    assert str(evolution.standout("cross")) == "layer 1 head 2"
    sharp = replace(evolution.histories[7], entropy=(0.5, 0.2, 0.9))
    changed = replace(evolution, histories=(*evolution.histories[:7], sharp, *evolution.histories[8:]))
    assert changed.kept == 1
    assert changed.standout("encoder") is sharp
    assert changed.standout("encoder", 2) is sharp
    assert changed.standout("decoder").kind == "decoder"


def test_what_is_kept_is_the_last_that_was_best(evolution: Evolution) -> None:
    first, second, third = evolution.snapshots
    assert replace(evolution, snapshots=(first, second, replace_best(third, True))).kept == 2
    assert replace(evolution, snapshots=(first, replace_best(second, False), third)).kept is None


def replace_best(snapshot: ProbeSnapshot, best: bool) -> ProbeSnapshot:
    return snapshot.model_copy(update={"best": best})


def test_one_sentence_is_found_at_every_snapshot(evolution: Evolution) -> None:
    assert evolution.sentences == (("ein Hund bellt", "a dog barks"), ("Wie gehts dir?", "How are you"))
    assert [trace.source.text for trace in evolution.traces(1)] == ["Wie gehts dir?"] * 3
    assert not any(trace.free for trace in evolution.traces(0))


def test_a_side_without_spaces_is_counted_by_piece(traced: Traced) -> None:
    """As word by word a whole date would be one word, which aligns with anything."""
    dated = traced(("▁4", "▁March", "▁1987", "</s>"), ("▁19", "87", "-", "03", "-", "04", "</s>"), free=False)
    (found,) = in_units([dated])
    assert found.source == dated.source
    assert found.target.words == (0, 1, 2, 3, 4, 5, -1)
    assert len(found.target.word_spans) == 6
    assert found.target.pieces == dated.target.pieces
    both = in_units([traced(("▁我", "吃", "</s>"), ("▁食", "べ", "た", "</s>"))])[0]
    assert (both.source.words, both.target.words) == ((0, 1, -1), (0, 1, 2, -1))
    spaced = traced(SOURCE, TARGET)
    assert in_units([spaced])[0].target == spaced.target


def test_the_units_are_named(tmp_path: Path, traced: Traced) -> None:
    dated = traced(("▁4", "▁March", "▁1987", "</s>"), ("▁19", "87", "-", "</s>"), free=False)
    save_snapshot(ProbeSnapshot(update=0, which="before"), [replace(dated, norms={})], tmp_path)
    assert read_evolution(tmp_path).units == "source words and target pieces"


def test_a_snapshot_that_is_being_written_is_not_there_yet(run: Path) -> None:
    half = run / "probe" / ".00000300.unfinished"
    half.mkdir()
    (half / "0.trace").write_bytes(b"half of")
    assert [snapshot.update for snapshot in read_evolution(run).snapshots] == [0, 100, 200]


def test_one_snapshot_is_enough(run: Path) -> None:
    for folder in sorted((run / "probe").iterdir())[1:]:
        folder.rename(run / folder.name)
    evolution = read_evolution(run)
    assert len(evolution.snapshots) == len(evolution.histories[0].label) == 1
    assert len(lines_of(evolution)) == 2


def test_reading_reports_progress(run: Path) -> None:
    reports: list[tuple[object, ...]] = []
    read_evolution(run, lambda *report: reports.append(report))
    assert [report[:3] for report in reports] == [("read the probes", i, 3) for i in range(3)]


def test_a_run_without_probes_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no such folder; give the folder of a run"):
        read_evolution(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="this is a file; give the folder of a run"):
        read_evolution(tmp_path / "file")
    with pytest.raises(ValueError, match="this is not the folder of a run"):
        read_evolution(tmp_path)
    (tmp_path / "recipe.yaml").write_text("")
    with pytest.raises(ValueError, match=r"validation\.probe was 0.* train again"):
        read_evolution(tmp_path)
    (tmp_path / "probe").mkdir()
    with pytest.raises(ValueError, match="the first probe is not complete"):
        read_evolution(tmp_path)
    (tmp_path / "bundle").mkdir()
    with pytest.raises(ValueError, match=f"give the folder of the run: {tmp_path}"):
        read_evolution(tmp_path / "bundle")


def test_a_damaged_snapshot_is_named_with_its_remedy(run: Path) -> None:
    path = run / "probe" / "00000100" / "1.trace"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"1\.trace: .*sha256 differs.* remove the folder 00000100") as raised:
        read_evolution(run)
    assert "Inspector" not in str(raised.value)
    path.unlink()
    (run / "probe" / "00000100" / "0.trace").rename(path)
    with pytest.raises(ValueError, match=r"0\.trace: there is no such file; remove the folder 00000100"):
        read_evolution(run)


def test_a_snapshot_without_a_description_is_named(run: Path) -> None:
    (run / "probe" / "00000200" / "moment.json").write_text("{")
    with pytest.raises(ValueError, match=r"moment\.json: the file cannot be read; remove the folder 00000200"):
        read_evolution(run)


def test_sentences_that_change_are_refused(run: Path, traced: Traced) -> None:
    save_snapshot(ProbeSnapshot(update=300, which="update 300"), [traced(free=False, norms=False)], run)
    with pytest.raises(ValueError, match="00000300: the probe sentences differ from 00000000"):
        read_evolution(run)


def test_what_a_model_does_not_have_is_refused(evolution: Evolution, traced: Traced, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no layer 2: choose 0 to 1, or -1 for the last"):
        evolution.head("cross", 2, 0)
    with pytest.raises(ValueError, match="no layer -3"):
        evolution.head("cross", -3, 0)
    with pytest.raises(ValueError, match="no head 3: choose 0 to 2"):
        evolution.head("cross", 0, 3)
    only = replace(evolution, histories=tuple(evolution.heads("cross")))
    with pytest.raises(ValueError, match="no encoder attention; choose cross"):
        only.heads("encoder")
    blind = replace(traced(free=False), attention={}, norms={})
    save_snapshot(ProbeSnapshot(update=0, which="before"), [blind], tmp_path / "blind")
    with pytest.raises(ValueError, match="this model has no attention"):
        read_evolution(tmp_path / "blind").heads(None)


def test_a_row_summarises_its_snapshot(evolution: Evolution) -> None:
    before, after, last = snapshot_rows(evolution)
    assert (before.is_kept, after.is_kept, last.is_kept) == (False, True, False)
    assert before.entropy == pytest.approx(1.0, abs=1e-6)
    assert last.entropy == pytest.approx(4 / 6, abs=1e-6)
    assert (str(last.head), last.value) == ("layer 1 head 2", evolution.head("cross", 1, 2).alignment[2])
    assert before.roles == {"alignment": 0, "sink": 0, "diffuse": 18}
    assert last.roles == {"alignment": 1, "sink": 1, "diffuse": 16}
    assert snapshot_rows(evolution, "cross")[2].roles == {"alignment": 1, "sink": 1, "diffuse": 4}
    encoder = snapshot_rows(evolution, "encoder")[2]
    assert (encoder.head.kind, encoder.value, encoder.roles) == ("encoder", encoder.head.entropy[2], {"diffuse": 6})


def test_the_table_has_a_line_for_each_snapshot_and_fits(evolution: Evolution) -> None:
    heading, before, after, _ = lines_of(evolution)
    assert heading.split() == ["update", "BLEU", "entropy", "best", "aligned", "head", "A", "S", "D"]
    assert before.split()[:4] == ["0", "-", "1.00", "████████"]
    assert after.split()[:3] == ["100", "*", "10.0"]
    assert "L1H2" in after
    many = replace(evolution, histories=tuple(replace(c, label=("previous token",) * 3) for c in evolution.histories))
    assert all(len(line) <= 80 for line in lines_of(many))
    assert headings(snapshot_rows(evolution, "decoder"))[4] == "sharpest head"
    assert "A alignment, S sink, D diffuse." in legend(snapshot_rows(evolution))


def test_an_average_has_no_update_of_its_own(evolution: Evolution) -> None:
    averaged = evolution.snapshots[2].model_copy(update={"is_average": True})
    changed = replace(evolution, snapshots=(*evolution.snapshots[:2], averaged))
    assert str(averaged) == "average"
    assert lines_of(changed)[3].split()[0] == "average"


@pytest.mark.parametrize(
    ("value", "fine", "plain"),
    [(0.0, "", ""), (None, "", ""), (1.0, "████████", "########"), (0.5, "████", "####"), (0.45, "███▋", "####")],
)
def test_a_bar_is_as_long_as_its_value(value: float | None, fine: str, plain: str) -> None:
    assert (bar(value), bar(value, ascii_only=True)) == (fine.ljust(8), plain.ljust(8))


def test_the_record_has_every_number(evolution: Evolution) -> None:
    found = json.loads(evolution.to_json())
    assert (found["target_is"], found["rows"], found["kept"]) == ("forced", "written", 1)
    assert [snapshot["bleu"] for snapshot in found["snapshots"]] == [None, 10.0, 20.0]
    assert found["sentences"][0] == {"source": "ein Hund bellt", "target": "a dog barks"}
    for written, history in zip(found["heads"], evolution.histories, strict=True):
        assert (written["kind"], written["layer"], written["head"]) == (history.kind, history.layer, history.head)
        assert tuple(written["entropy"]) == history.entropy
        assert tuple(written["label"]) == history.label
    assert "between source words and target words" in found["measures"]["alignment"]
