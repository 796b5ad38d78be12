"""The JSON schemas of /v1/translate and /v1/models, shared by the service and the client."""

from itertools import product
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _integral(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Integer = Annotated[int, BeforeValidator(_integral)]
"""An integer; in JSON, 3.0 is an integer too."""
BeamSize = Annotated[int, Field(ge=1), BeforeValidator(_integral)]
Formula = Literal["gnmt", "length", "none"]


class RequestSchema(BaseModel):
    """Base of request schemas: unknown keys and strings in place of numbers are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ResponseSchema(BaseModel):
    """Base of response schemas: unknown keys, which a newer service may send, are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class LengthPenalty(RequestSchema):
    """The length penalty, which divides the log-probability; an omitted field has the model's default."""

    formula: Formula | None = Field(None, description="gnmt: ((5 + n) / 6)^alpha; length: n^alpha")
    alpha: float | None = Field(None, ge=0, le=10, description="exponent; larger values prefer longer translations")


class ServiceRequest(RequestSchema):
    """A request to /v1/translate: texts and translation options."""

    texts: list[str] | str = Field(
        description="text or list of texts of any length; line breaks are kept", examples=[["Where is the station?"]]
    )
    model: str | None = Field(None, description="name of the model; default: by the languages", examples=["en-de"])
    source: str | None = Field(None, description="source language code; auto detects it", examples=["en"])
    target: str | None = Field(
        None, description="target language code; required if the model translates into several", examples=["de"]
    )
    split: bool = Field(True, description="split texts into sentences; false: each line is one sentence")
    protect: bool | None = Field(
        None, description="keep placeholders, tags, addresses, code, emoji and digits; default: the model's"
    )
    num_best: Integer = Field(1, ge=1, description="number of translations per sentence")
    beam_size: BeamSize | None = Field(None, description="hypotheses kept at each step; default: the model's")
    penalty: LengthPenalty | None = Field(None, description="length penalty; default: the model's")
    prefix: str = Field("", description="beginning of the translation of a single sentence", examples=["Wo befindet"])
    glossary: str | dict[str, str] | None = Field(
        None,
        description="terms that the translation uses: a mapping of source terms to target terms, or the name of one of "
        "the service's glossaries",
        examples=[{"station": "Bahnhof"}],
    )
    tokens: bool = Field(False, description="return every token with its log-probability")
    alignment: bool = Field(False, description="return the word alignment")
    stream: bool = Field(
        False, description="send server-sent events: each sentence as soon as it is translated, then the whole answer"
    )


class ModelRef(ResponseSchema):
    """The name and hash of the model that made a response."""

    name: str = Field(examples=["en-de"])
    sha256: str = Field(description="hash of the model's configuration, weights and vocabulary")


class ModelInfo(ModelRef):
    """A model that the service offers, with its default options."""

    name: str = Field(description="name of the model in requests")
    source: str = Field(description="source language code; und if the bundle does not name it")
    target: str = Field(description="target language code; und if the bundle does not name it")
    sources: tuple[str, ...] = Field((), description="all source language codes, if there are several")
    targets: tuple[str, ...] = Field(
        (), description="all target language codes, if there are several; requests then need a target"
    )
    title: str | None = Field(None, description="title of the model card")
    beam_size: int = Field(description="default beam size")
    formula: Formula = Field(description="default length penalty")
    alpha: float = Field(description="strength of the default length penalty")
    aligns: bool = Field(description="true if the model can return word alignments")
    protects: bool = Field(False, description="true if the model keeps placeholders, addresses, ... by default")
    compute: str = Field(description="compute type of matrix products: float32, int16, int8 or float16")

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """All pairs of source and target languages; a language is not paired with itself, if there are others."""
        pairs = list(product(self.sources or (self.source,), self.targets or (self.target,)))
        return tuple(pair for pair in pairs if pair[0] != pair[1]) or tuple(pairs)


class ModelList(ResponseSchema):
    """The response of /v1/models: the models that the service offers."""

    models: tuple[ModelInfo, ...]


class ScoredToken(ResponseSchema):
    """A token of a translation and its log-probability."""

    piece: str = Field(description="vocabulary entry; ▁ is a space, </s> the end", examples=["▁Bahnhof"])
    log_probability: float = Field(description="log-probability of the token given its prefix", examples=[-0.07])


class RankedTranslation(ResponseSchema):
    """A translation of a sentence and its scores."""

    text: str = Field(examples=["Wo ist der Bahnhof?"])
    score: float = Field(description="ranking score: log-probability with the length penalty applied", examples=[-0.9])
    log_probability: float = Field(description="log-probability of the whole translation", examples=[-1.3])


class GlossaryTerm(ResponseSchema):
    """A term of the glossary that a sentence contains."""

    source: str = Field(description="source term as in the glossary", examples=["station"])
    target: str = Field(examples=["Bahnhof"])
    used: bool = Field(description="true if the translation uses the target term, possibly inflected")


class TranslatedSentence(RankedTranslation):
    """A source sentence, its best translation and the requested alternatives, tokens and alignment."""

    source: str = Field(examples=["Where is the station?"])
    confidence: float | None = Field(None, description="geometric mean of the token probabilities; null if unknown")
    kept: str | None = Field(
        None,
        description="reason why source text was kept: unknown script, long word or repetition; null: all translated",
    )
    others: tuple[RankedTranslation, ...] = Field((), description="further translations, best first, if num_best > 1")
    tokens: tuple[ScoredToken, ...] | None = Field(None, description="tokens of the best translation, if requested")
    alignment: tuple[tuple[int, int], ...] | None = Field(
        None, description="pairs of source and target word indices, from 0; words are split at white space"
    )
    terms: tuple[GlossaryTerm, ...] | None = Field(
        None, description="terms of the glossary in the sentence, used or not, if the request has a glossary"
    )


class TranslatedText(ResponseSchema):
    """The translation of a text, with the translation of each sentence."""

    text: str = Field(description="translated text with the source's line breaks", examples=["Wo ist der Bahnhof?"])
    sentences: tuple[TranslatedSentence, ...]


class ServiceResponse(ResponseSchema):
    """The response of /v1/translate: a translation for each text, in order."""

    model: ModelRef
    translations: tuple[TranslatedText, ...]
    detected: str | None = Field(None, description="detected source language code, if source is auto")
