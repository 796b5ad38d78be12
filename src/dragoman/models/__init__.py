"""Transformer and recurrent sequence-to-sequence models behind one interface (seq2seq.py)."""
