"""Error rates hold for any lines: distances are distances, and further references only help."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.evaluation.metrics import corpus_value
from dragoman.evaluation.symbol_metrics import edit_distance

SYMBOLS = st.lists(st.sampled_from("abc"), max_size=6)
LINE = SYMBOLS.map(" ".join)
ROWS = st.lists(st.tuples(LINE, LINE, LINE), min_size=1, max_size=5)


@given(SYMBOLS, SYMBOLS, SYMBOLS)
def test_the_edit_distance_is_a_metric(first: list[str], second: list[str], third: list[str]) -> None:
    distance = edit_distance(first, second)
    assert distance == edit_distance(second, first) == edit_distance(first[::-1], second[::-1])
    assert (distance == 0) == (first == second)
    assert abs(len(first) - len(second)) <= distance <= max(len(first), len(second))
    assert distance <= edit_distance(first, third) + edit_distance(third, second)


@given(ROWS)
def test_what_equals_a_reference_is_right_and_another_reference_never_hurts_exact_match(
    rows: list[tuple[str, str, str]],
) -> None:
    lines, first, second = (list(side) for side in zip(*rows, strict=True))
    for metric, best in (("per", 0.0), ("wer", 0.0), ("exact", 100.0)):
        assert corpus_value(metric, first, [first]) == corpus_value(metric, first, [second, first]) == best
    exact = corpus_value("exact", lines, [first, second])
    assert exact >= corpus_value("exact", lines, [first])
    assert exact + corpus_value("wer", lines, [first, second]) == 100.0


@given(ROWS)
def test_the_order_of_references_and_repeated_references_do_not_matter(rows: list[tuple[str, str, str]]) -> None:
    lines, first, second = (list(side) for side in zip(*rows, strict=True))
    value = corpus_value("per", lines, [first, second])
    assert corpus_value("per", lines, [second, first]) == value == corpus_value("per", lines, [first, second, first])


@given(ROWS)
def test_few_phoneme_errors_are_needed_for_a_wrong_word(rows: list[tuple[str, str, str]]) -> None:
    lines, first, _ = (list(side) for side in zip(*rows, strict=True))
    assert (corpus_value("per", lines, [first]) == 0.0) == (corpus_value("wer", lines, [first]) == 0.0)
