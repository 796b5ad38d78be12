"""The model card: what a model was made from, how good it is, and what may be done with it, for people to read."""

from collections.abc import Sequence

from pydantic import Field

from dragoman.bundle.info import BundleInfo
from dragoman.config import Config


class CardData(Config):
    """One corpus that the model was trained on."""

    name: str = Field(description="what the corpus is called")
    pairs: int = Field(ge=0, description="sentence pairs that were used")
    licence: str | None = Field(None, description="under which it may be used")
    attribution: str | None = Field(None, description="whom to thank, and where it is from")


class CardScore(Config):
    """One measurement, and all that is needed to make it again."""

    metric: str = Field(description="such as BLEU or chrF2")
    value: float = Field(description="the score")
    low: float | None = Field(None, description="lower end of its 95% interval")
    high: float | None = Field(None, description="upper end of its 95% interval")
    signature: str | None = Field(None, description="sacreBLEU's account of what was measured how")
    test_set: str = Field(description="on what")
    command: str | None = Field(None, description="the command that measured it")


class Card(Config):
    """What a person should know before using the model."""

    title: str | None = Field(None, description="what the model is called; else its languages")
    data: tuple[CardData, ...] = Field((), description="what it was trained on")
    sizes: dict[str, int] = Field({}, description="numbers worth knowing, such as its parameters")
    scores: tuple[CardScore, ...] = Field((), description="what was measured")
    licence: str | None = Field(None, description="under which the model may be used")
    command: str | None = Field(None, description="the command that made it")
    notes: tuple[str, ...] = Field((), description="what else there is to know; one paragraph each")

    def readme(self, info: BundleInfo) -> str:
        """The card in Markdown."""
        sections = [
            ("", _lines(f"A {info.model.family} model, written by dragoman {info.dragoman}.", *self.notes)),
            ("Use", _code("dragoman translate . 'A text.'\ndragoman translate . < source.txt > target.txt")),
            ("Sizes", _table(("what", "how many"), [(name, f"{count:,}") for name, count in self.sizes.items()])),
            ("Scores", self._scores()),
            ("Data", _table(("corpus", "pairs", "licence", "attribution"), [_data(data) for data in self.data])),
            ("Made by", _code(self.command) if self.command else ""),
            ("Licence", self.licence or ""),
        ]
        written = [f"## {title}\n\n{text}" if title else text for title, text in sections if text]
        return "\n\n".join([f"# {self.title or _languages(info)}", *written]) + "\n"

    def _scores(self) -> str:
        rows = [(s.test_set, s.metric, f"{s.value:.1f}", _interval(s), s.signature or "") for s in self.scores]
        commands = "\n".join(dict.fromkeys(score.command for score in self.scores if score.command))
        table = _table(("test set", "metric", "score", "95% interval", "signature"), rows)
        return _lines(table, "Measured by:" if commands else "", _code(commands) if commands else "")


def _languages(info: BundleInfo) -> str:
    return f"{info.source_language or 'source'} → {info.target_language or 'target'}"


def _interval(score: CardScore) -> str:
    return "" if score.low is None or score.high is None else f"{score.low:.1f} to {score.high:.1f}"


def _data(data: CardData) -> tuple[str, ...]:
    return data.name, f"{data.pairs:,}", data.licence or "", data.attribution or ""


def _lines(*paragraphs: str) -> str:
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _code(text: str) -> str:
    return f"```\n{text}\n```"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Nothing for no rows. What would end a cell or a row early is written otherwise."""
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *cells]) if rows else ""
