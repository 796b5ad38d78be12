"""Attention: score functions, masks, multi-head attention, and taps that record attention weights."""
