"""Flags that need no model: what a source and its translation show when laid side by side."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from dragoman.inspection.flag import Flag, FlagRules, Span, quoted, several
from dragoman.inspection.numerals import Address, Numeral, addresses, unmatched

_IDEOGRAPH: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD: Final = re.compile(rf"[{_IDEOGRAPH}]|[^\W{_IDEOGRAPH}]+(?:['’][^\W{_IDEOGRAPH}]+)*")  # noqa: RUF001
_PLAIN: Final = re.compile(r"\W*[^\W\d_]+(?:['’-][^\W\d_]+)*\W*")  # noqa: RUF001
"""What stands between two spaces, if it is a word."""
_SLACK: Final = 10
"""Characters that are granted to both sides before lengths are compared: short sentences vary more."""


class Word(NamedTuple):
    """A run of letters and digits, or one character of a script that has no spaces."""

    text: str
    span: Span

    @property
    def folded(self) -> str:
        return self.text.casefold()


class Loop(NamedTuple):
    """Words that come again at once."""

    start: int
    size: int
    copies: int


def words(text: str) -> list[Word]:
    """Without punctuation."""
    return [Word(match.group(), match.span()) for match in _WORD.finditer(text)]


def length(source: str, target: str, rules: FlagRules) -> Iterator[Flag]:
    """Much longer or shorter than expected."""
    num_source, num_target = len(source.strip()), len(target.strip())
    if not num_source or not num_target:
        if num_source or num_target:
            said = f"{several(num_source or num_target, 'character')} on one side, and nothing on the other"
            yield Flag(name="length", severity=1.0, evidence=said)
        return
    if rules.expected_ratio is None:
        return
    expected = num_source * rules.expected_ratio
    off = abs(math.log((num_target + _SLACK) / (expected + _SLACK)))
    if off > math.log(rules.length_limit):
        said = f"{several(num_target, 'character')} for {num_source}, where about {expected:.0f} were expected"
        yield Flag(name="length", severity=1 - math.exp(-off), evidence=said)


def numbers(source: str, target: str) -> Iterator[Flag]:
    """Numbers of one side that the other does not have."""
    missing, added = unmatched(source, target)
    if missing or added:
        lost, new = _spans(missing), _spans(added)
        said = "; ".join(
            f"{verb} {', '.join(quoted(text[start:end]) for start, end in spans)}"
            for verb, text, spans in (("the target lacks", source, lost), ("only the target has", target, new))
            if spans
        )
        severity = 0.9 if missing and added else 0.6
        yield Flag(name="numbers", severity=severity, evidence=said, source=lost, target=new)


def web(source: str, target: str) -> Iterator[Flag]:
    """URLs and e-mail addresses that did not come through letter by letter."""
    ours, theirs = addresses(source), addresses(target)
    missing, added = _only(ours, theirs), _only(theirs, ours)
    if missing or added:
        said = "; ".join(
            f"{verb} {', '.join(quoted(found.text) for found in group)}"
            for verb, group in (("the target lacks", missing), ("only the target has", added))
            if group
        )
        yield Flag(name="addresses", severity=0.8, evidence=said, source=_spans(missing), target=_spans(added))


def repeated(source: str, target: str, rules: FlagRules) -> Iterator[Flag]:
    """Words that the target says again though the source does not: at once, or later on."""
    read, written = words(source), words(target)
    copies = max((loop.copies for loop in loops(read)), default=1)
    found = [loop for loop in loops(written) if loop.copies > copies and _is_odd(target, written, loop)]
    for start, size, times in found:
        unit, whole = _cover(written[start : start + size]), _cover(written[start : start + size * times])
        said = f"{quoted(target[slice(*unit)])} {times} times in a row; in the source, nothing is said {times} times"
        severity = min(1.0, 0.5 + size * (times - 1) / len(written))
        yield Flag(name="repeated", severity=severity, evidence=said, target=(whole,))
    if not found:
        yield from _later(read, written, target, rules)


def loops(found: Sequence[Word]) -> list[Loop]:
    """All words that come again at once, the longest stretch at each place; no two overlap."""
    folded = [word.folded for word in found]
    result: list[Loop] = []
    start = 0
    while start < len(folded):
        loop = _loop(folded, start)
        result += [loop] if loop.copies > 1 else []
        start += max(1, loop.size * loop.copies if loop.copies > 1 else 1)
    return result


def copied(source: str, target: str, rules: FlagRules) -> Iterator[Flag]:
    """A run of words that the target took over as they were. Names, numbers and addresses may: they do not count."""
    read, written = words(source), words(target)
    begins, start, size = _longest_common([word.folded for word in read], [word.folded for word in written])
    run = written[start : start + size]
    kept = [found.span for found in addresses(target)]
    ordinary = sum(_ordinary(target, word) for word in run if not any(a <= word.span[0] < b for a, b in kept))
    everything = size == len(written) == len(read)
    if (size >= rules.copied_words and ordinary >= rules.copied_words - 1) or (everything and ordinary >= 2):
        said = f"{quoted(target[slice(*_cover(run))])}: {several(size, 'word')} in a row stand in the source too"
        severity = min(1.0, 0.4 + 0.6 * size / len(written))
        spans = (_cover(read[begins : begins + size]),)
        yield Flag(name="copied", severity=severity, evidence=said, source=spans, target=(_cover(run),))


def _loop(folded: list[str], start: int) -> Loop:
    best = Loop(start, 1, 1)
    for size in range(1, (len(folded) - start) // 2 + 1):
        if folded[start + size] != folded[start]:
            continue
        unit = folded[start : start + size]
        copies = 1
        while folded[start + copies * size : start + (copies + 1) * size] == unit:
            copies += 1
        if copies > 1 and size * copies > best.size * best.copies:
            best = Loop(start, size, copies)
    return best


def _is_odd(text: str, found: Sequence[Word], loop: Loop) -> bool:
    """Some words meet in good sentences ("die die", "ein Leben leben", "gewesen wäre, wäre"), and syllables too."""
    unit = found[loop.start : loop.start + loop.size]
    letters = sum(len(word.text) for word in unit)
    if loop.size > 1 or loop.copies > 3:
        return letters * loop.copies >= 6 if loop.copies > 2 else letters >= 4
    copies = found[loop.start : loop.start + loop.copies]
    if not text[slice(*_cover(copies))].replace(" ", "").isalnum():
        return False
    return letters >= 2 if loop.copies == 3 else letters >= 5 and copies[0].text == copies[1].text


def _later(read: list[Word], written: list[Word], target: str, rules: FlagRules) -> Iterator[Flag]:
    """In another language a phrase may have fewer words, so half of them are enough for the source to have it too."""
    again = _again([word.folded for word in written], rules.repeated_words)
    if again is None or _again([word.folded for word in read], max(2, rules.repeated_words // 2)) is not None:
        return
    first, second, size = again
    spans = tuple(_cover(written[start : start + size]) for start in (first, second))
    said = f"{quoted(target[slice(*spans[0])])} comes twice; the source does not say anything twice"
    yield Flag(name="repeated", severity=min(1.0, 0.3 + size / len(written)), evidence=said, target=spans)


def _again(folded: list[str], size: int) -> tuple[int, int, int] | None:
    """The first so many words that come again, made as long as they can be: where, where again, how many."""
    seen: dict[tuple[str, ...], int] = {}
    for start in range(len(folded) - size + 1):
        first = seen.setdefault(tuple(folded[start : start + size]), start)
        if first + size <= start:
            end = size
            while first + end < start and start + end < len(folded) and folded[first + end] == folded[start + end]:
                end += 1
            return first, start, end
    return None


def _longest_common(left: list[str], right: list[str]) -> tuple[int, int, int]:
    """The longest run that both have: where in each, how many."""
    best = (0, 0, 0)
    before = [0] * (len(right) + 1)
    for i, word in enumerate(left):
        now = [0] * (len(right) + 1)
        for j, other in enumerate(right):
            if word == other:
                now[j + 1] = before[j] + 1
                if now[j + 1] > best[2]:
                    best = (i + 1 - now[j + 1], j + 1 - now[j + 1], now[j + 1])
        before = now
    return best


def _ordinary(text: str, word: Word) -> float:
    """Half a word for one ideograph; nothing for names, which have a capital, for numbers and the letters of a list,
    nor for what stands between spaces without being a word, such as a path or a placeholder.
    """
    if re.match(f"[{_IDEOGRAPH}]", word.text):
        return 0.5
    start, end = word.span
    between = re.split(r"\s", text[:start])[-1] + word.text + re.split(r"\s", text[end:])[0]
    is_word = _PLAIN.fullmatch(between) and (end - start > 1 or text[end : end + 1] == " ")
    return float(bool(is_word) and not word.text[0].isupper())


def _only(ours: list[Address], theirs: list[Address]) -> list[Address]:
    """Those that the others do not have as often."""
    rest = Counter(found.text for found in theirs)
    kept = []
    for found in ours:
        if not rest[found.text]:
            kept.append(found)
        rest[found.text] -= rest[found.text] > 0
    return kept


def _spans(found: Iterable[Address | Numeral]) -> tuple[Span, ...]:
    return tuple(sorted({one.span for one in found}))


def _cover(run: Sequence[Word]) -> Span:
    """From the first letter to the last."""
    return run[0].span[0], run[-1].span[1]
