"""The contenders, and those of them that can take part here."""

from __future__ import annotations

from importlib import import_module

from benchmarks.contenders.base import Contender

__all__ = ["FLOOR", "NAMES", "OURS", "PEERS", "load"]

OURS = "chatmemory"
FLOOR = "floor"

# Two of the same name are the same on different engines.
_CLASSES = [
    (FLOOR, "floor_sqlite.SqliteFloor"),
    (FLOOR, "floor_postgres.PostgresFloor"),
    (OURS, "chatmemory_conversation.ChatMemoryConversation"),
    ("chatmemory (by ID)", "chatmemory_by_id.ChatMemoryById"),
    ("OpenAI Agents SQLiteSession", "openai_agents_sqlite.OpenAiAgentsSqliteSession"),
    ("OpenAI Agents SQLAlchemySession", "openai_agents_sqlalchemy.OpenAiAgentsSqlAlchemySession"),
    ("LangChain SQLChatMessageHistory", "langchain_sql.LangChainSql"),
    ("LangChain PostgresChatMessageHistory", "langchain_postgres_history.LangChainPostgres"),
    ("LangGraph checkpointer", "langgraph_sqlite.LangGraphSqlite"),
    ("LangGraph checkpointer", "langgraph_postgres.LangGraphPostgres"),
    ("LlamaIndex Memory", "llama_index_memory.LlamaIndexMemory"),
    ("django-ai-assistant", "django_ai_assistant_thread.DjangoAiAssistantThread"),
]
NAMES = list(dict.fromkeys(name for name, _ in _CLASSES))
PEERS = [name for name in NAMES if not name.startswith((FLOOR, OURS))]


def load(names: list[str], engine: str) -> tuple[list[tuple[str, type[Contender]]], dict[str, str]]:
    """Return the classes that run on an engine, and the reasons why others cannot, by name: a package is missing."""
    classes: list[tuple[str, type[Contender]]] = []
    missing: dict[str, str] = {}
    for name, path in _CLASSES:
        if name not in names:
            continue
        module, class_name = path.split(".")
        try:
            kind = getattr(import_module(f"benchmarks.contenders.{module}"), class_name)
        except ImportError as error:
            missing[name] = str(error)
            continue
        if engine in kind.engines:
            classes.append((name, kind))
    return classes, missing
