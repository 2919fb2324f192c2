"""The app ``"chatmemory.contrib.langgraph"``: LangGraph's checkpoints in the database, see ``saver``."""
