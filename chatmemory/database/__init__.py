"""Memories in the database: what reads and changes the rows of ``chatmemory.models``."""
