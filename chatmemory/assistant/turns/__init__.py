"""Turns: the right to speak in a conversation, which one holds at a time."""
