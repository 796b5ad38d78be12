"""Sequence-to-sequence models behind one interface (seq2seq.py), in several families."""
