"""The sample conversations, read from ``samples/`` and added message by message."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from chatmemory import ChatMessage, messages_from_json
from chatmemory.models import Conversation
from demo_project.chat.summarizer import summarize

__all__ = ["Sample", "load_sample", "missing_samples", "read_samples"]

_FOLDER = Path(__file__).resolve().parent / "samples"
_SINCE = timedelta(days=13)
"""Age of the first messages, so that the admin's charts have something to show."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One file of ``samples/``."""

    memory_id: str

    settings: dict[str, Any]
    """Other fields of the conversation."""

    messages: list[ChatMessage]

    last_said: timedelta
    """Age of the last message."""


def read_samples() -> list[Sample]:
    """Return every sample, in the order of the file names."""
    samples = []
    for days, path in enumerate(sorted(_FOLDER.glob("*.json"))):
        fields = json.loads(path.read_text(encoding="utf-8"))
        messages = messages_from_json(json.dumps(fields.pop("messages")))
        memory_id, last_said = fields.pop("memory_id"), timedelta(days=days)
        samples.append(Sample(memory_id=memory_id, settings=fields, messages=messages, last_said=last_said))
    return samples


def missing_samples(owner: User) -> list[Sample]:
    """Return the samples that ``owner`` does not have."""
    there = set(Conversation.objects.owned_by(owner).values_list("memory_id", flat=True))
    return [sample for sample in read_samples() if sample.memory_id not in there]


# All or nothing, so that every stored conversation is complete, however the previous run ended.
@transaction.atomic
def load_sample(sample: Sample, owner: User, said: Callable[[], None]) -> None:
    """Create the conversation of ``sample`` for ``owner``; ``said`` is called after each message."""
    conversation = Conversation.objects.create(owner=owner, memory_id=sample.memory_id, **sample.settings)
    for message in sample.messages:
        # One version per message: the evictions are those of a real chat, not of an import.
        conversation.memory.add(message)
        said()
    if conversation.compact_at is not None:
        _summarise(conversation)
    _date(conversation, sample.last_said)


def _summarise(conversation: Conversation) -> None:
    """Put a summary in the place of older turns. The project's function needs no model, so a transaction may wait."""
    plan = conversation.memory.plan_compaction()
    if plan is not None:
        conversation.memory.apply_compaction(plan, summarize(plan.messages, plan.previous))


def _date(conversation: Conversation, last_said: timedelta) -> None:
    """Date the messages as if they had been said over some days, and evicted as later ones came."""
    rows = list(conversation.messages.all())
    versions = sorted({row.added_in for row in rows})
    first = timezone.now() - _SINCE
    step = (_SINCE - last_said) / len(versions)
    said_at = {version: first + number * step for number, version in enumerate(versions, start=1)}
    for row in rows:
        row.created_at = said_at[row.added_in]
        row.evicted_at = said_at.get(row.evicted_in)
    conversation.messages.bulk_update(rows, ["created_at", "evicted_at"], batch_size=100)
    Conversation.objects.filter(pk=conversation.pk).update(created_at=first, updated_at=rows[-1].created_at)
