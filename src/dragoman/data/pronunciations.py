"""The pronunciations of CMUdict as pairs of letters and phonemes, and a split of its words into three parts."""

import hashlib
import re
from collections.abc import Iterable
from typing import Final

_ENTRY: Final = re.compile(r"(?P<word>[a-z']*[a-z][a-z']*)(?:\(\d+\))?\s+(?P<phonemes>[A-Z][A-Z0-9 ]*?)\s*(?:#.*)?")
"""A line of CMUdict: a word of letters and apostrophes, the number of a further pronunciation, phonemes, a comment."""

_STRESS: Final = re.compile(r"\d")


def read_pronunciations(lines: Iterable[str]) -> dict[str, list[str]]:
    """Return the different pronunciations of each word, in the order of the dictionary.

    Stress is left out, which leaves 39 phonemes, as in the literature. Words with digits, dots or hyphens are left out.
    """
    words: dict[str, list[str]] = {}
    for line in lines:
        if entry := _ENTRY.fullmatch(line.strip()):
            phonemes = _STRESS.sub("", entry["phonemes"])
            known = words.setdefault(entry["word"], [])
            if phonemes not in known:
                known.append(phonemes)
    if not words:
        raise ValueError("no line is an entry such as `abbey AE1 B IY0`: give the file cmudict.dict of CMUdict")
    return words


def split_words(words: Iterable[str], num_dev: int, num_test: int) -> tuple[list[str], list[str], list[str]]:
    """Return the words of the training, dev and test parts.

    The order of the SHA-256 of the words decides, so that a word stays in its part if the dictionary grows a little.
    """
    shuffled = sorted(words, key=lambda word: hashlib.sha256(word.encode()).digest())
    if len(shuffled) <= num_dev + num_test:
        needed = f"{num_dev + num_test:,} are needed for the dev and test parts alone"
        raise ValueError(f"the dictionary has {len(shuffled):,} words, and {needed}: give the whole dictionary")
    first_dev, first_train = num_test, num_test + num_dev
    return shuffled[first_train:], shuffled[first_dev:first_train], shuffled[:num_test]


def spell(word: str) -> str:
    """Return the letters of a word, separated by spaces."""
    return " ".join(word)


def pad_references(rows: Iterable[list[str]]) -> list[list[str]]:
    """Return as many lists of references as the longest row has; where a row has no more, its first one is repeated."""
    known = list(rows)
    most = max(map(len, known))
    return [[row[number] if number < len(row) else row[0] for row in known] for number in range(most)]
