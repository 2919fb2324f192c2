"""A process that summarises one conversation again and again, and what must hold after several of them."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["check_summaries", "compact_again_and_again"]

_LEASE = 1.0
"""The seconds after which others go on where one was killed."""

_PAUSE = 0.05
"""The seconds between looks where there is nothing to summarise: on SQLite each look takes the only lock."""

_LONGEST = 0.03
"""The most seconds that a text takes: additions come meanwhile."""

_CLEARING = 0.3
"""The part of the summaries that come when tool results have been cleared since they were planned."""


def compact_again_and_again(
    conversation: Any, name: str, count: int, chance: random.Random, log: Callable[..., None], stop: Path
) -> None:
    """Summarise at least ``count`` times, and until there is the file ``stop``. Each summary has a text of its own.

    While some of the summaries are written, all old tool results are cleared.
    """
    from chatmemory.core.exceptions import UnusableSummaryError
    from chatmemory.database.operations.compact import compact
    from tests.support.traffic import text_of

    number = 0
    while number < count or not stop.exists():
        number += 1
        text = f"{name} {number}"

        def write(messages: Sequence[Any], previous: str | None, text: str = text) -> str:
            log("wrote", text=text, of=[text_of(message) for message in messages], previous=previous)
            time.sleep(chance.random() * _LONGEST)
            if chance.random() < _CLEARING:
                conversation.memory.clear_tool_results(keep=0)
            return text

        try:
            done = next(compact(conversation, write, keep=chance.choice([0, 30, 60]), lease=_LEASE), None)
        except UnusableSummaryError as error:
            log("refused", text=text, error=str(error))
            continue
        if done is not None:
            log("applied", text=text, version=done[1].memory.version)
        time.sleep(chance.random() * _LONGEST if done else _PAUSE)


def check_summaries(conversation: Any, logs: dict[str, list[dict[str, Any]]]) -> int:
    """Each summary that was acknowledged is there, each goes on from the one before, and nothing is told twice or not.

    And no memory, now or when it was read, has a tool result whose call a summary has taken away.

    Args:
        conversation: of which nothing was rewritten, cleared or pinned.
        logs: of all processes.

    Returns:
        how many summaries were applied.
    """
    from chatmemory.core.summaries import summary_text
    from chatmemory.models import Origin
    from tests.support.traffic import without_calls

    records = [record for records in logs.values() for record in records]
    orphans = [record["without_calls"] for record in records if record["act"] == "read"]
    orphans.append(without_calls(conversation.memory.messages()))
    assert not any(orphans), f"results without their calls: {next(filter(None, orphans))}"
    wrote = {record["text"]: record for record in records if record["act"] == "wrote"}
    acknowledged = {record["text"] for record in records if record["act"] == "applied"}
    summaries = conversation.messages.filter(origin=Origin.SUMMARY).order_by("added_in", "position")
    texts = [summary_text(row.message) for row in summaries]
    assert len(texts) == len(set(texts)), "a summary is there twice"
    assert acknowledged <= set(texts), f"acknowledged, but not there: {acknowledged - set(texts)}"
    told: list[str] = []
    before = None
    for text in texts:
        assert wrote[text]["previous"] == before, f"{text} goes on from another than {before}: {wrote[text]}"
        told += wrote[text]["of"]
        before = text
    twice = {text for text, count in Counter(told).items() if count > 1}
    assert not twice, f"summarised twice: {twice}"
    conversation.refresh_from_db()
    history = conversation.messages.history()
    covered = set(history.filter(position__lt=conversation.compacted_to).values_list("text", flat=True))
    assert set(told) == covered, f"not told: {covered - set(told)}; told too early: {set(told) - covered}"
    left = history.evicted().filter(position__gte=conversation.compacted_to)
    assert not left.filter(eviction_reason="summarized").exists(), "a message left for a summary that is not there"
    return len(texts)
