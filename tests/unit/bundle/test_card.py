"""The model card as people read it."""

from dragoman.bundle import BundleInfo, Card, CardData, CardScore
from dragoman.models.config import RecurrentConfig

INFO = BundleInfo(
    model=RecurrentConfig(source_vocabulary=300, target_vocabulary=310), source_language="en", target_language="de"
)
FULL = Card(
    data=(
        CardData(name="talks", pairs=12_345, licence="CC-BY 2.0", attribution="a | b\nc"),
        CardData(name="news", pairs=7),
    ),
    sizes={"parameters": 4_321_000},
    scores=(
        CardScore(
            metric="BLEU",
            value=35.04,
            low=33.96,
            high=36.1,
            signature="nrefs:1|case:mixed",
            test_set="test",
            command="dragoman evaluate",
        ),
        CardScore(metric="chrF2", value=61.0, test_set="test", command="dragoman evaluate"),
    ),
    licence="CC-BY 4.0",
    command="dragoman train --source a.en",
    notes=("Poor at poetry.",),
)


def test_everything_that_is_known_is_written_down() -> None:
    written = FULL.readme(INFO)
    assert written.startswith("# en → de\n\nA recurrent model, written by dragoman ")
    for line in (
        "Poor at poetry.",
        "| parameters | 4,321,000 |",
        "| talks | 12,345 | CC-BY 2.0 | a \\| b c |",
        "| news | 7 |  |  |",
        "| test | BLEU | 35.0 | 34.0 to 36.1 | nrefs:1\\|case:mixed |",
        "| test | chrF2 | 61.0 |  |  |",
        "dragoman train --source a.en",
        "CC-BY 4.0",
    ):
        assert line in written.split("\n")
    assert written.count("dragoman evaluate") == 1


def test_what_is_not_known_has_no_heading() -> None:
    written = Card(title="Dates").readme(INFO)
    assert [line for line in written.split("\n") if line.startswith("#")] == ["# Dates", "## Use"]


def test_without_languages_the_sides_have_their_names() -> None:
    assert Card().readme(BundleInfo(model=INFO.model)).startswith("# source → target\n")
