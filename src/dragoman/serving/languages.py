"""Detection of a text's language, and language codes as clients write them."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from dragoman.serving.errors import InvalidRequestError


def match_language(code: str, known: Iterable[str]) -> str:
    """Return the known language code that a client means: EN is en, and de-DE is de; an unknown code as it is."""
    codes = {one.lower().replace("_", "-"): one for one in known}
    given = code.lower().replace("_", "-")
    return codes.get(given) or codes.get(given.partition("-")[0]) or code


def detect_languages(text: str) -> list[tuple[str, float]]:
    """Return the possible languages of a text with their probabilities, most probable first."""
    return [(str(code), float(probability)) for code, probability in _identifier().rank(text)]


@cache
def _identifier() -> Any:
    """Return the language identifier. The first call loads the identifier, in about 0.1 seconds."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        fix = "give the source language, or install 'dragoman[detect]' on the server"
        raise InvalidRequestError(f"language detection is not installed: {fix}") from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
