"""Show text in capitals and titles to the model in usual letter case, which it knows better. Does not import torch.

A vocabulary has pieces for words as they are usually written. `WHERE IS MY CAR?` is cut almost into letters, and
models translate it badly; `Where is my car?` has a piece for each word. So the vocabulary also tells how a word is
usually written: with the fewest pieces and, among these forms, with the most frequent ones, which have the lowest ids.
"""

import re
from collections.abc import Callable
from typing import Final

from dragoman.text.subwords import Subwords
from dragoman.translation.results import SentenceTranslation
from dragoman.translation.verbatim import split_at_runs

_WORD: Final = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_SHORT: Final = 3
"""The most letters of words that titles often write small, such as `and`."""
_FEWEST_IN_TITLE: Final = 3


def to_usual_case(sentence: str, subwords: Subwords) -> str:
    """Return a sentence in capitals, or with capitals as in a title, in usual letter case; otherwise the sentence.

    The sentence also stays the same if the vocabulary writes it with no more pieces than the usual form.
    """
    words = _words_to_translate(sentence)
    are_in_capitals = _are_in_capitals(words)
    if not (are_in_capitals or _are_a_title(words)):
        return sentence
    forms = _usual_forms(words, subwords, are_in_capitals)
    forms[words[0]] = forms[words[0]][0].upper() + forms[words[0]][1:]
    usual = _change_words(sentence, lambda word: forms[word])
    before, after = subwords.encode([sentence, usual]).lengths.tolist()
    return usual if after < before and len(usual) == len(sentence) else sentence


def restore_case(sentence: str, translation: SentenceTranslation) -> SentenceTranslation:
    """Return the translation of the usual form as that of the sentence: in capitals if the sentence is."""
    if translation.source == sentence:
        return translation
    hypotheses = translation.hypotheses
    if _are_in_capitals(_words_to_translate(sentence)):
        hypotheses = tuple(each._replace(text=_change_words(each.text, str.upper)) for each in hypotheses)
    return translation._replace(source=sentence, hypotheses=hypotheses)


def _words_to_translate(text: str) -> list[str]:
    return [word for stretch in split_at_runs(text)[::2] for word in _WORD.findall(stretch)]


def _are_in_capitals(words: list[str]) -> bool:
    return all(map(str.isupper, words)) and any(len(word) > 1 for word in words)


def _are_a_title(words: list[str]) -> bool:
    long = [word for word in words if len(word) > _SHORT]
    return len(words) >= _FEWEST_IN_TITLE and len(long) > 1 and all(word[0].isupper() for word in long)


def _usual_forms(words: list[str], subwords: Subwords, are_in_capitals: bool) -> dict[str, str]:
    """Return the usual form of each word. In a title, only words of one piece change: others may be names."""
    forms = [(word, form) for word in dict.fromkeys(words) for form in (word.lower(), word.capitalize(), word)]
    rows = subwords.encode([form for _, form in forms]).rows()
    ranked = sorted(zip(rows, forms, strict=True), key=lambda entry: (len(entry[0]), *map(int, entry[0])), reverse=True)
    best = {word: (row, form) for row, (word, form) in ranked}  # the best form of a word comes last
    one_piece = len(subwords.prefix) + 2  # with EOS
    return {word: form if are_in_capitals or len(row) == one_piece else word for word, (row, form) in best.items()}


def _change_words(text: str, change: Callable[[str], str]) -> str:
    """Change the words of a text that are not part of a verbatim string, such as an address."""
    parts = split_at_runs(text)
    parts[::2] = [_WORD.sub(lambda word: change(word[0]), stretch) for stretch in parts[::2]]
    return "".join(parts)
