"""Names of languages, and which one a text is in."""

from functools import cache
from typing import Any, Final

from dragoman.serving.refusal import MistakenError

NAMES: Final = {
    "ar": "Arabic",
    "bg": "Bulgarian",
    "bn": "Bengali",
    "ca": "Catalan",
    "cs": "Czech",
    "cy": "Welsh",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "eo": "Esperanto",
    "es": "Spanish",
    "et": "Estonian",
    "eu": "Basque",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "ga": "Irish",
    "gl": "Galician",
    "he": "Hebrew",
    "hi": "Hindi",
    "hr": "Croatian",
    "hu": "Hungarian",
    "hy": "Armenian",
    "id": "Indonesian",
    "is": "Icelandic",
    "it": "Italian",
    "ja": "Japanese",
    "ka": "Georgian",
    "kk": "Kazakh",
    "ko": "Korean",
    "la": "Latin",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "mk": "Macedonian",
    "mn": "Mongolian",
    "ms": "Malay",
    "mt": "Maltese",
    "nb": "Norwegian",
    "nl": "Dutch",
    "nn": "Nynorsk",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sq": "Albanian",
    "sr": "Serbian",
    "sv": "Swedish",
    "sw": "Swahili",
    "ta": "Tamil",
    "te": "Telugu",
    "th": "Thai",
    "tl": "Tagalog",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "ur": "Urdu",
    "uz": "Uzbek",
    "vi": "Vietnamese",
    "zh": "Chinese",
}


def name_of(code: str) -> str:
    """In English; the code itself where no name is known."""
    return NAMES.get(code.replace("_", "-").partition("-")[0].lower(), code)


def detected(text: str) -> list[tuple[str, float]]:
    """The languages it may be in, with their probabilities, likeliest first."""
    return [(str(code), float(probability)) for code, probability in _identifier().rank(text)]


@cache
def _identifier() -> Any:
    """Loaded at its first use, in a tenth of a second."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        wrong = "languages cannot be found out here: give the source, or install 'dragoman[detect]'"
        raise MistakenError(wrong) from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
