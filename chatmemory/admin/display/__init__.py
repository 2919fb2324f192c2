"""The objects that the templates draw."""
