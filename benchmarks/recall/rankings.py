"""Searches in one conversation, of which each has its own order of messages."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from functools import partial

from chatmemory import AiMessage
from chatmemory.contrib.search.tokenizer import token_texts

__all__ = ["OURS", "Search", "postgresql", "rankings"]

Search = Callable[[str, int], list[int]]
"""Takes a query and the maximum number of hits, and returns the positions of messages, the best first."""

OURS = "chatmemory"


def rankings(dsn: str = "") -> dict[str, Callable[[list[str]], Search]]:
    """Return for each ranking what takes the texts of a conversation and returns its search.

    Args:
        dsn: a database of PostgreSQL, in which temporary tables are made; without it, its ranking is left out.
    """
    found: dict[str, Callable[[list[str]], Search]] = {
        OURS: ours,
        "all words, newest first": newest,
        "SQLite `bm25()`, unicode61": partial(fts5, "unicode61"),
        "SQLite `bm25()`, porter": partial(fts5, "porter unicode61"),
    }
    if dsn:
        found["PostgreSQL `ts_rank`, english"] = partial(postgresql, dsn)
    return found


def ours(texts: list[str]) -> Search:
    """Search as a project does, in a conversation of the database."""
    from chatmemory.contrib.search.indexing import index_all
    from chatmemory.models import Conversation

    conversation = Conversation.objects.create(window="messages", limit=len(texts))
    conversation.memory.add(*map(AiMessage, texts))
    index_all(conversation)
    return lambda query, limit: [hit.position for hit in conversation.search(query, order="relevance", limit=limit)]


def newest(texts: list[str]) -> Search:
    """Search for messages with all words, the newest first."""
    documents = [frozenset(token_texts(text)) for text in texts]

    def search(query: str, limit: int) -> list[int]:
        words = frozenset(token_texts(query))
        return [position for position in reversed(range(len(texts))) if words <= documents[position]][:limit]

    return search


def fts5(tokenizer: str, texts: list[str]) -> Search:
    """Search for any word with SQLite's full text, in the order of ``bm25()``."""
    database = sqlite3.connect(":memory:")
    database.execute(f"CREATE VIRTUAL TABLE message USING fts5(text, tokenize = '{tokenizer}')")
    database.executemany("INSERT INTO message (rowid, text) VALUES (?, ?)", enumerate(texts))

    def search(query: str, limit: int) -> list[int]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))
        statement = "SELECT rowid FROM message WHERE text MATCH ? ORDER BY bm25(message), rowid DESC LIMIT ?"
        return [position for (position,) in database.execute(statement, (words, limit))] if words else []

    return search


def postgresql(dsn: str, texts: list[str]) -> Search:
    """Search for any word with PostgreSQL's full text in English, in the order of ``ts_rank``."""
    import psycopg

    connection = psycopg.connect(dsn)
    connection.execute("CREATE TEMPORARY TABLE message (position integer, tokens tsvector)")
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO message VALUES (%s, to_tsvector('english', %s))", [*enumerate(texts)])

    def search(query: str, limit: int) -> list[int]:
        rows = connection.execute(
            "WITH asked AS (SELECT replace(plainto_tsquery('english', %s)::text, '&', '|')::tsquery AS words) "
            "SELECT position FROM message, asked WHERE tokens @@ words "
            "ORDER BY ts_rank(tokens, words) DESC, position DESC LIMIT %s",
            (query, limit),
        )
        return [position for (position,) in rows]

    return search
