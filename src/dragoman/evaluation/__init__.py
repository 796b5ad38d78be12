"""Metrics, significance and reports: what a number is worth."""
