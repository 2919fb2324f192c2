"""LangGraph's checkpoints in the database: the app ``"chatmemory.contrib.langgraph"``, see :mod:`.saver`."""
