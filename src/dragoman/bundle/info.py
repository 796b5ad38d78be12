"""The schemas of a bundle's config.json and manifest.json."""

import hashlib
import re
from functools import partial
from operator import is_, not_
from typing import Any, Final, Literal

from pydantic import Field, JsonValue, field_serializer

from dragoman.bundle.alignment_head import Heads
from dragoman.bundle.file_names import EXPORTED
from dragoman.config import Config
from dragoman.io.durable import FileInfo
from dragoman.models.config import ModelConfig
from dragoman.version import __version__

Store = Literal["float32", "float16"]
"""The data type of stored weights: float32 as in training, or float16 in half the space."""

ExportStore = Literal["float32", "int16", "int8"]
"""The data type of an export's matrices: float32, or quantised to int16 or int8."""

_LATER_KEYS: Final = {"activation": "relu", "output_bias": False}
"""Keys of the architecture that older bundles lack, with their defaults."""
_LANGUAGE: Final = re.compile(r"[a-z]{2}(?:[-_]\w+)*$")


class BundleInfo(Config):
    """The content of config.json: the architecture, the search options and the languages of the model.

    A model of one pair of languages has `source_language` and `target_language`. A model that translates into several
    languages has `target_languages` instead, in the order of the tags of its vocabulary, and one that translates from
    several languages has `source_languages`.

    Empty lists of languages and alignment heads, an unset `protect` and defaults of later keys of the architecture,
    like empty exports in the manifest, are omitted, so that older bundles keep their hashes.
    """

    format_version: Literal[1] = Field(1, description="version of the bundle format")
    model: ModelConfig = Field(description="architecture of the model")
    search: dict[str, JsonValue] = Field({}, description="default search options")
    source_language: str | None = Field(None, description="source language code")
    target_language: str | None = Field(None, description="target language code")
    source_languages: tuple[str, ...] = Field((), exclude_if=not_, description="source language codes, if several")
    target_languages: tuple[str, ...] = Field(
        (), exclude_if=not_, description="target language codes, if several; a source begins with the tag of one"
    )
    dragoman: str = Field(__version__, description="version of dragoman that wrote the bundle")
    alignment_heads: Heads = Field((), exclude_if=not_, description="heads for word alignment; several are averaged")
    protect: bool | None = Field(
        None,
        exclude_if=partial(is_, None),
        description="true: translations keep placeholders, addresses, code, emoji and digits; null: by the languages",
    )

    @field_serializer("model")
    def _omit_later_keys(self, model: ModelConfig) -> dict[str, Any]:
        values = model.model_dump(mode="json")
        return {key: value for key, value in values.items() if key not in _LATER_KEYS or value != _LATER_KEYS[key]}

    @property
    def sources(self) -> tuple[str, ...]:
        """The source languages; empty if unknown."""
        return self.source_languages or ((self.source_language,) if self.source_language else ())

    @property
    def targets(self) -> tuple[str, ...]:
        """The target languages; empty if unknown."""
        return self.target_languages or ((self.target_language,) if self.target_language else ())

    @property
    def pair(self) -> str:
        """The languages as a title, such as `en → de, fr`."""
        return f"{', '.join(self.sources) or 'source'} → {', '.join(self.targets) or 'target'}"

    @property
    def protects(self) -> bool:
        """True if translations keep placeholders, addresses, code, emoji and digits by default.

        Unless `protect` is set, this is so if the codes of different languages are given (ISO 639-1, such as en and
        pt-BR): dates or phonemes are written with other codes.
        """
        if self.protect is not None:
            return self.protect
        codes = [*(self.sources or ("",)), *(self.targets or ("",))]
        return all(map(_LANGUAGE.match, codes)) and len({*codes}) > 1


class ExportCheck(Config):
    """The result of comparing an export with torch."""

    texts: int = Field(ge=0, description="number of sentences that both engines translated")
    identical: int = Field(ge=0, description="number of sentences with identical translations")
    largest_difference: float = Field(ge=0.0, description="largest difference of token log-probabilities")
    mean_difference: float = Field(ge=0.0, description="mean difference of token log-probabilities")
    held_out: bool = Field(description="true for held-out sentences, false for sentences of random tokens")


class Export(Config):
    """An export of the model for CTranslate2, and the result of its comparison with torch."""

    engine: Literal["ctranslate2"] = Field("ctranslate2", description="inference engine")
    store: ExportStore = Field(description="data type of the matrices")
    file: FileInfo = Field(description="file with the weights of the export")
    kept: bool = Field(description="true if the bundle contains the file; false: the file is created on opening")
    alignment_heads: Heads = Field((), description="heads whose attention the export returns")
    proof: ExportCheck = Field(description="result of the comparison with torch")

    @staticmethod
    def unchecked(content: bytes, store: ExportStore = "float32", kept: bool = True, heads: Heads = ()) -> "Export":
        """Return the entry of an export that has not been compared with torch yet."""
        sha256 = hashlib.sha256(content).hexdigest()
        file = FileInfo(file=f"{EXPORTED}{store}.{sha256[:8]}.bin", sha256=sha256, num_bytes=len(content))
        nothing = ExportCheck(texts=0, identical=0, largest_difference=0.0, mean_difference=0.0, held_out=False)
        return Export(store=store, file=file, kept=kept, alignment_heads=heads, proof=nothing)


class BundleManifest(Config):
    """The content of manifest.json: the size and hash of every file in the bundle, and the exports."""

    format_version: Literal[1] = Field(1, description="version of the bundle format")
    kind: Literal["bundle"] = Field("bundle", description="kind of folder: a bundle, not a prepared folder")
    files: tuple[FileInfo, ...] = Field(description="files of the bundle; other files are ignored")
    exports: tuple[Export, ...] = Field((), exclude_if=not_, description="exports of the model for other engines")
