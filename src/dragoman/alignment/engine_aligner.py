"""The aligner that reads the attention of the engine which translates. Imports torch only for the torch engine."""

from dragoman.alignment.words import SegmentAligner
from dragoman.bundle import Bundle
from dragoman.decoding.engine import Engine


def find_engine_aligner(bundle: Bundle, engine: Engine) -> SegmentAligner | None:
    """Return an aligner by the bundle's alignment heads on the engine; None if the engine cannot align with them."""
    heads = bundle.info.alignment_heads
    if not heads:
        return None
    if engine.name == "torch":
        from dragoman.alignment.aligner import Aligner
        from dragoman.decoding.torch_engine import TorchEngine

        return Aligner(engine.model, bundle.vocab, heads) if isinstance(engine, TorchEngine) else None
    from dragoman.alignment.export_aligner import ExportAligner, find_export_obstacle
    from dragoman.decoding.ctranslate2_engine import CTranslate2Engine

    if not isinstance(engine, CTranslate2Engine) or find_export_obstacle(bundle, engine):
        return None
    return ExportAligner(engine, bundle.vocab)
