"""Flags that need only source and target text: reasons to review a translation, with evidence."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, Literal, NamedTuple

from pydantic import Field

from dragoman.config import Config
from dragoman.triage.numerals import TextSpan, find_addresses, unmatched_numbers

FlagName = Literal["dropped", "repeated", "copied", "numbers", "addresses", "length"]

MEANING: Final[dict[FlagName, str]] = {
    "dropped": "source words that received little attention from all target tokens together",
    "repeated": "words that are repeated in the target, but not in the source",
    "copied": "words of the source that are untranslated in the target",
    "numbers": "numbers of one side that the other does not have",
    "addresses": "URLs and e-mail addresses that were changed",
    "length": "a target much longer or shorter than usual",
}

_IDEOGRAPH: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD: Final = re.compile(rf"[{_IDEOGRAPH}]|[^\W{_IDEOGRAPH}]+(?:['’][^\W{_IDEOGRAPH}]+)*")  # noqa: RUF001
_PLAIN: Final = re.compile(r"\W*[^\W\d_]+(?:['’-][^\W\d_]+)*\W*")  # noqa: RUF001
"""A word between two spaces, with the punctuation around it."""
_SLACK: Final = 10
"""Characters added to both lengths before they are compared, because short sentences vary more."""

SpansOf = tuple[str, list[TextSpan]]
"""A text and some of its spans."""


class Flag(Config):
    """A possible error in a translation, for human review."""

    name: FlagName
    severity: float = Field(ge=0.0, le=1.0, description="severity of the error if the flag is right")
    evidence: str = Field(description="description of the observation, with numbers")
    source: tuple[TextSpan, ...] = Field((), description="flagged spans of the source")
    target: tuple[TextSpan, ...] = Field((), description="flagged spans of the target")


class FlagRules(Config):
    """The thresholds of the flags, and the values expected of a normal translation.

    The expected values depend on the languages and the model: measure them on a test set.
    """

    expected_ratio: float | None = Field(1.0, gt=0.0, description="expected target characters per source character")
    expected_tokens: float | None = Field(None, gt=0.0, description="expected target tokens per source token")
    length_limit: float = Field(1.5, gt=1.0, description="maximum factor between actual and expected length")
    repeated_words: int = Field(4, ge=2, description="minimum length in words of a repeated phrase to flag")
    copied_words: int = Field(4, ge=1, description="minimum number of consecutive copied words to flag")
    coverage: float = Field(0.3, gt=0.0, description="fraction of expected attention below which a word has a deficit")
    lack: float = Field(0.5, gt=0.0, description="minimum total deficit of consecutive words to flag, in words")


DEFAULT_RULES: Final = FlagRules()


class TextWord(NamedTuple):
    """A run of letters and digits, or one character of a script that has no spaces."""

    text: str
    span: TextSpan
    folded: str
    """The text after case folding."""


class Repetition(NamedTuple):
    """A word sequence that is repeated immediately."""

    start: int
    size: int
    copies: int


def flag_text(source: str, target: str, rules: FlagRules = DEFAULT_RULES) -> list[Flag]:
    """Return the flags of a translation that need only its text, most severe first."""
    flags = [flag for check in (check_length, check_repetitions, check_copies) for flag in check(source, target, rules)]
    return sort_flags([*flags, *check_numbers(source, target), *check_addresses(source, target)])


def sort_flags(flags: list[Flag]) -> list[Flag]:
    """Return the flags, most severe first."""
    return sorted(flags, key=lambda flag: -flag.severity)


def quote(text: str, limit: int = 60) -> str:
    """Return a text in quotation marks; the middle of a text longer than `limit` is left out."""
    if len(text) > limit:
        half = limit // 2
        front = re.sub(r"\s\S*$", "", text[: half + 1])[:half].rstrip()
        back = re.sub(r"^\S*\s", "", text[-half - 1 :])[-half:].lstrip()
        text = f"{front} … {back}"
    return f'"{text}"'


def count(number: int, thing: str) -> str:
    """Return a number and a noun in the singular or plural: `1 word`, `2 words`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def check_length(source: str, target: str, rules: FlagRules) -> Iterator[Flag]:
    """Flag a target much longer or shorter than expected."""
    num_source, num_target = len(source.strip()), len(target.strip())
    if bool(num_source) != bool(num_target):
        evidence = f"{count(num_source or num_target, 'character')} on one side, and nothing on the other"
        yield Flag(name="length", severity=1.0, evidence=evidence)
    elif num_source and rules.expected_ratio is not None:
        expected = num_source * rules.expected_ratio
        off = abs(math.log((num_target + _SLACK) / (expected + _SLACK)))
        if off > math.log(rules.length_limit):
            evidence = f"{count(num_target, 'character')} for {num_source}, where about {expected:.0f} were expected"
            yield Flag(name="length", severity=1 - math.exp(-off), evidence=evidence)


