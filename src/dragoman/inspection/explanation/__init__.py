"""The arithmetic of one attention head for one word, as a teacher would write it on a board, with real numbers."""

from dragoman.inspection.explanation.explaining import Explanation, as_json, explain

__all__ = ["Explanation", "as_json", "explain"]
