"""What a request of our own route asks for, and what it gets: the shapes of /v1/translate."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from dragoman.serving.facts import Facts


def _whole(given: Any) -> Any:
    return int(given) if isinstance(given, float) and given.is_integer() else given


Whole = Annotated[int, BeforeValidator(_whole)]
"""A whole number: to JSON, 3.0 is one too."""


class Shape(BaseModel):
    """What comes from outside: unknown keys are refused, and a word is not taken for a number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class LengthPenalty(Shape):
    """What the log-probability of a translation is divided by; what is left out is the model's own."""

    formula: Literal["gnmt", "length", "none"] | None = Field(
        None, description="gnmt: ((5 + n) / 6)^alpha; length: n^alpha"
    )
    alpha: float | None = Field(None, ge=0, le=10, description="the larger, the longer the translations")


class Asked(Shape):
    """Texts to translate, and how."""

    texts: list[str] | str = Field(
        description="one text, or several. A text may have any number of sentences and lines; its layout comes back",
        examples=[["Where is the station?", "It is behind the church."]],
    )
    model: str | None = Field(None, description="its name; or leave it out, and give languages", examples=["en-de"])
    source: str | None = Field(None, description="the language of the texts; auto: find out", examples=["en"])
    target: str | None = Field(None, description="the language wanted", examples=["de"])
    split: bool = Field(True, description="whether texts are cut into sentences; without, each line is one")
    protect: bool = Field(False, description="placeholders, tags, addresses and numbers come through as they are")
    num_best: Whole = Field(1, ge=1, description="how many translations of each sentence")
    beam_size: Annotated[int, Field(ge=1), BeforeValidator(_whole)] | None = Field(
        None, description="hypotheses kept at each step; else the model's own"
    )
    penalty: LengthPenalty | None = Field(None, description="else the model's own")
    prefix: str = Field(
        "", description="how the translation of a single sentence is to begin", examples=["Wo befindet"]
    )
    tokens: bool = Field(False, description="whether to give every token with its log-probability")
    alignment: bool = Field(False, description="whether to say which words belong together")


class Which(BaseModel):
    """The model that translated."""

    name: str = Field(examples=["en-de"])
    sha256: str = Field(description="the hash of its bundle's manifest: which model it was, to the last bit")


class Token(BaseModel):
    """One token of a translation."""

    piece: str = Field(description="as the vocabulary has it; ▁ is a space, </s> the end", examples=["▁Bahnhof"])
    log_probability: float = Field(description="after those before it", examples=[-0.07])


class Other(BaseModel):
    """One of several translations of a sentence."""

    text: str = Field(examples=["Wo ist der Bahnhof?"])
    score: float = Field(description="what it was ranked by: log-probability under the length penalty", examples=[-0.9])
    log_probability: float = Field(description="of the whole", examples=[-1.3])


class Sentence(BaseModel):
    """A sentence and its translation."""

    source: str = Field(examples=["Where is the station?"])
    text: str = Field(examples=["Wo ist der Bahnhof?"])
    score: float = Field(examples=[-0.9])
    log_probability: float = Field(examples=[-1.3])
    confidence: float | None = Field(
        None, description="the geometric mean of its tokens' probabilities, 0 to 1; null where tokens were not counted"
    )
    others: list[Other] = Field([], description="the next best, where more than one was asked for")
    tokens: list[Token] | None = Field(None, description="of the best translation, where asked for")
    alignment: list[tuple[int, int]] | None = Field(
        None, description="pairs of words, source and translation, counted from 0 and split at white space"
    )


class Translation(BaseModel):
    """A text's translation."""

    text: str = Field(description="laid out as the text was", examples=["Wo ist der Bahnhof?"])
    sentences: list[Sentence]


class Answered(BaseModel):
    """All translations, in the order of the texts."""

    model: Which
    translations: list[Translation]
    detected: str | None = Field(None, description="the source language, where it was to be found out")


class Models(BaseModel):
    """What can be asked for."""

    models: list[Facts]
