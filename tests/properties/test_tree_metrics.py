"""Labelled F1 holds for any trees: it is symmetric, and 100 for equal trees only."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.bracketed_trees import read_trees
from dragoman.evaluation.metrics import corpus_value
from dragoman.evaluation.tree_metrics import read_tree

LEAF = st.sampled_from(["(NN word)", "(. .)", "(-LRB- [)"])
TREE = st.recursive(
    LEAF,
    lambda trees: st.builds(
        lambda label, children: f"({label} {' '.join(children)})",
        st.sampled_from(["NP", "NP-SBJ", "ADVP", "PRT"]),
        st.lists(trees, min_size=1, max_size=3),
    ),
    max_leaves=6,
)


@given(st.lists(TREE, min_size=1, max_size=4))
def test_linearised_trees_are_well_formed_and_equal_to_themselves(trees: list[str]) -> None:
    pairs = read_trees(f"(ROOT {tree})" for tree in trees)
    lines = [tree for _, tree in pairs]
    for words, line in pairs:
        tree = read_tree(line)
        assert tree is not None
        assert len(tree.leaves) == len(words.split())
    assert corpus_value("well-formed", lines, [lines]) == 100.0
    counted = any(tree.constituents(tree.leaves) for tree in map(read_tree, lines) if tree)
    assert corpus_value("f1", lines, [lines]) == (100.0 if counted else 0.0)


@given(TREE, TREE)
def test_hypothesis_and_reference_can_change_places_where_they_mark_the_same_punctuation(one: str, other: str) -> None:
    (_, first), (_, second) = (read_trees([f"(ROOT {tree})"])[0] for tree in (one, other))
    leaves = [[symbol for symbol in line.split() if symbol[0] not in "()"] for line in (first, second)]
    if leaves[0] == leaves[1]:
        assert corpus_value("f1", [first], [[second]]) == corpus_value("f1", [second], [[first]])


@given(st.text(alphabet="() NX.", max_size=12))
def test_any_line_has_a_value(line: str) -> None:
    assert corpus_value("f1", [line], [["(NP XX . )NP"]]) in {0.0, 100.0}
