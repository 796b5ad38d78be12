"""Triage: rank translations for human review by flags for likely errors."""
