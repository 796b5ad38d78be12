"""Evaluation of translations: metrics with confidence intervals, reports, and log-probabilities of given targets."""
