"""Random Marian models for the tests of imports."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "parity"))  # for marian_packages.py
from marian_packages import ENGLISH, GERMAN, MarianFiles, Words, sentences


@pytest.fixture(scope="session")
def words() -> Words:
    """A joint vocabulary of two SentencePiece models."""
    return Words.made(sentences(ENGLISH, 300), sentences(GERMAN, 300), (60, 70))


@pytest.fixture(scope="session")
def files(words: Words) -> MarianFiles:
    return MarianFiles(words)
