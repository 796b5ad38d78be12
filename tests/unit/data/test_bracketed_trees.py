import pytest

from dragoman.data.bracketed_trees import read_trees

SEE = "(ROOT (S (NP-SBJ (PRP I)) (VP (VBP see) (NP=2 (PRP it))) (. .)))"


def test_a_tree_is_its_words_and_its_symbols() -> None:
    assert read_trees([SEE]) == [("I see it .", "(S (NP XX )NP (VP XX (NP XX )NP )VP . )S")]


def test_punctuation_keeps_its_tag_and_brackets_are_words() -> None:
    [(words, tree)] = read_trees(
        ["(ROOT (NP (`` “) (NN word) ('' ”) (, ,) (-LRB- [) (CD 1) (-RRB- ]) (HYPH -) (: :)))"]
    )
    assert words == "“ word ” , [ 1 ] - :"
    assert tree == "(NP `` XX '' , XX XX XX XX : )NP"


def test_empty_elements_are_left_out_with_what_has_nothing_else() -> None:
    empty = "( (S (NP-SBJ (-NONE- *)) (VP (VB Go) (NP (NN home) (-NONE- *T*)))) )"
    assert read_trees([empty, "(ROOT (NP (-NONE- *)))"]) == [("Go home", "(S (VP XX (NP XX )NP )VP )S")]


def test_trees_may_have_several_lines_a_missing_root_and_one_word() -> None:
    lines = ["(ROOT", "  (NP (DT a)", "", "      (NN tree)))", "(S (VP (VB Go)))", "(ROOT (NN Word))"]
    assert read_trees(lines) == [("a tree", "(NP XX XX )NP"), ("Go", "(S (VP XX )VP )S"), ("Word", "XX")]


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ([SEE, f"{SEE})"], "line 2"),
        ([SEE, "Go ."], "line 2"),
        ([SEE, "(ROOT (NN tree)"], "last tree"),
        ([SEE, "(ROOT (NP the tree))"], "tree 2"),
        ([], "no line"),
    ],
)
def test_other_lines_are_refused_with_their_place(lines: list[str], place: str) -> None:
    with pytest.raises(ValueError, match=place):
        read_trees(lines)
