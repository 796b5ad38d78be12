"""What else a model could have written: the likeliest next tokens after a beginning, and how each would go on.

Only what every engine can do is asked of it, so it means the same on each. No torch here.
"""

from dataclasses import dataclass

from dragoman.data.characters import mended
from dragoman.data.vocab import EOS
from dragoman.decoding.engine import Engine, Tokens, search
from dragoman.decoding.given import MOST_ALTERNATIVES, a_number, a_text
from dragoman.decoding.options import LengthLimit, SearchOptions
from dragoman.decoding.penalty import Penalty
from dragoman.decoding.translated import Sentence, Written, written
from dragoman.decoding.translator import Translator


@dataclass(frozen=True)
class Alternative:
    """A token that may come next, and the translation that follows from it."""

    piece: str
    """As the vocabulary has it; "▁" is a space."""
    word: str
    """The word that it becomes part of; empty if the translation ends here."""
    log_probability: float
    """Of this token after the beginning."""
    goes_on: Written
    """The best translation that begins like this, from its first word."""


def completed(translator: Translator, source: str, prefix: str) -> Sentence:
    """The translations of a sentence that begin as given."""
    row, begin = _encoded(translator, source, prefix)
    (result,) = search(translator.engine, [row], translator.options, [begin])
    return Sentence(source, tuple(written(hypothesis, translator.text) for hypothesis in result.hypotheses))


def alternatives(translator: Translator, source: str, prefix: str, num: int) -> list[Alternative]:
    """The likeliest first."""
    a_number("num", num, MOST_ALTERNATIVES)
    row, begin = _encoded(translator, source, prefix, room=1)
    best = _next_tokens(translator.engine, row, begin, num)
    going = [token for token, _ in best if token != EOS]
    one = translator.options.model_copy(update={"num_best": 1})
    found = search(translator.engine, [row] * len(going), one, [[*begin, token] for token in going])
    by_token = {token: written(result.best, translator.text) for token, result in zip(going, found, strict=True)}
    if any(token == EOS for token, _ in best):
        by_token[EOS] = _ended(translator, row, begin)
    start = len(translator.text(tuple(begin)))
    target = translator.vocab.target
    return [
        Alternative(target.piece(token), _word(by_token[token].text, start), log_probability, by_token[token])
        for token, log_probability in best
    ]


def scored(translator: Translator, source: str, target: str) -> tuple[float, ...]:
    """The log-probability of each token of a target and, last, of its end."""
    row, tokens = _encoded(translator, source, target)
    return tuple(translator.engine.score([row], [tokens])[0])


def _next_tokens(engine: Engine, source: Tokens, begin: Tokens, num: int) -> list[tuple[int, float]]:
    """A search that may write one token more and may not end before holds the likeliest; the end itself is scored."""
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


def _ended(translator: Translator, source: Tokens, begin: Tokens) -> Written:
    total = sum(translator.engine.score([source], [begin])[0])
    return Written(translator.text(tuple(begin)), translator.options.penalty.score(total, len(begin) + 1), total)


def _word(text: str, start: int) -> str:
    """The one at this place; if a space is there, the one after it."""
    going_on = start < len(text) and not text[start].isspace()
    first = text.rfind(" ", 0, start) + 1 if going_on else start
    return next(iter(text[first:].split()), "") if start < len(text) else ""


def _encoded(translator: Translator, source: str, target: str, room: int = 0) -> tuple[list[int], list[int]]:
    """Both with nothing cut off; the target without its end, and with room for so many tokens more."""
    a_text("the source", source)
    a_text("the target", target)
    vocab, longest = translator.vocab, translator.engine.longest
    row = vocab.source.encode([mended(source)]).ids.tolist()
    begin = vocab.target.encode([mended(target)]).ids.tolist()
    for what, length in (("source", len(row)), ("target", len(begin) + room)):
        if longest is not None and length > longest:
            raise ValueError(f"the {what} has {length:,} tokens, but this model takes at most {longest:,}: shorten it")
    if len(row) < 2:
        raise ValueError("there is nothing in the source: give a sentence")
    return row, begin[:-1]
