"""A bundle in the words of another engine: CTranslate2's file of weights, made from ours without torch."""
