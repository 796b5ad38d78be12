"""The model card: training data, sizes, scores and licence of a model."""

from collections.abc import Sequence
from functools import partial
from operator import is_

from pydantic import Field

from dragoman.bundle.info import BundleInfo
from dragoman.config import Config


class CardData(Config):
    """A training corpus of the model."""

    name: str = Field(description="name of the corpus")
    pairs: int = Field(ge=0, description="number of sentence pairs used for training")
    licence: str | None = Field(None, description="licence of the corpus")
    attribution: str | None = Field(None, description="authors and origin of the corpus")


class CardScore(Config):
    """A score of the model on a test set, and the command that reproduces it."""

    metric: str = Field(description="name of the metric, such as BLEU or chrF2")
    value: float = Field(description="value of the metric")
    low: float | None = Field(None, description="lower end of the 95% confidence interval")
    high: float | None = Field(None, description="upper end of the 95% confidence interval")
    signature: str | None = Field(None, description="sacreBLEU's signature of the metric")
    test_set: str = Field(description="name of the test set")
    command: str | None = Field(None, description="command that computed the score")


class CardParent(Config):
    """The model that training began with."""

    title: str | None = Field(None, description="title of the parent")
    sha256: str = Field(description="SHA-256 of the parent's weights, vocabulary and configuration")
    licence: str | None = Field(None, description="licence of the parent")


class Card(Config):
    """The content of card.json, the model card."""

    title: str | None = Field(None, description="title of the model; default: the language pair")
    data: tuple[CardData, ...] = Field((), description="training corpora")
    sizes: dict[str, int] = Field({}, description="sizes by name, such as the number of parameters")
    scores: tuple[CardScore, ...] = Field((), description="scores on test sets")
    licence: str | None = Field(None, description="licence of the model")
    command: str | None = Field(None, description="command that trained the model")
    notes: tuple[str, ...] = Field((), description="further notes, one paragraph each")
    unfinished: str | None = Field(None, description="state of the run, if training is not finished")
    parent: CardParent | None = Field(
        None, exclude_if=partial(is_, None), description="model that training began with, if any"
    )

    def readme(self, info: BundleInfo, use: str | None = None) -> str:
        """Return the model card in Markdown, with `use` as the section on how to use the model."""
        title = self.title or info.pair
        to = f" --to {info.targets[-1]}" if len(info.targets) > 1 else ""
        translate = _code(f"dragoman translate .{to} 'A text.'\ndragoman translate .{to} < source.txt > target.txt")
        data = [(one.name, f"{one.pairs:,}", one.licence or "", one.attribution or "") for one in self.data]
        sections = [
            ("", _lines(f"A {info.model.family} model, written by dragoman {info.dragoman}.", *self.notes)),
            ("Use", translate if use is None else use),
            ("Languages", info.pair if to or len(info.sources) > 1 else ""),
            ("Sizes", _table(("what", "how many"), [(name, f"{count:,}") for name, count in self.sizes.items()])),
            ("Scores", self._scores()),
            ("Parent", self._parent()),
            ("Data", _table(("corpus", "pairs", "licence", "attribution"), data)),
            ("Made by", _code(self.command) if self.command else ""),
            ("Licence", self.licence or ""),
        ]
        written = [f"## {head}\n\n{text}" if head else text for head, text in sections if text]
        return "\n\n".join([f"# {title}", *written]) + "\n"

    def _parent(self) -> str:
        if self.parent is None:
            return ""
        row = (self.parent.title or "", self.parent.sha256, self.parent.licence or "unknown")
        return _lines("Training began with this model:", _table(("title", "SHA-256", "licence"), [row]))

    def _scores(self) -> str:
        rows = [(s.test_set, s.metric, f"{s.value:.1f}", _interval(s), s.signature or "") for s in self.scores]
        commands = "\n".join(dict.fromkeys(score.command for score in self.scores if score.command))
        table = _table(("test set", "metric", "score", "95% interval", "signature"), rows)
        return _lines(table, "Measured by:" if commands else "", _code(commands) if commands else "")


def _interval(score: CardScore) -> str:
    return "" if score.low is None or score.high is None else f"{score.low:.1f} to {score.high:.1f}"


def _lines(*paragraphs: str) -> str:
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _code(text: str) -> str:
    return f"```\n{text}\n```"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a Markdown table with escaped cells; an empty string if there are no rows."""
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *cells]) if rows else ""
