"""Thumbs up or down, and a comment, for each answer."""
