"""Transformer, recurrent and convolutional sequence-to-sequence models behind one interface (seq2seq.py)."""
