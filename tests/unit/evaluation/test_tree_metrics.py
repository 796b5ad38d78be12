"""Labelled F1 on trees counted by hand, by the rules of evalb (Sekine and Collins, 1997) with COLLINS.prm."""

import pytest

from dragoman.evaluation.metric_options import MetricName
from dragoman.evaluation.metrics import compare, corpus_value, score_translations
from dragoman.evaluation.tree_metrics import read_tree

# "I saw it there ." has the constituents S 0-4, NP 0-1, VP 1-4, NP 2-3 and ADVP 3-4: the full stop is left out.
GOLD = "(S (NP XX )NP (VP XX (NP XX )NP (ADVP XX )ADVP )VP . )S"


def value(metric: MetricName, *hypotheses: str, gold: str = GOLD) -> float:
    return corpus_value(metric, hypotheses, [[gold] * len(hypotheses)])


@pytest.mark.parametrize(
    ("tree", "matching", "found"),
    [
        (GOLD, 5, 5),
        ("(S (NP XX )NP (VP XX (NP XX XX )NP )VP . )S", 3, 4),  # NP 2-4 instead of NP 2-3 and ADVP 3-4
        ("(S (NP XX )NP (VP XX (NP XX )NP (PP XX )PP )VP . )S", 4, 5),  # another label
        ("(S (NP XX )NP (VP XX (NP XX )NP (PRT XX )PRT )VP . )S", 5, 5),  # PRT is ADVP
        ("(S-1 (NP-SBJ XX )NP-SBJ (VP XX (NP=2 XX )NP=2 (ADVP-LOC XX )ADVP-LOC )VP . )S-1", 5, 5),  # functions
        ("(ROOT (S (NP XX )NP (VP XX (NP XX )NP (ADVP XX )ADVP )VP . )S )ROOT", 5, 5),  # the root
        ("(S (NP XX )NP (VP XX (NP XX )NP (ADVP XX . )ADVP )VP )S", 5, 5),  # the full stop elsewhere
        ("(S (NP XX )NP (VP XX (NP XX )NP (ADVP XX )ADVP )VP (NP . )NP )S", 5, 5),  # a constituent of punctuation
        ("(S (NP PRP )NP (VP . (NP XX )NP (ADVP XX )ADVP )VP XX )S", 5, 5),  # leaves are not compared
        ("(S (NP (NP XX )NP )NP (VP XX (NP XX )NP (ADVP XX )ADVP )VP . )S", 5, 6),  # NP 0-1 twice
        ("XX XX XX XX .", 0, 0),  # no constituent
    ],
)
def test_f1_of_one_tree(tree: str, matching: int, found: int) -> None:
    assert value("f1", tree) == pytest.approx(200 * matching / (found + 5))
    assert value("well-formed", tree) == 100.0


def test_a_constituent_twice_in_the_reference_counts_twice() -> None:
    gold = "(NP (NP (NP XX )NP )NP XX )NP"  # NP 0-2 once, NP 0-1 twice
    assert value("f1", "(NP (NP XX )NP XX )NP", gold=gold) == pytest.approx(200 * 2 / (2 + 3))
    assert value("f1", "(NP (NP (NP (NP XX )NP )NP )NP XX )NP", gold=gold) == pytest.approx(200 * 3 / (4 + 3))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "(S (NP XX )NP (VP XX (NP XX )NP (ADVP XX )ADVP )VP .",  # S does not close
        "(NP XX )NP (VP XX (NP XX )NP (ADVP XX )ADVP )VP . )S",  # S does not open
        "(S (NP XX )VP (VP XX (NP XX )NP (ADVP XX )ADVP )NP . )S",  # another label closes
        "(S (NP XX )NP (VP XX (NP XX )NP (ADVP )ADVP XX )VP . )S",  # nothing in ADVP
        "(S (NP XX )NP (VP XX (NP XX )NP )VP . )S",  # four leaves, and five words
        "(S (NP XX XX )NP (VP XX (NP XX )NP (ADVP XX )ADVP )VP . )S",  # six leaves
    ],
)
def test_what_is_no_tree_over_the_words_has_no_constituents(line: str) -> None:
    assert value("f1", line) == value("well-formed", line) == 0.0
    assert value("f1", line, GOLD) == pytest.approx(200 * 5 / (5 + 10))  # the five of the reference are missed
    assert value("well-formed", line, GOLD, GOLD, GOLD) == 75.0


def test_precision_and_recall_are_those_of_all_lines_together() -> None:
    hypotheses, gold = ["(S XX XX )S", GOLD], ["(NP XX XX )NP", GOLD]
    assert corpus_value("f1", hypotheses, [gold]) == pytest.approx(200 * 5 / (6 + 6))


def test_with_several_references_the_nearest_counts() -> None:
    tree, other = "(NP XX XX )NP", "(S XX (NP XX )NP )S"
    assert corpus_value("f1", [tree], [[other], [tree]]) == corpus_value("f1", [tree], [[tree], [other]]) == 100.0
    assert corpus_value("well-formed", ["(X XX XX XX )X"], [[other], ["(NP XX XX XX )NP"]]) == 100.0


def test_a_reference_that_is_no_tree_is_refused() -> None:
    for gold in ("(S (NP XX )NP", "(ROOT (NP (NN tree)))"):
        with pytest.raises(ValueError, match="is not a tree"):
            value("f1", GOLD, gold=gold)


def test_a_corpus_without_constituents_has_no_f1() -> None:
    assert value("f1", "XX", gold="XX") == 0.0
    assert value("well-formed", "XX", gold="XX") == 100.0


def test_the_spans_of_a_tree() -> None:
    tree = read_tree("(S (NP XX XX )NP , XX )S")
    assert tree is not None
    assert tree.leaves == ("XX", "XX", ",", "XX")
    assert tree.spans == (("NP", 0, 2), ("S", 0, 4))


def test_intervals_p_values_and_signatures_are_those_of_resampled_lines() -> None:
    gold = [GOLD] * 60
    good, bad = [GOLD if i % 5 else "" for i in range(60)], [GOLD if i % 2 else "" for i in range(60)]
    first, second = compare([good, bad], [gold], ["f1", "well-formed"])
    assert [score.metric for score in first] == ["F1", "well-formed"]
    assert first[0].value == pytest.approx(200 * 240 / (240 + 300))
    assert all(score.low < score.value < score.high for score in (*first, *second))
    assert all(score.p_value is not None and score.p_value < 0.01 for score in second)
    assert "unit:constituent" in score_translations(good, [gold], ["f1"])["f1"].signature
