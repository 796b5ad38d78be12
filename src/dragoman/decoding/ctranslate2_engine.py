"""The engine for production. What its search does otherwise than ours is set right here, so that options mean the same.

- It ranks by n^alpha, and counts n without EOS unless told to return it. All hypotheses of the beam come back with
  their EOS, and are ranked here, by any penalty. If more have ended than the beam is wide, it drops the last by its
  own ranking, so it is given the exponent that comes nearest to ours; where several are wanted, twice as many are
  asked for.
- Its length limit is one number for a whole call, and there it ends without EOS. A source whose hypotheses come near
  its own limit is searched again, alone, up to one token before the limit, and EOS is scored. What could have taken the
  place of a hypothesis that ends with the last of these tokens is lost.
- It counts the tokens of a prefix as certain, and may not end directly after them. They are scored, and count, and
  that end is added if it is likely; what could have taken its place is lost.
- It would write PAD or BOS if a model found them likely. Then the source is searched again without them.
- Of a source that is nothing but EOS it makes nothing.
- What is forbidden gives its probability to the other tokens. So whatever was searched for like this, or with a
  shortest length, is scored again; but another hypothesis may have been found.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import ctranslate2
import numpy as np
from numpy.typing import NDArray

from dragoman.bundle import Bundle, Export
from dragoman.bundle.reading import MEND
from dragoman.data.cores import num_cores
from dragoman.data.durable import DamageError
from dragoman.data.vocab import BOS, EOS, PAD
from dragoman.decoding.engine import Tokens
from dragoman.decoding.given import Compute
from dragoman.decoding.hypothesis import Hypothesis, Result
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.penalty import Penalty
from dragoman.export.ctranslate2 import WEIGHTS, pieces, small_files, weights_file
from dragoman.export.layout import what_is_wrong

BATCH_TOKENS: Final = 768
"""Source tokens of a batch, padding included: more is no faster on a CPU, and holds more memory (docs/results.md)."""

_NO_PENALTY: Final = 1e-30
"""x^this is 1. Zero itself would make it stop at the first hypothesis that ends."""

_USUAL_LENGTH: Final = 20
"""Where the exponent of `length` that stands for `gnmt` has the same slope."""

_SHORT_FIRST: Final = -2.0
"""Of more hypotheses than are wanted, it then drops those that ended last."""

_IMPOSSIBLE: Final = -1e9
"""What it gives where nothing can follow."""


class CTranslate2Engine:
    """A CTranslate2 model that takes ids as all engines do."""

    name = "ctranslate2"

    def __init__(self, translator: ctranslate2.Translator, bundle: Bundle, export: Export) -> None:
        self._translator = translator
        self._source = pieces(bundle.vocab.source)
        self._target = self._source if bundle.vocab.joint else pieces(bundle.vocab.target)
        self._ids = {piece: token for token, piece in enumerate(self._target)}
        assert bundle.info.model.family == "transformer"
        self.longest: int | None = bundle.info.model.max_positions
        self.export = export

    @staticmethod
    def load(bundle: Bundle, threads: int | None = None, compute: Compute = "float32") -> "CTranslate2Engine":
        """The bundle's export, of the precision asked for if there is one, else rounded at loading."""
        export = _chosen(bundle, compute)
        return CTranslate2Engine.of(bundle, export, _weights(bundle, export), threads, compute)

    @staticmethod
    def of(
        bundle: Bundle, export: Export, content: bytes, threads: int | None = None, compute: Compute = "float32"
    ) -> "CTranslate2Engine":
        """An export whose weights file is at hand. Files are given as bytes: nothing is read that was not verified."""
        files = {**small_files(bundle), WEIGHTS: content}
        refused = ""
        try:
            translator = ctranslate2.Translator(
                str(bundle.folder),
                device="cpu",
                compute_type=compute,
                inter_threads=threads or num_cores(),
                intra_threads=1,  # one batch a thread: no core waits for another
                max_queued_batches=-1,
                files=files,
            )
        except (RuntimeError, MemoryError) as error:
            wrong = f"CTranslate2 cannot read it ({' '.join(str(error).split()) or 'no memory'})"
            raise DamageError(bundle.folder / export.file.file, wrong, MEND) from error
        except TypeError:
            refused = "give threads as a whole number, 1 or more, and compute as a word"
        except ValueError as error:
            refused = str(error) or "it does not say why"
        if refused:  # said out here: a TypeError of CTranslate2 holds all that it was called with, files included
            raise ValueError(f"CTranslate2 does not take threads {threads!r} and compute {compute!r}: {refused}")
        return CTranslate2Engine(translator, bundle, export)

    def submit(
        self, sources: Sequence[Tokens], options: SearchOptions, prefixes: Sequence[Tokens] | None = None
    ) -> Iterator[tuple[int, Result]]:
        limits = [self._limit(source, options, prefix) for source, prefix in _with(sources, prefixes)]
        generously = options.num_best > 1 and options.penalty.formula == "gnmt"
        waiting = self._begin(sources, options, prefixes, max(limits, default=1), generously)
        return self._results(waiting, limits, sources, options, prefixes, generously)

    def score(self, sources: Sequence[Tokens], targets: Sequence[Tokens]) -> list[tuple[float, ...]]:
        scored = self._translator.score_batch(
            [self._pieces(source) for source in sources],
            [[self._target[token] for token in target] for target in targets],
            max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
            max_input_length=0,
        )
        return [tuple(result.log_probs) for result in scored]

    def attention(self, sources: Sequence[Tokens], targets: Sequence[Tokens]) -> list[NDArray[np.float64]]:
        """What the export's heads show, in the mean, when they are led through targets: for each, a row for every token
        and one for EOS, and in it a share for every token of the source, EOS last. Without heads, the last layer's.
        """
        found = self._translator.translate_batch(
            [self._pieces(source) for source in sources],
            [[self._target[token] for token in target] for target in targets],
            max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
            beam_size=1,
            max_input_length=0,
            max_decoding_length=max((len(target) + 1 for target in targets), default=1),
            return_attention=True,
            return_end_token=True,
        )
        pairs = zip(sources, targets, found, strict=True)
        return [_with_eos(result.attention[0], len(source), len(target) + 1) for source, target, result in pairs]

    def _begin(
        self,
        sources: Sequence[Tokens],
        options: SearchOptions,
        prefixes: Sequence[Tokens] | None,
        longest: int,
        generously: bool,
        **others: Any,
    ) -> list[ctranslate2.AsyncTranslationResult]:
        """`generously`, it searches on until twice as many have ended, and gives them all."""
        more = 2 if generously and options.beam_size > 1 else 1
        begun: list[ctranslate2.AsyncTranslationResult] = self._translator.translate_batch(
            [self._pieces(source) for source in sources],
            None if prefixes is None else [[self._target[token] for token in prefix] for prefix in prefixes],
            max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
            asynchronous=True,
            beam_size=options.beam_size,
            patience=more,
            num_hypotheses=more * options.beam_size,
            length_penalty=_exponent(options.penalty, generously),
            max_input_length=0,
            max_decoding_length=longest,
            min_decoding_length=min(options.min_length - 1, longest),
            return_scores=True,
            return_end_token=True,
            **others,
        )
        return begun

    def _results(
        self,
        waiting: Sequence[ctranslate2.AsyncTranslationResult],
        limits: Sequence[int],
        sources: Sequence[Tokens],
        options: SearchOptions,
        prefixes: Sequence[Tokens] | None,
        generously: bool,
    ) -> Iterator[tuple[int, Result]]:
        for place, (pending, limit) in enumerate(zip(waiting, limits, strict=True)):
            source, prefix = sources[place], prefixes[place] if prefixes else ()
            if len(source) < 2:
                yield place, Result((Hypothesis(tuple(prefix), (), 0.0, False, 0.0),))
                continue
            ended = self._ended(pending.result(), options, generously)
            never = any(not {PAD, BOS}.isdisjoint(hypothesis.tokens) for hypothesis in ended)
            at_limit = any(len(hypothesis.tokens) + 2 > limit for hypothesis in ended)
            if prefix or never or at_limit or options.min_length > 1:
                ended = self._carefully(source, options, prefix, limit, never)
            ended.sort(key=lambda hypothesis: -hypothesis.score)
            yield place, Result(tuple(ended[: options.num_best]))

    def _ended(
        self, found: ctranslate2.TranslationResult, options: SearchOptions, generously: bool
    ) -> list[Hypothesis]:
        """Its hypotheses in our words: its score undone, and ours given."""
        if any(map(math.isnan, found.scores)):
            raise ValueError(
                "the model's scores are NaN: its weights are damaged or its training diverged; use another model"
            )
        exponent, penalty, ended = _exponent(options.penalty, generously), options.penalty, []
        for names, given in zip(found.hypotheses, found.scores, strict=True):
            tokens = tuple(self._ids[name] for name in names)
            total = given * len(tokens) ** exponent
            tokens = tokens[:-1] if tokens[-1:] == (EOS,) else tokens
            ended.append(Hypothesis(tokens, (), penalty.score(total, len(tokens) + 1), False, total))
        return _first_to_end(ended, options.beam_size)

    def _carefully(
        self, source: Tokens, options: SearchOptions, prefix: Tokens, limit: int, never: bool
    ) -> list[Hypothesis]:
        """Once more and alone, up to this source's own limit, where only EOS may follow; if need be without PAD and
        BOS. What it finds is scored anew.
        """
        ended: list[tuple[int, ...]] = []
        going = [tuple(prefix)]
        if len(prefix) + 1 < limit:
            rows = self._alone(source, options, prefix, limit - 1, never)
            if not never and any(not {PAD, BOS}.isdisjoint(row) for row in rows):
                return self._carefully(source, options, prefix, limit, True)
            ended = [row[:-1] for row in rows if row[-1] == EOS]
            going = [row for row in rows if row[-1] != EOS]
            if prefix and tuple(prefix) not in ended and self._ends_after(source, prefix, options):
                ended.append(tuple(prefix))
        totals = [sum(row) for row in self.score([source] * len(ended + going), ended + going)]
        hypotheses = [
            Hypothesis(row, (), options.penalty.score(total, len(row) + 1), place >= len(ended), total)
            for place, (row, total) in enumerate(zip(ended + going, totals, strict=True))
        ]
        enough = len(ended) >= options.beam_size
        return _first_to_end(hypotheses[: len(ended)] if enough else hypotheses, options.beam_size)

    def _alone(
        self, source: Tokens, options: SearchOptions, prefix: Tokens, longest: int, never: bool
    ) -> list[tuple[int, ...]]:
        """Whatever has ended, with its EOS, and what has come as far as the limit."""
        others = {"suppress_sequences": [[self._target[PAD]], [self._target[BOS]]]} if never else {}
        (pending,) = self._begin([source], options, [prefix] if prefix else None, longest, True, **others)
        found = pending.result()
        rows = [tuple(self._ids[name] for name in names) for names in found.hypotheses]
        totals = [score * len(row) ** _SHORT_FIRST for row, score in zip(rows, found.scores, strict=True)]
        return [row for row, total in zip(rows, totals, strict=True) if total > _IMPOSSIBLE]

    def _ends_after(self, source: Tokens, prefix: Tokens, options: SearchOptions) -> bool:
        """Whether EOS is one of the likeliest tokens after the prefix."""
        if len(prefix) + 1 < options.min_length:
            return False
        rows = self._alone(source, options, prefix, len(prefix) + 1, True)
        rivals = {row for row in rows if len(row) == len(prefix) + 1 and row[-1] != EOS}
        scored = self.score([source] * (len(rivals) + 1), [tuple(prefix), *rivals])
        end = scored[0][-1]
        return sum(row[len(prefix)] > end for row in scored[1:]) < options.beam_size

    def _limit(self, source: Tokens, options: SearchOptions, prefix: Tokens) -> int:
        assert self.longest is not None
        return min(max(options.max_length.tokens(len(source)), len(prefix) + 1), self.longest)

    def _pieces(self, source: Tokens) -> list[str]:
        """Without EOS, which CTranslate2 adds."""
        return [self._source[token] for token in source[:-1]]


