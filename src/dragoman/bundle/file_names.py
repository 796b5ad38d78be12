"""The file names in a bundle, and size limits for the files that are read into memory as a whole."""

from typing import Final

MANIFEST: Final = "manifest.json"
NEXT_MANIFEST: Final = "manifest.next.json"
"""The manifest of an interrupted change, valid once config.json has the hash that it lists."""
CONFIG: Final = "config.json"
CARD: Final = "card.json"
README: Final = "README.md"
WEIGHTS: Final = "model.safetensors"
VOCABULARIES: Final = ({"vocab.model"}, {"vocab.source.model", "vocab.target.model"})
"""The files of a joint vocabulary, or of separate vocabularies."""
LICENCES: Final = "licences"
"""The folder with the texts of the licences, if the bundle has one; no file of the bundle refers to it."""
EXPORTED: Final = "ctranslate2."
"""The prefix of the files with an export's weights."""

LARGEST: Final = dict.fromkeys((CONFIG, CARD, MANIFEST, NEXT_MANIFEST), 1 << 20) | dict.fromkeys(
    set().union(*VOCABULARIES), 1 << 26
)
"""Size limits, in bytes, of the files that are parsed as a whole."""
