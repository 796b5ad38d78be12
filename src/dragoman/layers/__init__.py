"""What stands around attention in a Transformer layer: embedding, positions, residuals, feed-forward (section 3)."""
