"""The formats of other programs that are imported."""
