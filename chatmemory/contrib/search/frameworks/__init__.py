"""Recall for other frameworks, by their own protocols: a module for each."""
