"""What CTranslate2 cannot express is said in words."""

import pytest

from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.export.obstacles import find_alignment_obstacle, find_obstacle
from dragoman.models.config import RecurrentConfig, TransformerConfig
from dragoman.pretrained.conversion import find_obstacle as find_marian_obstacle

WORDS = {"source_vocabulary": 9, "target_vocabulary": 9}
CROSS = "decoder.layers.{}.cross_attention"


def head(layer: int = 1, number: int | None = 2, **more: str) -> AlignmentHead:
    return AlignmentHead.model_validate({"layer": CROSS.format(layer), "head": number, **more})


def test_a_recurrent_model_stays_with_torch() -> None:
    assert find_obstacle(RecurrentConfig(**WORDS)) == "CTranslate2 has no recurrent models"


@pytest.mark.parametrize("widths", [{"d_k": 8}, {"d_v": 32}, {"d_model": 510, "d_k": 64, "d_v": 64}])
def test_heads_of_other_widths_stay_with_torch(widths: dict[str, int]) -> None:
    shape = TransformerConfig(**WORDS, **widths)
    assert f"d_k {shape.key_width} and d_v {shape.value_width}" in (find_obstacle(shape) or "")


def test_the_papers_model_can_be_exported_in_all_its_layouts() -> None:
    assert find_obstacle(TransformerConfig(**WORDS)) is None
    assert find_obstacle(TransformerConfig(**WORDS, d_k=64, d_v=64)) is None
    for norm, tie, positions in [("pre", "none", "learned"), ("post", "target", "sinusoidal-halves")]:
        assert find_obstacle(TransformerConfig(**WORDS, norm=norm, tie=tie, positions=positions)) is None


@pytest.mark.parametrize("positions", ["rotary", "none"])
def test_a_model_that_adds_no_positions_stays_with_torch(positions: str) -> None:
    shape = TransformerConfig(**WORDS, positions=positions)
    assert f"positions: {positions}" in (find_obstacle(shape) or "")
    assert f"positions: {positions}" in (find_marian_obstacle(shape) or "")


@pytest.mark.parametrize(
    ("heads", "said"),
    [
        ((), "no alignment head is stored"),
        ((head(0), head(1)), "a single layer"),
        ((head(1, 0), head(1, 2, rows="read")), "differ in `rows`"),
        ((head(measure="norm"),), "use norms"),
    ],
)
def test_heads_that_it_cannot_show_are_named(heads: tuple[AlignmentHead, ...], said: str) -> None:
    assert said in (find_alignment_obstacle(heads) or "")


def test_heads_of_one_layer_can_be_shown() -> None:
    assert find_alignment_obstacle((head(1, 0), head(1, 2))) is None
    assert find_alignment_obstacle((head(1, None),)) is None
