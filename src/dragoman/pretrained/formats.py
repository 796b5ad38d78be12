"""Read a model package of any supported format."""

from pathlib import Path

from dragoman.pretrained.hugging_face import CONFIG, read_hugging_face
from dragoman.pretrained.marian_model import MarianModel, Positions
from dragoman.pretrained.opus_mt import DECODER, read_opus_mt
from dragoman.pretrained.package import Package


def read_package(path: Path, positions: Positions | None = None) -> MarianModel:
    """Return the Marian model in a folder or zip archive; raise ValueError if it cannot be imported."""
    package = Package(path)
    if DECODER in package.names:
        return read_opus_mt(package, positions)
    if CONFIG in package.names:
        return read_hugging_face(package, positions)
    raise package.refusal(
        f"it has neither {CONFIG} (Hugging Face) nor {DECODER} (OPUS-MT): give a folder or zip of a model"
    )


def choose_tag(path: Path, model: MarianModel, tag: str | None) -> str | None:
    """Return the language tag of the source, such as >>deu<<, for a code such as deu; None if the model has no tags."""
    tags = model.source.tags
    codes = ", ".join(one[2:-2] for one in tags[:12]) + (", ..." if len(tags) > 12 else "")
    if tag is None:
        if len(tags) > 1:
            raise ValueError(f"{path}: this model has {len(tags)} target languages: choose one with --tag: {codes}")
        return tags[0] if tags else None
    name = tag if tag.startswith(">>") else f">>{tag}<<"
    if name not in tags:
        fix = f"choose one of {codes}" if tags else "leave out --tag, as this model has no language tags"
        raise ValueError(f"{path}: this model has no language tag {name}: {fix}")
    return name
