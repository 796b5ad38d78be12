"""From scores for the next token to whole targets: search, sampling, scoring (section 6.1)."""
