"""The arithmetic of one attention head for one word, step by step, with the model's own numbers."""

from dragoman.inspection.explanation.explain import Explanation, explain, explain_row, to_json
from dragoman.inspection.explanation.explanation_page import page

__all__ = ["Explanation", "explain", "explain_row", "page", "to_json"]
