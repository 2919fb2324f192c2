"""Adapters to other frameworks, a folder or a file each. None is imported unless it is used."""
