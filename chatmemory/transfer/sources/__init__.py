"""The readers of other programs' files and tables."""
