"""Word alignment: aligners, the Moses format, symmetrisation and the alignment error rate."""
