"""What must hold after traffic: nothing lost, nothing twice, and all as if one process had done it in order."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from chatmemory import messages_from_json
from chatmemory.core.entries import Entry, EvictionReason
from chatmemory.core.eviction import Retained
from chatmemory.core.window import WindowKind
from chatmemory.database.stored_windows import window_of
from chatmemory.models import Conversation, Message
from tests.database.test_conversations import check_invariants
from tests.support.traffic import text_of

__all__ = ["check_history", "check_order", "read_logs"]


def read_logs(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The records of each process, by the name of its file."""
    logs = {}
    for path in sorted(folder.glob("*.jsonl")):
        whole, _, _broken = path.read_text().rpartition("\n")  # a line that was cut off was never acknowledged
        logs[path.stem] = [json.loads(line) for line in whole.splitlines()]
    return logs


def check_history(conversation: Conversation, logs: dict[str, list[dict[str, Any]]]) -> int:
    """What was acknowledged is there once, where it was said to be; what was not is whole or absent.

    Returns:
        how many messages were acknowledged.
    """
    check_invariants(conversation)
    rows = list(conversation.messages.history())
    places = {row.text: row.position for row in rows}
    assert len(places) == len(rows), "something is there twice"
    acknowledged = 0
    accounted: set[str] = set()
    for records in logs.values():
        done = {tuple(record["said"]) for record in records if record["act"] == "done"}
        for record in records:
            if record["act"] == "done":
                found = [places.get(text) for text in record["said"]]
                assert found == record["positions"], f"acknowledged, but at {found}: {record}"
                acknowledged += len(record["said"])
                accounted.update(record["said"])
            elif record["act"] == "asked" and tuple(record["said"]) not in done:
                there = [places[text] for text in record["said"] if text in places]
                assert len(there) in (0, len(record["said"])), f"half of a batch is there: {record}"
                assert all(now == then + 1 for then, now in pairwise(there)), f"a batch is scattered: {record}"
                accounted.update(record["said"])
    assert accounted >= places.keys(), f"something is there that nobody said: {places.keys() - accounted}"
    return acknowledged


def check_order(conversation: Conversation, start: Conversation, logs: dict[str, list[dict[str, Any]]]) -> int:
    """Do all again in the order of versions, in memory, and compare what left, when and why, and every snapshot read.

    Args:
        conversation: as it is now.
        start: as it was before.
        logs: with one ``meddle`` process at most, which nobody killed.

    Returns:
        how many snapshots were compared.
    """
    replay = _Replay(conversation, start)
    meddled: dict[int, list[dict[str, Any]]] = {}
    for record in (record for records in logs.values() for record in records):
        if record["act"] in ("set", "clear", "window"):
            meddled.setdefault(record["version"], []).append(record)
    conversation.refresh_from_db()
    for version in range(conversation.version + 1):
        records = meddled.get(version, [])
        # What evicts, or sets, made the version; the others came after it.
        made = [r for r in records if r["act"] == "set" or r["evicted"]]
        assert len(made) <= 1, f"two changes have made the same version: {made}"
        if made:
            replay.meddle(version, made[0])
        else:
            replay.add(version)
        for record in records:
            if record not in made:
                replay.meddle(version, record)
        replay.seen.add(tuple(text_of(entry.message) for entry in replay.memory))
    stored = {row.position: (row.evicted_in, row.eviction_reason) for row in conversation.messages.evicted()}
    differing = sorted(stored.items() ^ replay.evicted.items())[:10]
    assert not differing, f"what left, in which version and why, is another than in order: {differing}"
    snapshots = [tuple(r["texts"]) for records in logs.values() for r in records if r["act"] == "read"]
    strange = [texts for texts in snapshots if texts not in replay.seen]
    assert not strange, f"{len(strange)} of {len(snapshots)} reads saw no memory that ever was: {strange[0]}"
    return len(snapshots)


class _Replay:
    def __init__(self, conversation: Conversation, start: Conversation) -> None:
        self.window = window_of(start)
        self.memory: list[Entry] = []
        self.evicted: dict[int, tuple[int, str]] = {}
        self.seen: set[tuple[str, ...]] = set()
        self.added: dict[int, list[Message]] = {}
        for row in conversation.messages.order_by("position"):
            self.added.setdefault(row.added_in, []).append(row)

    def add(self, version: int) -> None:
        retained = Retained.fit(self.memory, self.window)
        for row in self.added.get(version, []):
            retained.add(self._entry(row))
        self._keep(version, retained)

    def meddle(self, version: int, record: dict[str, Any]) -> None:
        if record["act"] == "clear":
            for entry in self.memory:
                self._leave(version, entry, EvictionReason.CLEARED)
            self.memory = []
        elif record["act"] == "set":
            new = {text_of(row.message): self._entry(row) for row in self.added.get(version, [])}
            old = {text_of(entry.message): entry for entry in self.memory}
            texts = [text_of(message) for message in messages_from_json(record["given"])]
            for text in old.keys() - set(texts):
                self._leave(version, old[text], EvictionReason.REWRITTEN)
            self.memory = [old.get(text) or new[text] for text in texts]
            self._keep(version, Retained.fit(self.memory, self.window))
        else:
            self.window = replace(self.window, kind=WindowKind(record["window"]), limit=record["limit"])
            self.memory = [self._entry(entry.row) for entry in self.memory]
            self._keep(version, Retained.fit(self.memory, self.window))

    def _entry(self, row: Message) -> Entry:
        return Entry(row.message, row.token_count if self.window.kind is WindowKind.TOKENS else 1, row)

    def _keep(self, version: int, retained: Any) -> None:
        for entry, reason in retained.evicted:
            self._leave(version, entry, reason)
        self.memory = retained.entries()

    def _leave(self, version: int, entry: Entry, reason: EvictionReason) -> None:
        self.evicted[entry.row.position] = (version, reason.value)
