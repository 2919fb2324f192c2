"""The least that a database can do for a turn: its raw driver, by hand. No ORM, no objects of messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.contenders.base import SyncContender
from benchmarks.texts import PER_MESSAGE, count_tokens, message_text, token_counts

__all__ = ["Floor"]

# A counter of all that was ever said makes eviction one statement under both windows: a message is out when more than
# the limit was said from it on.
_TABLES = """
CREATE TABLE floor_conversation (
    id bigint PRIMARY KEY,
    version integer NOT NULL,
    said bigint NOT NULL
);
CREATE TABLE floor_message (
    id {key},
    conversation_id bigint NOT NULL REFERENCES floor_conversation (id),
    version integer NOT NULL,
    type varchar(32) NOT NULL,
    text text NOT NULL,
    said_before bigint NOT NULL,
    evicted_in integer NULL
);
CREATE INDEX floor_window ON floor_message (conversation_id, evicted_in, said_before);
INSERT INTO floor_conversation (id, version, said) VALUES (1, 0, 0)
"""
_COLUMNS = "conversation_id, version, type, text, said_before, evicted_in"
_LOCK = "UPDATE floor_conversation SET version = version + 1, said = said + {0} WHERE id = 1 RETURNING version, said"
_INSERT = f"INSERT INTO floor_message ({_COLUMNS}) VALUES ({{0}}, {{0}}, {{0}}, {{0}}, {{0}}, {{0}})"
_EVICT = (
    "UPDATE floor_message SET evicted_in = {0} WHERE conversation_id = 1 AND evicted_in IS NULL AND said_before < {0}"
)
_READ = (
    "SELECT type, text FROM floor_message WHERE conversation_id = 1 AND evicted_in IS NULL "
    "ORDER BY evicted_in, said_before"
)


class Floor(SyncContender):
    """The common part of both drivers."""

    largest_history = 1_000_000
    columns = _COLUMNS
    read = _READ

    def __init__(self, *given: Any, mark: str, key: str) -> None:
        """
        Args:
            given: the place and the window.
            mark: how the driver marks a parameter.
            key: the type of a primary key that the database counts.
        """
        super().__init__(*given)
        self.lock, self.insert, self.evict = (statement.format(mark) for statement in (_LOCK, _INSERT, _EVICT))
        self.tables = _TABLES.format(key=key).split(";")
        self.costs: dict[str, int] = {}

    def prepare(self, user_text: str, ai_text: str) -> None:
        # Counting tokens is no work of the database.
        self.costs = {text: self.cost(count_tokens(text)) for text in (user_text, ai_text)}

    def cost(self, tokens: int) -> int:
        """Return the cost of a message with ``tokens`` tokens in the window."""
        return tokens + PER_MESSAGE if self.window.kind == "tokens" else 1

    def rows(self, history: int) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the messages after ``history`` adds."""
        costs = [self.cost(tokens) for tokens in token_counts(history)]
        pushed = self.window.evicted_by(costs)
        said = 0
        for position, cost in enumerate(costs):
            evicted_in = pushed[position] + 1 if position < len(pushed) else None
            yield 1, position + 1, "AI" if position % 2 else "USER", message_text(position), said, evicted_in
            said += cost

    def counters(self, history: int) -> str:
        """Return the statement that sets the conversation's counters after ``history`` adds."""
        said = sum(self.cost(tokens) for tokens in token_counts(history))
        return f"UPDATE floor_conversation SET version = {history}, said = {said}"

    def texts(self, window: list[tuple[str, str]]) -> list[str]:
        return [text for _type, text in window]
