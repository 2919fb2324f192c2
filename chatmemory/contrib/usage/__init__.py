"""The tokens and the seconds of the calls of a model, at each answer."""
