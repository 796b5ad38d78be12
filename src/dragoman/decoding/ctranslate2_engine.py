"""The CTranslate2 engine, with corrections where CTranslate2 differs from the beam search in search.py.

- Ranking: CTranslate2 divides by n^alpha, and counts EOS in n only if it returns EOS. Here all hypotheses are returned
  with EOS, and this file ranks them by any penalty. If more than beam_size hypotheses end, CTranslate2 drops the last
  by its own ranking, so it gets the nearest exponent; for several results, twice as many are requested.
- Length limit: CTranslate2 has one limit per call, and ends there without EOS. A source whose hypotheses come near its
  limit is searched again alone, up to one token before the limit, and EOS is scored. The hypothesis that would replace
  one that ends with the last of these tokens is lost.
- Prefix: CTranslate2 gives prefix tokens probability 1, and cannot end directly after them. Here they are scored, and
  the ending after the prefix is added if it is probable; the hypothesis that would replace it is lost.
- Special tokens: CTranslate2 writes PAD or BOS if they are probable. The source is then searched again without them.
- Empty source: CTranslate2 translates a source of only EOS to an empty target.
- Forbidden tokens: CTranslate2 gives their probability to the other tokens. Results of searches with forbidden tokens
  or a minimum length are scored again, but the search may have found other hypotheses.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, get_args

import ctranslate2
import numpy as np
from numpy.typing import NDArray

from dragoman.bundle import Bundle, Export
from dragoman.bundle.reading import FIX
from dragoman.decoding.batching import alike
from dragoman.decoding.hypothesis import NOT_NUMBERS, Hypothesis, Result, Tokens
from dragoman.decoding.options import Compute, SearchOptions
from dragoman.decoding.penalty import Penalty
from dragoman.device import AUTO, CPU, CTranslate2Device, choose_ctranslate2_device
from dragoman.export.ctranslate2 import WEIGHTS, settings_files, weights_file
from dragoman.export.layout import find_layout_error
from dragoman.io.durable import DamageError
from dragoman.io.processes import num_cores
from dragoman.text.vocab import BOS, EOS, PAD

BATCH_TOKENS: Final = 768
"""Source tokens per batch with padding: larger batches are no faster on a CPU and use more memory (docs/results.md)."""

_BATCHES: Final[dict[str, Any]] = {"max_batch_size": BATCH_TOKENS, "batch_type": "tokens", "max_input_length": 0}

_NO_PENALTY: Final = 1e-30
"""An exponent e with n^e = 1. With exactly 0, CTranslate2 would stop at the first hypothesis that ends."""

_SHORT_FIRST: Final = -2.0
"""The exponent with which CTranslate2, if more hypotheses end than requested, drops those that ended last."""

_IMPOSSIBLE: Final = -1e9
"""The score that CTranslate2 returns where no token can follow."""


Rows = Sequence[Tokens]


class ExportWeights(NamedTuple):
    """An export in memory: its entry in the manifest and the content of its weights file."""

    export: Export
    content: bytes


def read_export(bundle: Bundle, compute: Compute = "float32") -> ExportWeights:
    """Read the export of a compute type; raise DamageError if it is not the one that was checked."""
    export = _choose_export(bundle, compute)
    return ExportWeights(export, _read_weights(bundle, export))


class CTranslate2Engine:
    """An engine that runs a CTranslate2 model on token ids."""

    name = "ctranslate2"

    def __init__(self, translator: ctranslate2.Translator, bundle: Bundle, export: Export) -> None:
        self._translator = translator
        self._source = bundle.vocab.source.pieces
        self._target = bundle.vocab.target.pieces
        self._ids = {piece: token for token, piece in enumerate(self._target)}
        assert bundle.info.model.family == "transformer"
        self.longest: int | None = bundle.info.model.max_positions
        self.export = export

    @staticmethod
    def load(
        bundle: Bundle,
        threads: int | None = None,
        compute: Compute = "float32",
        device: str = AUTO,
        weights: ExportWeights | None = None,
    ) -> "CTranslate2Engine":
        """Load the bundle's export of this compute type, or quantise its float32 export while loading.

        With `weights`, which `read_export` has returned, no file is read.
        """
        export, content = weights or read_export(bundle, compute)
        return CTranslate2Engine.of(bundle, export, content, threads, compute, device)

    @staticmethod
    def of(
        bundle: Bundle,
        export: Export,
        content: bytes,
        threads: int | None = None,
        compute: Compute = "float32",
        device: str = CPU,
    ) -> "CTranslate2Engine":
        """Load an export from the bytes of its weights file, so that CTranslate2 reads no unverified file.

        On a CPU, each thread computes batches of its own; on GPUs, each device does, unless `threads` says more.
        """
        place = choose_ctranslate2_device(device)
        _check_compute(compute, place)
        files = {**settings_files(bundle), WEIGHTS: content}
        refused = ""
        try:
            translator = ctranslate2.Translator(
                str(bundle.folder),
                device=place.device,
                device_index=place.device_index,
                compute_type=compute,
                inter_threads=threads or (num_cores() if place.is_cpu else 1),
                intra_threads=1,  # one batch a thread: no core waits for another
                max_queued_batches=-1,
                files=files,
            )
        except (RuntimeError, MemoryError) as error:
            wrong = f"CTranslate2 cannot load the file ({' '.join(str(error).split()) or 'out of memory'})"
            raise DamageError(bundle.folder / export.file.file, wrong, FIX) from error
        except TypeError:
            refused = "give threads as an integer of at least 1, and compute as a string"
        except ValueError as error:
            refused = str(error) or "no reason given"
        if refused:  # raised out here: a TypeError of CTranslate2 holds all that it was called with, files included
            raise ValueError(f"CTranslate2 rejects threads {threads!r} or compute {compute!r}: {refused}")
        return CTranslate2Engine(translator, bundle, export)

    def submit(
        self, sources: Rows, options: SearchOptions, prefixes: Rows | None = None
    ) -> Iterator[tuple[int, Result]]:
        pairs = _pair_with_prefixes(sources, prefixes)
        limits = [self._limit(source, options, prefix) for source, prefix in pairs]
        generously = options.num_best > 1 and options.penalty.formula == "gnmt"
        waiting: list[tuple[int, ctranslate2.AsyncTranslationResult]] = []
        for batch, limit in _batches(sources, limits):
            begins = None if prefixes is None else [prefixes[place] for place in batch]
            begun = self._begin([sources[place] for place in batch], options, begins, limit, generously)
            waiting += zip(batch, begun, strict=True)

        def results() -> Iterator[tuple[int, Result]]:
            for place, pending in waiting:  # batch by batch, as they are finished
                limit, (source, prefix) = limits[place], pairs[place]
                if len(source) < 2:
                    yield place, Result((Hypothesis(tuple(prefix), (), 0.0, False, 0.0),))
                    continue
                ended = self._ended(pending.result(), options, generously)
                never = any(not {PAD, BOS}.isdisjoint(hypothesis.tokens) for hypothesis in ended)
                at_limit = any(len(hypothesis.tokens) + 2 > limit for hypothesis in ended)
                if prefix or never or at_limit or options.min_length > 1:
                    ended = self._search_again(source, options, prefix, limit, never)
                ended.sort(key=lambda hypothesis: -hypothesis.score)
                yield place, Result(tuple(ended[: options.num_best]))

        return results()

    def complete(self, sources: Sequence[Tokens], options: SearchOptions, prefixes: Sequence[Tokens]) -> list[Result]:
        limits = [self._limit(source, options, prefix) for source, prefix in _pair_with_prefixes(sources, prefixes)]
        rows: list[list[tuple[int, ...]]] = [[] for _ in sources]
        for batch, limit in _batches(sources, limits):
            some, begins = [sources[place] for place in batch], [prefixes[place] for place in batch]
            for place, pending in zip(batch, self._begin(some, options, begins, limit, False), strict=True):
                ended = self._ended(pending.result(), options, False)
                ended.sort(key=lambda hypothesis: -hypothesis.score)
                rows[place] = [one.tokens for one in ended if {PAD, BOS}.isdisjoint(one.tokens)][: options.num_best]
        rows = [some or [tuple(prefix)] for some, prefix in zip(rows, prefixes, strict=True)]
        flat = [(source, row) for source, some in zip(sources, rows, strict=True) for row in some]
        # CTranslate2 gives prefix tokens probability 1.
        totals = map(sum, self.score([source for source, _ in flat], [row for _, row in flat]))
        scored = (
            Hypothesis(row, (), options.penalty.score(total, len(row) + 1), False, total)
            for (_, row), total in zip(flat, totals, strict=True)
        )
        return [Result(tuple(sorted(islice(scored, len(some)), key=lambda one: -one.score))) for some in rows]

    def score(self, sources: Sequence[Tokens], targets: Sequence[Tokens]) -> list[tuple[float, ...]]:
        scored = self._translator.score_batch(
            [self._pieces(source) for source in sources],
            [[self._target[token] for token in target] for target in targets],
            **_BATCHES,
        )
        return [tuple(result.log_probs) for result in scored]

    def attention(self, sources: Sequence[Tokens], targets: Sequence[Tokens]) -> list[NDArray[np.float64]]:
        """Return the attention of each target to its source, averaged over the export's alignment heads.

        An export without alignment heads gives the mean of its last layer. Each matrix has one row per target token and
        one column per source token, both with EOS last.
        """
        found = self._translator.translate_batch(
            [self._pieces(source) for source in sources],
            [[self._target[token] for token in target] for target in targets],
            **_BATCHES,
            beam_size=1,
            max_decoding_length=max((len(target) + 1 for target in targets), default=1),
            return_attention=True,
            return_end_token=True,
        )
        pairs = zip(sources, targets, found, strict=True)
        return [_with_eos(result.attention[0], len(source), len(target) + 1) for source, target, result in pairs]

    def _begin(
        self, sources: Rows, options: SearchOptions, prefixes: Rows | None, limit: int, generously: bool, **others: Any
    ) -> list[ctranslate2.AsyncTranslationResult]:
        """Start a search in the background; `generously` waits for twice as many ended hypotheses, and returns all."""
        more = 2 if generously and options.beam_size > 1 else 1
        begun: list[ctranslate2.AsyncTranslationResult] = self._translator.translate_batch(
            [self._pieces(source) for source in sources],
            None if prefixes is None else [[self._target[token] for token in prefix] for prefix in prefixes],
            **_BATCHES,
            asynchronous=True,
            beam_size=options.beam_size,
            patience=more,
            num_hypotheses=more * options.beam_size,
            length_penalty=_exponent(options.penalty, generously),
            max_decoding_length=limit,
            min_decoding_length=min(options.min_length - 1, limit),
            return_scores=True,
            return_end_token=True,
            **others,
        )
        return begun

    def _ended(
        self, result: ctranslate2.TranslationResult, options: SearchOptions, generously: bool
    ) -> list[Hypothesis]:
        """Return the hypotheses of a CTranslate2 result, scored with the length penalty of the options."""
        if any(map(math.isnan, result.scores)):
            raise ValueError(NOT_NUMBERS)
        exponent, penalty, ended = _exponent(options.penalty, generously), options.penalty, []
        id_of = self._ids.__getitem__
        for names, score in zip(result.hypotheses, result.scores, strict=True):
            tokens = tuple(map(id_of, names))
            total = score * len(tokens) ** exponent
            tokens = tokens[:-1] if tokens[-1:] == (EOS,) else tokens
            ended.append(Hypothesis(tokens, (), penalty.score(total, len(tokens) + 1), False, total))
        return _first_to_end(ended, options.beam_size)

    def _search_again(
        self, source: Tokens, options: SearchOptions, prefix: Tokens, limit: int, never: bool
    ) -> list[Hypothesis]:
        """Search one source alone, force EOS at its length limit, and score the hypotheses again.

        `never` forbids PAD and BOS.
        """
        ended: list[tuple[int, ...]] = []
        going = [tuple(prefix)]
        if len(prefix) + 1 < limit:
            rows = self._search_one(source, options, prefix, limit - 1, never)
            if not never and any(not {PAD, BOS}.isdisjoint(row) for row in rows):
                return self._search_again(source, options, prefix, limit, True)
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

    def _search_one(
        self, source: Tokens, options: SearchOptions, prefix: Tokens, longest: int, never: bool
    ) -> list[tuple[int, ...]]:
        """Search one source; return ended hypotheses, with EOS, and hypotheses that reached the limit, without EOS."""
        others = {"suppress_sequences": [[self._target[PAD]], [self._target[BOS]]]} if never else {}
        (pending,) = self._begin([source], options, [prefix] if prefix else None, longest, True, **others)
        found = pending.result()
        rows = [tuple(self._ids[name] for name in names) for names in found.hypotheses]
        totals = [score * len(row) ** _SHORT_FIRST for row, score in zip(rows, found.scores, strict=True)]
        return [row for row, total in zip(rows, totals, strict=True) if total > _IMPOSSIBLE]

    def _ends_after(self, source: Tokens, prefix: Tokens, options: SearchOptions) -> bool:
        """Return True if EOS is one of the `beam_size` most probable tokens after the prefix."""
        if len(prefix) + 1 < options.min_length:
            return False
        rows = self._search_one(source, options, prefix, len(prefix) + 1, True)
        rivals = {row for row in rows if len(row) == len(prefix) + 1 and row[-1] != EOS}
        scored = self.score([source] * (len(rivals) + 1), [tuple(prefix), *rivals])
        end = scored[0][-1]
        return sum(row[len(prefix)] > end for row in scored[1:]) < options.beam_size

    def _limit(self, source: Tokens, options: SearchOptions, prefix: Tokens) -> int:
        assert self.longest is not None
        return min(max(options.max_length.tokens(len(source)), len(prefix) + 1), self.longest)

    def _pieces(self, source: Tokens) -> list[str]:
        """Return the source tokens as strings, without EOS, which CTranslate2 adds."""
        return list(map(self._source.__getitem__, source[:-1]))


def _with_eos(shown: Sequence[Sequence[float]], num_source: int, num_rows: int) -> NDArray[np.float64]:
    """Return attention weights with the EOS column that CTranslate2 omits: 1 minus the sum of the other columns."""
    weights = np.array(shown[:num_rows], np.float64).reshape(num_rows, num_source - 1)
    return np.concatenate([weights, np.maximum(0.0, 1.0 - weights.sum(1, keepdims=True))], axis=1)


def _exponent(penalty: Penalty, generously: bool) -> float:
    return _SHORT_FIRST if generously else penalty.exponent or _NO_PENALTY


def _first_to_end(ended: list[Hypothesis], beam_size: int) -> list[Hypothesis]:
    """Return the first `beam_size` hypotheses that ended, and all others that ended in the same step as the last."""
    in_time = sorted(ended, key=lambda hypothesis: len(hypothesis.tokens))
    if len(in_time) < beam_size:
        return in_time
    return [one for one in in_time if len(one.tokens) <= len(in_time[beam_size - 1].tokens)]


def _batches(sources: Rows, limits: Sequence[int]) -> Iterator[tuple[list[int], int]]:
    """Yield batches of source indices with the length limit of the batch, at most twice the limit of each source.

    So a short source that does not end goes on to about its own limit, not to that of a far longer source.
    """
    for batch in alike([(len(source),) for source in sources], BATCH_TOKENS):
        left = batch
        while left:
            limit = max(limits[place] for place in left)
            yield [place for place in left if 2 * limits[place] >= limit], limit
            left = [place for place in left if 2 * limits[place] < limit]


def _pair_with_prefixes(sources: Rows, prefixes: Rows | None) -> list[tuple[Tokens, Tokens]]:
    if prefixes is not None and len(prefixes) != len(sources):
        raise ValueError(f"{len(prefixes)} prefixes for {len(sources)} sources: give one per source, () for none")
    return list(zip(sources, prefixes or [()] * len(sources), strict=True))


def _check_compute(compute: str, place: CTranslate2Device) -> None:
    """Raise ValueError if CTranslate2 does not support a known compute type on this device."""
    supported = [known for known in get_args(Compute) if known in place.supported()]
    if compute in get_args(Compute) and compute not in supported:
        fix = f"use {', '.join(supported)}"
        raise ValueError(f"compute {compute} is not supported by CTranslate2 on this {place.device} device: {fix}")


def _choose_export(bundle: Bundle, compute: Compute) -> Export:
    by_store: dict[str, Export] = {export.store: export for export in bundle.exports}
    chosen = by_store.get(compute) or by_store.get("float32")
    if chosen is None:
        fix = f"dragoman export {bundle.folder} --store {compute}"
        stores = ", ".join(by_store)
        raise ValueError(f"{bundle.folder}: exported only as {stores}, not as {compute}: run {fix}")
    return chosen


def _read_weights(bundle: Bundle, export: Export) -> bytes:
    """Return the content of the export's weights file: the stored file, or the bundle's weights converted again.

    Raise DamageError if the content is not the one that was checked at export.
    """
    if export.kept:
        content = (bundle.folder / export.file.file).read_bytes()  # verified when the bundle was opened
        wrong = find_layout_error(bundle, export, content)
        if wrong:
            raise DamageError(bundle.folder / export.file.file, wrong, FIX)
        return content
    content = weights_file(bundle, export.store, export.alignment_heads)
    if hashlib.sha256(content).hexdigest() != export.file.sha256:
        wrong = f"the weights do not give the {export.store} export that was checked"
        raise DamageError(bundle.folder, wrong, FIX)
    return content
