"""Dragoman: train a Transformer on your own parallel text, ship it, and see what happens inside it."""

__version__ = "0.1.0"
