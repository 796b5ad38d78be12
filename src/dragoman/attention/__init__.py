"""Attention: scores, masks, the weighted mix of values, several heads, and the seam to look inside (section 3.2)."""
