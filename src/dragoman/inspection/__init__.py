"""Inspection of a model on a sentence: traces, heads, interventions, explanations and plots."""
