"""Memories in the database: the code that reads and changes the rows of ``chatmemory.models``."""
