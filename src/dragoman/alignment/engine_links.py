"""Word links by the attention of the engine that translates. Imports torch only for the torch engine."""

from dragoman.bundle import Bundle
from dragoman.decoding.engine import Engine
from dragoman.translation.apply_glossary import LinksOf


def find_engine_links(bundle: Bundle, engine: Engine) -> LinksOf | None:
    """Return the function that links words by the bundle's alignment heads; None if the engine cannot use them."""
    heads = bundle.info.alignment_heads
    if not heads:
        return None
    if engine.name == "torch":
        from dragoman.alignment.aligner import Aligner
        from dragoman.decoding.torch_engine import TorchEngine

        assert isinstance(engine, TorchEngine)
        return Aligner(engine.aligning, bundle.vocab, heads).links_of
    from dragoman.alignment.export_aligner import ExportAligner, find_export_obstacle
    from dragoman.decoding.ctranslate2_engine import CTranslate2Engine

    assert isinstance(engine, CTranslate2Engine)
    return None if find_export_obstacle(bundle, engine) else ExportAligner(engine, bundle.vocab).links_of
