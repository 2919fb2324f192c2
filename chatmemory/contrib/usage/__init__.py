"""The tokens, the seconds and the cost of each call of a model."""
