"""Find alternatives for the next word, translate with a forced prefix, and score given translations.

Uses only the `Engine` interface, so the results have the same meaning with every engine. Does not import torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dragoman.decoding.checks import check_int, check_text
from dragoman.decoding.engine import Engine, search
from dragoman.decoding.hypothesis import Tokens
from dragoman.decoding.options import LengthLimit, SearchOptions
from dragoman.decoding.penalty import Penalty
from dragoman.text.cleaning import clean_line
from dragoman.text.vocab import EOS
from dragoman.translation.kept import split_kept
from dragoman.translation.results import Segment, SentenceTranslation, TextHypothesis
from dragoman.translation.translator import Translator

MOST_ALTERNATIVES: Final = 100
"""The maximum number of alternatives. Each needs a search: 100 take 19 s with the demo model on one core."""


@dataclass(frozen=True)
class Alternative:
    """A candidate for the next token, with the best translation that continues after the token."""

    piece: str
    """The token as in the vocabulary, where "▁" is a space."""
    word: str
    """The word that the token becomes part of; empty if the translation ends here."""
    log_probability: float
    """Log-probability of the token after the prefix."""
    continuation: TextHypothesis
    """The best complete translation that begins with the prefix and this token."""


def complete(translator: Translator, source: str, prefix: str) -> SentenceTranslation:
    """Translate a sentence with a forced prefix: every hypothesis begins with the prefix."""
    row, begin = _encode(translator, source, prefix)
    _require_translatable(translator, source)
    (result,) = search(translator.engine, [row], translator.options, [begin])
    segment = Segment(clean_line(source), result.hypotheses, translator.decode(result.best.tokens))
    return SentenceTranslation.of(source, [segment], translator.decode)


def complete_all(translator: Translator, pairs: Sequence[tuple[str, str]]) -> list[SentenceTranslation | None]:
    """Translate sentences with forced prefixes, given as (source, prefix); None for a prefix that is too long."""
    vocab, longest = translator.vocab, translator.engine.longest
    rows = vocab.source.encode([clean_line(source) for source, _ in pairs]).rows()
    begins = [row[:-1] for row in vocab.target.encode([clean_line(prefix) for _, prefix in pairs]).rows()]
    fits = [i for i, begin in enumerate(begins) if longest is None or len(begin) + 2 <= longest]
    found = translator.engine.complete([rows[i] for i in fits], translator.options, [begins[i] for i in fits])
    completed: list[SentenceTranslation | None] = [None] * len(pairs)
    for i, result in zip(fits, found, strict=True):
        source = pairs[i][0]
        segment = Segment(clean_line(source), result.hypotheses, translator.decode(result.best.tokens))
        completed[i] = SentenceTranslation.of(source, [segment], translator.decode)
    return completed


def word_log_probabilities(translator: Translator, pairs: Sequence[tuple[str, Tokens]]) -> list[list[float]]:
    """Return the log-probability of each word of a translation, for (source, target tokens) pairs."""
    sources = translator.vocab.source.encode([clean_line(source) for source, _ in pairs]).rows()
    scores = translator.engine.score(sources, [tokens for _, tokens in pairs])
    found = []
    for (_, tokens), of_tokens in zip(pairs, scores, strict=True):
        words = [len(translator.decode(tuple(tokens[:end])).split()) - 1 for end in range(1, len(tokens) + 1)]
        of_words = [0.0] * (max(words, default=-1) + 1)
        for word, log_probability in zip(words, of_tokens, strict=False):  # EOS is no word
            of_words[max(word, 0)] += log_probability
        found.append(of_words)
    return found


def find_alternatives(translator: Translator, source: str, prefix: str, num: int) -> list[Alternative]:
    """Return the `num` most probable next tokens after the prefix, best first, each with the best continuation."""
    check_int("num", num, MOST_ALTERNATIVES)
    row, begin = _encode(translator, source, prefix, num_more=1)
    _require_translatable(translator, source)
    best = _next_tokens(translator.engine, row, begin, num)
    tokens = [token for token, _ in best if token != EOS]
    options = translator.options.replace(num_best=1)
    results = search(translator.engine, [row] * len(tokens), options, [[*begin, token] for token in tokens])
    by_token = {
        token: TextHypothesis.of(result.best, translator.decode) for token, result in zip(tokens, results, strict=True)
    }
    if any(token == EOS for token, _ in best):
        total = sum(translator.engine.score([row], [begin])[0])
        score = translator.options.penalty.score(total, len(begin) + 1)
        by_token[EOS] = TextHypothesis(translator.decode(tuple(begin)), score, total)
    start = len(translator.decode(tuple(begin)))
    target = translator.vocab.target
    return [
        Alternative(target.piece(token), _word_at(by_token[token].text, start), log_probability, by_token[token])
        for token, log_probability in best
    ]


def score_target(translator: Translator, source: str, target: str) -> tuple[float, ...]:
    """Return the log-probability of each target token, followed by that of EOS."""
    row, tokens = _encode(translator, source, target)
    return tuple(translator.engine.score([row], [tokens])[0])


def _require_translatable(translator: Translator, source: str) -> None:
    """Raise ValueError if a part of the source would be kept instead of translated."""
    (parts,) = split_kept([clean_line(source)], translator.vocab.source)
    for part in parts:
        if part.kept:
            raise ValueError(f"the source cannot be translated ({part.kept}): give other text, or no prefix")


def _next_tokens(engine: Engine, source: Tokens, begin: Tokens, num: int) -> list[tuple[int, float]]:
    """Return the `num` most probable next tokens with their log-probabilities, best first.

    A beam search for one more token finds the candidates other than EOS; EOS is scored separately.
    """
    options = SearchOptions(
        beam_size=num,
        num_best=num,
        penalty=Penalty(formula="none"),
        max_length=LengthLimit(ratio=0.0, extra=len(begin) + 2),
        min_length=len(begin) + 2,
    )
    (result,) = search(engine, [source], options, [begin])
    targets = [hypothesis.tokens for hypothesis in result.hypotheses]
    scores = engine.score([source] * len(targets), targets)
    candidates = [(target[-1], score[len(begin)]) for target, score in zip(targets, scores, strict=True)]
    candidates.append((EOS, engine.score([source], [begin])[0][-1]))
    return sorted(candidates, key=lambda candidate: -candidate[1])[:num]


def _word_at(text: str, start: int) -> str:
    """Return the word at position `start`, or the following word if there is a space at `start`."""
    if start >= len(text):
        return ""
    first = start if text[start].isspace() else text.rfind(" ", 0, start) + 1
    return next(iter(text[first:].split()), "")


def _encode(translator: Translator, source: str, target: str, num_more: int = 0) -> tuple[list[int], list[int]]:
    """Return the token ids of the source, with EOS, and of the target, without EOS.

    Raise ValueError if the source, or the target plus `num_more` tokens, is longer than the model supports.
    """
    check_text("the source", source)
    check_text("the target", target)
    vocab, longest = translator.vocab, translator.engine.longest
    row = vocab.source.encode([clean_line(source)]).ids.tolist()
    begin = vocab.target.encode([clean_line(target)]).ids.tolist()
    for side, length in (("source", len(row)), ("target", len(begin) + num_more)):
        if longest is not None and length > longest:
            raise ValueError(f"the {side} has {length:,} tokens, the limit is {longest:,}: shorten the {side}")
    if len(row) < 2:
        raise ValueError("the source is empty: give a sentence")
    return row, begin[:-1]
