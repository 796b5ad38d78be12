"""Transformer layers except attention: embeddings, positions, residual connections and feed-forward networks."""
