"""Decoding: beam search, sampling and scoring of targets, with torch or CTranslate2."""
