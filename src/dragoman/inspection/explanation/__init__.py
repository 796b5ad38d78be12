"""The arithmetic of one attention head for one word, step by step, with the model's own numbers."""

from dragoman.inspection.explanation.explain import Explanation, explain, to_json

__all__ = ["Explanation", "explain", "to_json"]
