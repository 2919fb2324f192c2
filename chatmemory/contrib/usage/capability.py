"""The capability of this app, and the receiver that writes its rows.

Every process of the project imports this module when it starts, so it imports the others when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.utils.translation import gettext as _

from chatmemory.capabilities import Capability, MessageField
from chatmemory.contrib.usage.models import COUNTS, LONGEST_NAME, Usage, rows_of
from chatmemory.core.json_text import with_replacements
from chatmemory.database.connections import retry
from chatmemory.database.reading import in_parts
from chatmemory.models import Conversation, Message
from chatmemory.signals import answer_stored

if TYPE_CHECKING:
    from chatmemory.transfer.export import Line


class UsageCapability(Capability):
    """What a call used is erased and exported with its answer. It has no text, so anonymising keeps it."""

    def erased(self, conversation: Conversation, positions: Collection[int]) -> None:
        rows_of(conversation).filter(position__in=positions).delete()

    def export(self, conversation: Conversation) -> Iterable[dict[str, Any]]:
        for row in in_parts(rows_of(conversation)):
            counts = {name: getattr(row, name) for name in COUNTS}
            yield {
                "position": row.position,
                "model": row.model,
                **counts,
                "seconds": row.seconds,
                "created_at": row.created_at.isoformat(),
            }

    def restore(self, conversation: Conversation, line: Line) -> Callable[[], object]:
        position, model = line.number("position"), line.text("model")
        counts = {name: line.number(name, null=True) for name in COUNTS}
        if not 0 <= position < conversation.next_position:
            raise line.bad(f"position: expected one of this conversation, got {str(position)[:100]}")
        if not 0 < len(model) <= LONGEST_NAME:
            raise line.bad(f"model: expected 1 to {LONGEST_NAME} characters, got {len(model)}")
        for name, count in counts.items():
            if count is not None and count < 0:
                raise line.bad(f"{name}: expected at least 0, got {count}")
        row = Usage(
            conversation=conversation,
            position=position,
            model=model,
            **counts,
            seconds=line.take("seconds", float, "a number", null=True),
            created_at=line.moment("created_at"),
        )
        return partial(row.save, using=conversation._state.db, force_insert=True)

    def message_fields(self) -> Sequence[MessageField]:
        from chatmemory.contrib.usage.rest import message_field

        return [message_field()]

    def admin_notes(
        self, model_admin: Any, request: HttpRequest, conversation: Conversation, positions: Collection[int]
    ) -> Mapping[int, str]:
        from chatmemory.contrib.usage.admin import note

        return {row.position: note(row) for row in rows_of(conversation).filter(position__in=positions)}

    def chat_scripts(self) -> Sequence[str]:
        return ["chatmemory_usage/usage.css", "chatmemory_usage/usage.js"]

    def chat_texts(self) -> Mapping[str, Any]:
        return {"usage-seconds": _("%(seconds)s s"), "usage-tokens": _("%(input)s + %(output)s tokens")}


def connect_receiver() -> None:
    """Write a row after each answer that an assistant stores."""
    answer_stored.connect(_write, sender=Conversation, dispatch_uid="chatmemory.contrib.usage")


def _write(
    conversation: Conversation, message: Message, usage: Any, model: str, seconds: float | None, **kwargs: Any
) -> None:
    row = Usage(
        conversation=conversation,
        position=message.position,
        model=with_replacements(model)[:LONGEST_NAME],
        input_tokens=usage and usage.input_tokens,
        output_tokens=usage and usage.output_tokens,
        cache_read_tokens=usage and usage.cached_input_tokens,
        reasoning_tokens=usage and usage.reasoning_tokens,
        seconds=seconds,
    )
    database = conversation._state.db or "default"
    retry(database, partial(row.save, using=database, force_insert=True))
