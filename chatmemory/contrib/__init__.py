"""Adapters to other frameworks, one module each: nothing of them is imported unless it is used."""