def check_numbers(source: str, target: str) -> Iterator[Flag]:
    """Flag numbers that only the source or only the target has."""
    lost, new = (sorted({number.span for number in side}) for side in unmatched_numbers(source, target))
    yield from _difference("numbers", 0.9 if lost and new else 0.6, (source, lost), (target, new))


def check_addresses(source: str, target: str) -> Iterator[Flag]:
    """Flag URLs and e-mail addresses that were changed."""
    read, written = find_addresses(source), find_addresses(target)
    lost = _surplus(source, read, Counter(target[start:end] for start, end in written))
    new = _surplus(target, written, Counter(source[start:end] for start, end in read))
    yield from _difference("addresses", 0.8, (source, lost), (target, new))


def check_repetitions(source: str, target: str, rules: FlagRules) -> Iterator[Flag]:
    """Flag phrases that the target repeats, immediately or later, if the source has no repetition."""
    read, written = find_words(source), find_words(target)
    copies = max((repetition.copies for repetition in find_repetitions(read)), default=1)
    odd = [each for each in find_repetitions(written) if each.copies > copies and _is_odd(target, written, each)]
    for start, size, times in odd:
        unit, whole = _cover(written[start : start + size]), _cover(written[start : start + size * times])
        evidence = f"{quote(target[slice(*unit)])} {times} times in a row; in the source, nothing comes {times} times"
        severity = min(1.0, 0.5 + size * (times - 1) / len(written))
        yield Flag(name="repeated", severity=severity, evidence=evidence, target=(whole,))
    again = None if odd else _find_again(written, rules.repeated_words)
    # Half as many words that come again in the source are reason enough: its phrase may have fewer.
    if again and not _find_again(read, max(2, rules.repeated_words // 2)):
        first, second, size = again
        spans = tuple(_cover(written[start : start + size]) for start in (first, second))
        evidence = f"{quote(target[slice(*spans[0])])} comes twice; nothing in the source comes twice"
        yield Flag(name="repeated", severity=min(1.0, 0.3 + size / len(written)), evidence=evidence, target=spans)


def find_words(text: str) -> list[TextWord]:
    """Return the words of a text, without punctuation."""
    return [TextWord(match.group(), match.span(), match.group().casefold()) for match in _WORD.finditer(text)]


def find_repetitions(words: Sequence[TextWord]) -> list[Repetition]:
    """Return all immediate repetitions, the longest at each position, without overlaps."""
    folded = [word.folded for word in words]
    result: list[Repetition] = []
    start = 0
    while start < len(folded):
        repetition = _repetition_at(folded, start)
        result += [repetition] if repetition.copies > 1 else []
        start += repetition.size * repetition.copies
    return result


def check_copies(source: str, target: str, rules: FlagRules) -> Iterator[Flag]:
    """Flag consecutive words copied from the source; names, numbers and addresses do not count."""
    read, written = find_words(source), find_words(target)
    matcher = SequenceMatcher(None, [word.folded for word in read], [word.folded for word in written], autojunk=False)
    begin, start, size = matcher.find_longest_match()
    run = written[start : start + size]
    kept = find_addresses(target)
    ordinary = sum(_ordinary(target, word) for word in run if not any(a <= word.span[0] < b for a, b in kept))
    is_all = size == len(written) == len(read)
    if (size >= rules.copied_words and ordinary >= rules.copied_words - 1) or (is_all and ordinary >= 2):
        evidence = f"{quote(target[slice(*_cover(run))])}: {count(size, 'word')} in a row stand in the source too"
        severity = min(1.0, 0.4 + 0.6 * size / len(written))
        spans = (_cover(read[begin : begin + size]),)
        yield Flag(name="copied", severity=severity, evidence=evidence, source=spans, target=(_cover(run),))


def _difference(name: FlagName, severity: float, lost: SpansOf, new: SpansOf) -> Iterator[Flag]:
    """Flag the source spans that the target lacks and the target spans that the source lacks."""
    parts = [
        f"{verb} {', '.join(quote(text[start:end]) for start, end in spans)}"
        for verb, (text, spans) in (("the target lacks", lost), ("only the target has", new))
        if spans
    ]
    if parts:
        spans = {"source": tuple(lost[1]), "target": tuple(new[1])}
        yield Flag(name=name, severity=severity, evidence="; ".join(parts), **spans)


def _surplus(text: str, spans: list[TextSpan], others: Counter[str]) -> list[TextSpan]:
    """Return the spans that have no counterpart in `others`, the counts of the texts on the other side."""
    surplus = []
    for start, end in spans:
        others[text[start:end]] -= 1
        if others[text[start:end]] < 0:
            surplus.append((start, end))
    return surplus


def _repetition_at(folded: list[str], start: int) -> Repetition:
    best = Repetition(start, 1, 1)
    for size in range(1, (len(folded) - start) // 2 + 1):
        if folded[start + size] != folded[start]:
            continue
        unit = folded[start : start + size]
        copies = 1
        while folded[start + copies * size : start + (copies + 1) * size] == unit:
            copies += 1
        if copies > 1 and size * copies > best.size * best.copies:
            best = Repetition(start, size, copies)
    return best


def _is_odd(text: str, words: Sequence[TextWord], repetition: Repetition) -> bool:
    """Return True if a repetition looks like an error, unlike "die die" or "ein Leben leben"."""
    start, size, copies = repetition
    letters = sum(len(word.text) for word in words[start : start + size])
    if size > 1 or copies > 3:
        return letters * copies >= 6 if copies > 2 else letters >= 4
    run = words[start : start + copies]
    if not text[slice(*_cover(run))].replace(" ", "").isalnum():
        return False
    return letters >= 2 if copies == 3 else letters >= 5 and run[0].text == run[1].text


def _find_again(words: Sequence[TextWord], size: int) -> tuple[int, int, int] | None:
    """Return (first position, second position, length) of the first repeated phrase of at least `size` words."""
    folded = [word.folded for word in words]
    seen: dict[tuple[str, ...], int] = {}
    for start in range(len(folded) - size + 1):
        first = seen.setdefault(tuple(folded[start : start + size]), start)
        if first + size <= start:
            end = size
            while first + end < start and start + end < len(folded) and folded[first + end] == folded[start + end]:
                end += 1
            return first, start, end
    return None


def _ordinary(text: str, word: TextWord) -> float:
    """Return the weight of a copied word: 0.5 for an ideograph, 0 for names, numbers and paths, otherwise 1."""
    if re.match(f"[{_IDEOGRAPH}]", word.text):
        return 0.5
    start, end = word.span
    between = re.split(r"\s", text[:start])[-1] + word.text + re.split(r"\s", text[end:])[0]
    is_word = _PLAIN.fullmatch(between) and (end - start > 1 or text[end : end + 1] == " ")
    return float(bool(is_word) and not word.text[0].isupper())


def _cover(run: Sequence[TextWord]) -> TextSpan:
    """Return the span from the start of the first word to the end of the last."""
    return run[0].span[0], run[-1].span[1]
