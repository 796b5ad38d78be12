"""Traces, alignments, heads, interventions and pictures: what a model did with a sentence, from its real numbers."""
