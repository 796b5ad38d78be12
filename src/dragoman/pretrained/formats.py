"""Read a model package of any supported format."""

from pathlib import Path

from dragoman.bundle.file_names import MANIFEST
from dragoman.pretrained.hugging_face import CONFIG, read_hugging_face
from dragoman.pretrained.marian_model import MarianModel, Positions
from dragoman.pretrained.opus_mt import DECODER, read_opus_mt
from dragoman.pretrained.package import Package


def read_package(path: Path, positions: Positions | None = None) -> MarianModel:
    """Return the Marian model in a folder or zip archive; raise ValueError if it cannot be imported."""
    package = Package(path)
    if DECODER in package.names:
        return read_opus_mt(package, positions)
    if {CONFIG, MANIFEST} <= set(package.names):
        raise package.refusal("it is a model of Dragoman already: use it as it is")
    if CONFIG in package.names:
        return read_hugging_face(package, positions)
    raise package.refusal(
        f"it has neither {CONFIG} (Hugging Face) nor {DECODER} (OPUS-MT): give a folder or zip of a model"
    )


def choose_tags(path: Path, model: MarianModel, to: str | None) -> list[str]:
    """Return the language tags to import, such as >>deu<<: that of the target language `to`, or all."""
    tags = model.source.tags
    if to is None:
        return tags
    name = to if to.startswith(">>") else f">>{to}<<"
    if name not in tags:
        codes = ", ".join(one[2:-2] for one in tags[:12]) + (", ..." if len(tags) > 12 else "")
        fix = f"choose one of {codes}" if tags else "leave out --to, as this model has no language tags"
        raise ValueError(f"{path}: this model has no language tag {name}: {fix}")
    return [name]
