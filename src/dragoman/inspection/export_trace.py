"""Trace the alignment head of a CTranslate2 export. This module does not import torch."""

import numpy as np

from dragoman.alignment.tokens import Tokens
from dragoman.bundle import Bundle
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
from dragoman.decoding.engine import search
from dragoman.decoding.options import SearchOptions
from dragoman.export.obstacles import find_alignment_obstacle
from dragoman.inspection.trace import ModelIdentity, Trace
from dragoman.text.cleaning import clean_line
from dragoman.text.vocab import EOS


def trace_export(bundle: Bundle, source: str, target: str | None = None, beam_size: int | None = None) -> Trace:
    """Trace a source and a target, or the model's own translation: the alignment head and the probabilities alone.

    CTranslate2 returns the attention of no other heads. Raise ValueError if the export returns no single head.
    """
    heads = bundle.info.alignment_heads
    reason = find_alignment_obstacle(heads) or ("several heads are stored" if len(heads) > 1 else None)
    if reason is not None:
        raise ValueError(f"{reason}; torch shows all heads: pip install 'dragoman[train]'")
    engine, (head,) = CTranslate2Engine.load(bundle, threads=1), heads
    tokens = Tokens.from_text(bundle.vocab.source, clean_line(source))
    if not tokens.text or (engine.longest is not None and len(tokens) > engine.longest):
        raise ValueError("the source has no text: give a sentence" if not tokens.text else "the source is too long")
    if target is None:
        changes = {} if beam_size is None else {"beam_size": beam_size}
        options = SearchOptions.model_validate({**bundle.info.search, **changes})
        (result,) = search(engine, [tokens.ids], options)
        best = result.best
        written = Tokens.from_ids(bundle.vocab.target, [*best.tokens, EOS])
    else:
        best, written = None, Tokens.from_text(bundle.vocab.target, clean_line(target))
    (weights,) = engine.attention([tokens.ids], [written.ids[:-1]])
    (scores,) = engine.score([tokens.ids], [written.ids[:-1]])
    # The name of a single head, as in `inspect --without decoder.layers.1.cross_attention.0`.
    name = head.layer if head.head is None else f"{head.layer}.{head.head}"
    none = np.zeros((len(written), 0))
    return Trace(
        tokens,
        written,
        free=target is None,
        log_probabilities=np.asarray(scores, dtype=np.float32),
        alternative_ids=none.astype(np.int64),
        alternative_log_probabilities=none.astype(np.float32),
        attention={name: weights[None].astype(np.float32)},
        model=ModelIdentity(sha256=bundle.sha256, vocabulary=bundle.vocab.sha256, family=bundle.info.model.family),
        cut=best is not None and best.cut,
        pieces=dict(zip(written.ids, written.pieces, strict=True)),
        alignment_heads=(AlignmentHead(layer=name, head=0, rows=head.rows),),
    )
