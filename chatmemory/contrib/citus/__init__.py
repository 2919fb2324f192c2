"""Conversations in a database that Citus distributes: ``"chatmemory.contrib.citus"`` in ``INSTALLED_APPS``."""
