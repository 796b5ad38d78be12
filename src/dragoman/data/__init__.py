"""Training data: read, clean and prepare corpora, and read batches of token ids."""
