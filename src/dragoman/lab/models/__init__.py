"""Models on the road to the Transformer, for the experiments of the lab alone: trained and tapped, never exported."""
