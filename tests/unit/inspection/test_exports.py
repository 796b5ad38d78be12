"""Numbers for other programs: what is in them is what is in the trace."""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dragoman.alignment.moses import to_moses
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.inspection.exports import heads_csv, heads_json, map_csv, map_json, moses
from dragoman.inspection.head_search import head_links
from dragoman.inspection.heads import summarise_heads
from dragoman.inspection.interventions import HeadsOff
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import MapChoice

Traced = Callable[..., Trace]
CROSS = "decoder.layers.{}.cross_attention"
CHOICE = MapChoice("cross", 0, 2, "read", "attention")


def table(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_json_holds_the_texts_the_probabilities_and_the_map_with_its_caption(traced: Traced) -> None:
    trace = replace(
        traced(free=False),
        log_probabilities=np.array([-0.5, -0.25, -1.5, -0.125], np.float32),
        alternative_ids=np.array([[5, 9], [6, 9], [7, 9], [8, 9]]),
        alternative_log_probabilities=np.full((4, 2), -2.0, np.float32),
        pieces={5: "▁How", 6: "▁are", 7: "▁you", 8: "</s>", 9: "▁«Wie»"},
    )
    read = json.loads(map_json(trace, CHOICE))
    assert (read["source"]["text"], read["target"]["pieces"]) == ("Wie gehts dir?", ["▁How", "▁are", "▁you", "</s>"])
    assert (read["target_is"], read["cut"], read["interventions"]) == ("forced", False, [])
    assert (read["log_probability"], read["log_probabilities"]) == (-2.375, [-0.5, -0.25, -1.5, -0.125])
    assert read["alternatives"][1] == [
        {"id": 6, "piece": "▁are", "log_probability": -2.0}, {"id": 9, "piece": "▁«Wie»", "log_probability": -2.0}
    ]  # fmt: skip
    assert read["model"]["sha256"] == trace.model.sha256
    shown = read["map"]
    assert (shown["name"], shown["kind"], shown["head"]) == (CROSS.format(0), "cross", 2)
    assert (shown["rows"], shown["measure"], shown["by_word"], shown["sinks_hidden"]) == (
        "read",
        "attention",
        False,
        False,
    )
    assert shown["caption"] == CHOICE.view(trace).caption
    assert (shown["row_labels"], shown["column_labels"]) == (["<s>", "▁How", "▁are", "▁you"], [*trace.source.pieces])
    assert shown["sinks"] == [False, False, False, False, True, True]
    np.testing.assert_allclose(shown["values"], trace.attention[CROSS.format(0)][2], atol=1e-6)


def test_json_has_a_line_for_each_key_and_letters_as_they_are(traced: Traced) -> None:
    text = map_json(traced(target=("▁Grüß", "▁你好", "</s>")), CHOICE)
    assert len(text.splitlines()) == len(json.loads(text)) + 2
    assert "▁Grüß" in text
    assert "▁你好" in text


def test_json_has_the_interventions_and_null_for_infinity(traced: Traced) -> None:
    impossible = replace(
        traced(),
        interventions=(HeadsOff(where="cross", heads=(1,)),),
        log_probabilities=np.array([-1, -np.inf, -2, -3.0]),
    )
    read = json.loads(map_json(impossible, MapChoice("encoder", 1, "mean", "written", "norm")))
    assert read["interventions"] == [{"where": "cross", "heads": [1], "do": "off"}]
    assert read["log_probability"] is None
    assert read["log_probabilities"] == [-1.0, None, -2.0, -3.0]
    assert (read["map"]["rows"], read["map"]["head"]) == (None, "mean")
    alone = json.loads(map_json(traced(num_heads=1), MapChoice("cross", 1, "mean", "written", "norm")))
    assert alone["map"]["head"] == 0


def test_csv_holds_every_number_under_its_labels_and_the_caption_in_the_corner(traced: Traced) -> None:
    trace = traced(source=("▁a", ',"', "▁b\n", "</s>"))
    seen = CHOICE.view(trace)
    head, *lines = table(map_csv(seen))
    assert head == [seen.caption, "▁a", ',"', "▁b\n", "</s>"]
    assert [line[0] for line in lines] == ["<s>", "▁How", "▁are", "▁you"]
    numbers = np.array([line[1:] for line in lines], np.float64)
    np.testing.assert_allclose(numbers, trace.attention[CROSS.format(0)][2], rtol=1e-5)


@pytest.mark.parametrize("choice", [CHOICE, MapChoice("cross", 1, "mean", "written", "norm")])
def test_links_are_those_of_the_map_chosen(traced: Traced, choice: MapChoice) -> None:
    trace = traced()
    head = AlignmentHead(
        layer=CROSS.format(choice.layer), head=None if choice.head == "mean" else choice.head, rows=choice.rows,
        measure=choice.measure,
    )  # fmt: skip
    assert moses(trace, choice) == to_moses(head_links(trace, head)) + "\n"
    assert len(moses(trace, choice).split()) == 3


def test_the_links_beside_a_map_of_one_side_are_those_of_the_default(traced: Traced) -> None:
    trace = replace(traced(), alignment_heads=(AlignmentHead(layer=CROSS.format(0), head=2, rows="read"),))
    assert moses(trace, MapChoice("encoder", 1, 0, "written", "attention")) == moses(trace, CHOICE)
    assert moses(trace, CHOICE) != moses(trace, replace(CHOICE, layer=1))


def test_habits_are_kept_with_all_their_numbers(traced: Traced) -> None:
    trace = traced()
    habits = summarise_heads([trace])
    read = json.loads(heads_json(trace, habits))
    assert (read["source"], read["target"], read["target_is"]) == ("Wie gehts dir?", "How are you", "free")
    assert read["heads"] == [json.loads(habit.model_dump_json()) for habit in habits]


def test_habits_as_csv_have_a_line_for_each_head_and_nothing_where_there_is_nothing(traced: Traced) -> None:
    habits = summarise_heads([traced()])
    head, *lines = table(heads_csv(habits))
    assert len(lines) == 2 * 3 * 3
    cross = dict(zip(head, lines[6], strict=True))
    assert (cross["name"], cross["head"], cross["previous_token"]) == (CROSS.format(0), "0", "")
    assert float(cross["sink_share"]) == pytest.approx(habits[6].sink_share, rel=1e-5)
    assert cross["evidence"] == habits[6].evidence