def _with_eos(shown: Sequence[Sequence[float]], num_source: int, num_rows: int) -> NDArray[np.float64]:
    """CTranslate2 leaves out what EOS was given, which is what the others lack of 1."""
    weights = np.array(shown[:num_rows], np.float64).reshape(num_rows, num_source - 1)
    return np.concatenate([weights, np.maximum(0.0, 1.0 - weights.sum(1, keepdims=True))], axis=1)


def _exponent(penalty: Penalty, generously: bool) -> float:
    if generously:
        return _SHORT_FIRST
    match penalty.formula:
        case "length":
            return penalty.alpha or _NO_PENALTY
        case "gnmt":
            return penalty.alpha * _USUAL_LENGTH / (5 + _USUAL_LENGTH) or _NO_PENALTY
        case "none":
            return _NO_PENALTY


def _first_to_end(ended: list[Hypothesis], beam_size: int) -> list[Hypothesis]:
    """Those with which the search would have stopped: as many as the beam is wide, and what ended in the same step."""
    in_time = sorted(ended, key=lambda hypothesis: len(hypothesis.tokens))
    if len(in_time) < beam_size:
        return in_time
    return [one for one in in_time if len(one.tokens) <= len(in_time[beam_size - 1].tokens)]


def _with(sources: Sequence[Tokens], prefixes: Sequence[Tokens] | None) -> Iterator[tuple[Tokens, Tokens]]:
    if prefixes is not None and len(prefixes) != len(sources):
        raise ValueError(f"{len(prefixes)} prefixes for {len(sources)} sources: give one each, if need be empty")
    return zip(sources, prefixes or [()] * len(sources), strict=True)


def _chosen(bundle: Bundle, compute: Compute) -> Export:
    by_store = {export.store: export for export in bundle.exports}
    chosen = by_store.get(compute) or by_store.get("float32")
    if chosen is None:
        there = ", ".join(by_store)
        raise ValueError(
            f"{bundle.folder}: exported as {there} only, which is less than {compute}: "
            f"dragoman export {bundle.folder} --store {compute}"
        )
    return chosen


def _weights(bundle: Bundle, export: Export) -> bytes:
    """Read, or made again. Either way it is compared with what was tried when it was exported."""
    if export.kept:
        content = (bundle.folder / export.file.file).read_bytes()  # verified when the bundle was opened
        wrong = what_is_wrong(bundle, export, content)
        if wrong:
            raise DamageError(bundle.folder / export.file.file, wrong, MEND)
        return content
    content = weights_file(bundle, export.store, export.alignment_heads)
    if hashlib.sha256(content).hexdigest() != export.file.sha256:
        wrong = f"the export that is made from it is not the one that was tried ({export.store})"
        raise DamageError(bundle.folder, wrong, MEND)
    return content
