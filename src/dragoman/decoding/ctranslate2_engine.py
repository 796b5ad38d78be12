"""The engine for production. What its search does otherwise than ours is set right here, so that options mean the same.

- It ranks by n^alpha, and counts n without EOS unless told to return it. All hypotheses of the beam come back with
  their EOS, and are ranked here, by any penalty. If more have ended than the beam is wide, it drops the last by its
  own ranking, so it is given the exponent that comes nearest to ours.
- Its length limit is one number for a whole call, and there it ends without EOS. A source whose hypotheses come near
  its own limit is searched again, alone, up to one token before the limit, and EOS is scored.
- It counts the tokens of a prefix as certain. They are scored, and count.
- It would write PAD or BOS if a model found them likely. Then the source is searched again without them.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

import ctranslate2

from dragoman.bundle import Bundle, Export
from dragoman.bundle.reading import MEND
from dragoman.data.durable import DamageError
from dragoman.data.vocab import BOS, EOS, PAD
from dragoman.decoding.engines import Compute, Tokens
from dragoman.decoding.hypothesis import Hypothesis, Result
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.penalty import Penalty
from dragoman.export.ctranslate2 import WEIGHTS, pieces, small_files, weights_file

BATCH_TOKENS: Final = 1024
"""Source tokens of a batch, padding included: more is no faster on a CPU, and holds more memory."""

_NO_PENALTY: Final = 1e-30
"""x^this is 1. Zero itself would make it stop at the first hypothesis that ends."""

_USUAL_LENGTH: Final = 20
"""Where the exponent of `length` that stands for `gnmt` has the same slope."""


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
        files = {**small_files(bundle), WEIGHTS: _weights(bundle, export)}
        translator = ctranslate2.Translator(
            str(bundle.folder),
            device="cpu",
            compute_type=compute,
            inter_threads=threads or len(os.sched_getaffinity(0)),
            intra_threads=1,  # one batch a thread: no core waits for another
            max_queued_batches=-1,
            files=files,
        )
        return CTranslate2Engine(translator, bundle, export)

    def submit(
        self, sources: Sequence[Tokens], options: SearchOptions, prefixes: Sequence[Tokens] | None = None
    ) -> Iterator[tuple[int, Result]]:
        limits = [self._limit(source, options, prefix) for source, prefix in _with(sources, prefixes)]
        waiting = self._begin(sources, options, prefixes, max(limits, default=1))
        return self._results(waiting, limits, sources, options, prefixes)

    def score(self, sources: Sequence[Tokens], targets: Sequence[Tokens]) -> list[tuple[float, ...]]:
        scored = self._translator.score_batch(
            [self._pieces(source) for source in sources],
            [[self._target[token] for token in target] for target in targets],
            max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
            max_input_length=0,
        )
        return [tuple(result.log_probs) for result in scored]

    def _begin(
        self,
        sources: Sequence[Tokens],
        options: SearchOptions,
        prefixes: Sequence[Tokens] | None,
        longest: int,
        **others: Any,
    ) -> list[ctranslate2.AsyncTranslationResult]:
        begun: list[ctranslate2.AsyncTranslationResult] = self._translator.translate_batch(
            [self._pieces(source) for source in sources],
            None if prefixes is None else [[self._target[token] for token in prefix] for prefix in prefixes],
            max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
            asynchronous=True,
            beam_size=options.beam_size,
            num_hypotheses=options.beam_size,
            length_penalty=_exponent(options.penalty),
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
    ) -> Iterator[tuple[int, Result]]:
        for place, (pending, limit) in enumerate(zip(waiting, limits, strict=True)):
            source, prefix = sources[place], prefixes[place] if prefixes else ()
            ended = self._ended(pending.result(), options.penalty)
            if any(len(hypothesis.tokens) + 2 > limit for hypothesis in ended):
                ended = self._at_limit(source, options, prefix, limit)
            elif any(not {PAD, BOS}.isdisjoint(hypothesis.tokens) for hypothesis in ended):
                never = [[self._target[PAD]], [self._target[BOS]]]
                found = self._alone(source, options, prefix, limit, suppress_sequences=never)
                ended = self._ended(found, options.penalty)
            if prefix:
                ended = self._with_prefix(ended, source, prefix, options.penalty)
            ended.sort(key=lambda hypothesis: -hypothesis.score)
            yield place, Result(tuple(ended[: options.num_best]))

    def _at_limit(self, source: Tokens, options: SearchOptions, prefix: Tokens, limit: int) -> list[Hypothesis]:
        """What the search gives when it must stop at this source's own limit, where only EOS may follow."""
        found = self._alone(source, options, prefix, limit - 1)
        ended = self._ended(found, options.penalty)
        cut = [place for place, tokens in enumerate(found.hypotheses) if not self._has_ended(tokens)]
        lasts = self.score([source] * len(cut), [ended[place].tokens for place in cut])
        for place, last in zip(cut, lasts, strict=True):
            open_end = ended[place]
            total = open_end.log_probability + last[-1]
            score = options.penalty.score(total, len(open_end.tokens) + 1)
            ended[place] = Hypothesis(open_end.tokens, (), score, True, total)
        return ended

    def _alone(
        self, source: Tokens, options: SearchOptions, prefix: Tokens, longest: int, **others: Any
    ) -> ctranslate2.TranslationResult:
        (pending,) = self._begin([source], options, [prefix] if prefix else None, longest, **others)
        return pending.result()

    def _ended(self, found: ctranslate2.TranslationResult, penalty: Penalty) -> list[Hypothesis]:
        """Its hypotheses in our words: its score undone, and ours given."""
        exponent, ended = _exponent(penalty), []
        for names, given in zip(found.hypotheses, found.scores, strict=True):
            tokens = tuple(self._ids[name] for name in names)
            total = given * len(tokens) ** exponent
            tokens = tokens[:-1] if self._has_ended(names) else tokens
            ended.append(Hypothesis(tokens, (), penalty.score(total, len(tokens) + 1), False, total))
        return ended

    def _with_prefix(
        self, ended: list[Hypothesis], source: Tokens, prefix: Tokens, penalty: Penalty
    ) -> list[Hypothesis]:
        (known,) = self.score([source], [prefix])
        totals = [hypothesis.log_probability + sum(known[:-1]) for hypothesis in ended]
        return [
            Hypothesis(old.tokens, (), penalty.score(total, len(old.tokens) + 1), old.cut, total)
            for old, total in zip(ended, totals, strict=True)
        ]

    def _limit(self, source: Tokens, options: SearchOptions, prefix: Tokens) -> int:
        assert self.longest is not None
        return min(max(options.max_length.tokens(len(source)), len(prefix) + 1), self.longest)

    def _pieces(self, source: Tokens) -> list[str]:
        """Without EOS, which CTranslate2 adds."""
        return [self._source[token] for token in source[:-1]]

    def _has_ended(self, names: Sequence[str]) -> bool:
        return bool(names) and names[-1] == self._target[EOS]


def _exponent(penalty: Penalty) -> float:
    match penalty.formula:
        case "length":
            return penalty.alpha or _NO_PENALTY
        case "gnmt":
            return penalty.alpha * _USUAL_LENGTH / (5 + _USUAL_LENGTH) or _NO_PENALTY
        case "none":
            return _NO_PENALTY


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
        return (bundle.folder / export.file.file).read_bytes()  # verified when the bundle was opened
    content = weights_file(bundle, export.store, export.alignment_heads)
    if hashlib.sha256(content).hexdigest() != export.file.sha256:
        wrong = f"the export that is made from it is not the one that was tried ({export.store})"
        raise DamageError(bundle.folder, wrong, MEND)
    return content
