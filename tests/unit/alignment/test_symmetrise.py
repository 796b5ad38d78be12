"""Two directions made one: cases worked through by hand on paper, and what must hold of any."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.alignment.links import Links, swap
from dragoman.alignment.moses import to_moses
from dragoman.alignment.symmetrise import Symmetrisation, symmetrise

LINKS = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=9)


def parse_links(line: str) -> frozenset[tuple[int, int]]:
    """Read a line in the Moses format."""
    pairs = (link.split("-") for link in line.split())
    return frozenset((int(source), int(target)) for source, target in pairs)


def made(forward: str, backward: str, method: Symmetrisation) -> str:
    return to_moses(symmetrise(parse_links(forward), parse_links(backward), method))


FORWARD, BACKWARD = "0-0 1-1 1-2 4-4", "0-0 1-1 2-3 3-0 4-5"


def test_both_have_the_intersection_and_either_the_union() -> None:
    assert made(FORWARD, BACKWARD, "intersection") == "0-0 1-1"
    assert made(FORWARD, BACKWARD, "union") == "0-0 1-1 1-2 2-3 3-0 4-4 4-5"


def test_grow_diag_goes_from_neighbour_to_neighbour() -> None:
    # 1-1 has the neighbour 1-2, whose target is new; that has the diagonal neighbour 2-3. 4-4 is too far from it.
    assert made(FORWARD, BACKWARD, "grow-diag") == "0-0 1-1 1-2 2-3"


def test_final_and_adds_where_neither_word_has_a_link_the_forward_ones_first() -> None:
    # Then 4-4 is added; 3-0 is not, for target 0 has a link; 4-5 is not, for source 4 has one by now.
    assert made(FORWARD, BACKWARD, "grow-diag-final-and") == "0-0 1-1 1-2 2-3 4-4"
    assert made(BACKWARD, FORWARD, "grow-diag-final-and") == "0-0 1-1 1-2 2-3 4-5"


def test_a_neighbour_whose_words_both_have_links_is_left_out() -> None:
    assert made("0-0 0-1 1-1", "0-0 1-1", "grow-diag-final-and") == "0-0 1-1"


def test_straight_neighbours_are_tried_before_diagonal_ones() -> None:
    # 1-0 gives target 0 its link and 0-1 source 0, so that 0-0 comes too late.
    assert made("1-1 1-0 0-0", "1-1 0-1", "grow-diag") == "0-1 1-0 1-1"


def test_growing_goes_on_to_points_before_those_it_began_with() -> None:
    assert made("0-0 1-1 2-2", "2-2", "grow-diag") == "0-0 1-1 2-2"


def test_points_take_their_turns_by_target_and_then_by_source() -> None:
    # 1-2 gets 0-1 and 2-1, both before its own place. In the next round 0-1 comes first and takes 0-0, so 2-0, a
    # neighbour of 2-1, finds both its words with links.
    assert made("0-0 1-2 2-1", "0-1 1-2 2-0", "grow-diag") == "0-0 0-1 1-2 2-1"


def test_without_an_intersection_only_the_last_step_adds_anything() -> None:
    assert made("0-0 0-1", "1-1", "grow-diag") == ""
    assert made("0-0 0-1", "1-1", "grow-diag-final-and") == "0-0 1-1"


@settings(max_examples=60, deadline=None)
@given(forward=LINKS, backward=LINKS)
def test_all_lie_between_the_intersection_and_the_union(forward: Links, backward: Links) -> None:
    grown = symmetrise(forward, backward, "grow-diag")
    final = symmetrise(forward, backward, "grow-diag-final-and")
    assert forward & backward <= grown <= final <= forward | backward


@settings(max_examples=30, deadline=None)
@given(forward=LINKS, backward=LINKS)
def test_every_word_of_the_union_is_linked_unless_its_partners_are(forward: Links, backward: Links) -> None:
    final = symmetrise(forward, backward, "grow-diag-final-and")
    sources, targets = {a for a, _ in final}, {b for _, b in final}
    assert all(a in sources or b in targets for a, b in forward | backward)


@settings(max_examples=30, deadline=None)
@given(forward=LINKS, backward=LINKS, method=st.sampled_from(["intersection", "union"]))
def test_swapping_the_sides_transposes(forward: Links, backward: Links, method: Symmetrisation) -> None:
    assert symmetrise(swap(backward), swap(forward), method) == swap(symmetrise(forward, backward, method))
