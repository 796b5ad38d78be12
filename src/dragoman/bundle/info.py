"""What a bundle is made of: the names of its files, its description, and the manifest that answers for them."""

import hashlib
from collections.abc import Callable
from typing import Any, Final, Literal

from pydantic import Field, JsonValue, model_serializer

from dragoman.config import Config
from dragoman.data.alignment import AlignmentHead
from dragoman.data.durable import FileInfo
from dragoman.models.config import ModelConfig
from dragoman.version import __version__

MANIFEST: Final = "manifest.json"
NEXT_MANIFEST: Final = "manifest.next.json"
"""The manifest of a change that was broken off: it holds if config.json is already the one that it answers for."""
CONFIG: Final = "config.json"
CARD: Final = "card.json"
README: Final = "README.md"
WEIGHTS: Final = "model.safetensors"
VOCABULARIES: Final = ({"vocab.model"}, {"vocab.source.model", "vocab.target.model"})
"""The files of a joint vocabulary, or of separate ones."""

LARGEST: Final = dict.fromkeys((CONFIG, CARD, MANIFEST, NEXT_MANIFEST), 1 << 20) | dict.fromkeys(
    set().union(*VOCABULARIES), 1 << 26
)
"""Bytes of the files that are parsed whole: a larger one is not what it says it is."""

EXPORTED: Final = "ctranslate2."
"""How the names of files begin that hold an export's weights."""

Store = Literal["float32", "float16"]
"""How weights are written: as they were trained, or in half the space."""

ExportStore = Literal["float32", "int16", "int8"]
"""How an export keeps its matrices: as they are, or rounded to whole numbers with a scale."""


class BundleInfo(Config):
    """All that running the model takes beside its weights and its vocabulary: config.json."""

    format_version: Literal[1] = Field(1, description="which layout of the folder this is")
    model: ModelConfig = Field(description="the model that the weights belong to")
    search: dict[str, JsonValue] = Field({}, description="the search options it is meant to be used with")
    source_language: str | None = Field(None, description="what it reads, as a language code")
    target_language: str | None = Field(None, description="what it writes, as a language code")
    dragoman: str = Field(__version__, description="the version of dragoman that wrote the bundle")
    alignment_heads: tuple[AlignmentHead, ...] = Field(
        (), description="where to look for word alignments: one head, or several whose mean is taken; absent if unknown"
    )

    @model_serializer(mode="wrap")
    def _without_what_is_unknown(self, whole: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """A bundle that says nothing of heads is, byte for byte, what it was before they could be said."""
        fields = whole(self)
        if not self.alignment_heads:
            fields.pop("alignment_heads", None)
        return fields


class Proof(Config):
    """What was compared before an export was called one."""

    texts: int = Field(ge=0, description="sentences that both engines translated")
    identical: int = Field(ge=0, description="of which so many translations were the same, token by token")
    largest_difference: float = Field(ge=0.0, description="of the log-probabilities of one token, over all of them")
    mean_difference: float = Field(ge=0.0, description="the same in the mean")
    held_out: bool = Field(description="whether they were sentences kept from training, or made up of the vocabulary")


class Export(Config):
    """The model in the words of another engine, and what that was compared with."""

    engine: Literal["ctranslate2"] = Field("ctranslate2", description="whose words")
    store: ExportStore = Field(description="how its matrices are kept")
    file: FileInfo = Field(description="its weights")
    kept: bool = Field(
        description="whether the file is in the bundle; else it is made from the bundle's weights when it is needed, "
        "and must come out as described"
    )
    alignment_heads: tuple[AlignmentHead, ...] = Field((), description="the heads whose attention it shows")
    proof: Proof = Field(description="how it was tried")

    @staticmethod
    def untried(
        content: bytes, store: ExportStore = "float32", kept: bool = True, heads: tuple[AlignmentHead, ...] = ()
    ) -> "Export":
        """What is to be said of these weights before anything was compared."""
        sha256 = hashlib.sha256(content).hexdigest()
        file = FileInfo(file=f"{EXPORTED}{store}.{sha256[:8]}.bin", sha256=sha256, num_bytes=len(content))
        nothing = Proof(texts=0, identical=0, largest_difference=0.0, mean_difference=0.0, held_out=False)
        return Export(store=store, file=file, kept=kept, alignment_heads=heads, proof=nothing)


class BundleManifest(Config):
    """Every file of the bundle, byte for byte: manifest.json."""

    format_version: Literal[1] = Field(1, description="which layout of the folder this is")
    kind: Literal["bundle"] = Field("bundle", description="told apart from the manifest of a prepared folder")
    files: tuple[FileInfo, ...] = Field(description="the files it answers for; no other is ever read")
    exports: tuple[Export, ...] = Field((), description="the same model for other engines")

    @model_serializer(mode="wrap")
    def _without_what_is_not_there(self, whole: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Without exports it is, byte for byte, what it was before there were any."""
        fields = whole(self)
        if not self.exports:
            fields.pop("exports", None)
        return fields
