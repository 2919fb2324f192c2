"""Adapters to other frameworks, one folder each. None is imported unless it is used."""
