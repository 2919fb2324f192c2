"""The capability of this app.

Every process of the project imports this module when it starts, so it imports the others when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.urls import URLPattern
from django.utils.translation import gettext as _

from chatmemory.capabilities import Capability, MessageField
from chatmemory.contrib.feedback.models import LONGEST_COMMENT, Feedback, Thumb
from chatmemory.core.json_text import require_storable
from chatmemory.database.connections import retry
from chatmemory.database.reading import ANSWERS, in_parts, pages
from chatmemory.models import Conversation, Message
from chatmemory.verification import Finding

if TYPE_CHECKING:
    from chatmemory.transfer.export import Line


class FeedbackCapability(Capability):
    """Feedback is erased with its message, its conversation or its user. Comments are text."""

    def erased(self, conversation: Conversation, positions: Collection[int]) -> None:
        _rows_of(conversation).filter(position__in=positions).delete()

    def anonymise(self, conversation: Conversation) -> None:
        _rows_of(conversation).update(user=None, comment="")

    def export_user(self, user: Any, database: str) -> Iterable[dict[str, Any]]:
        rows = Feedback.objects.using(database).filter(user=user).exclude(conversation__owner=user)
        for row in in_parts(rows.select_related("conversation")):
            yield {"conversation": row.conversation_id, **_record(row)}

    def erase_user(self, user: Any, database: str, *, how: str) -> None:
        rows = Feedback.objects.using(database).filter(user=user)
        if how == "erase":
            rows.delete()
        else:
            rows.update(user=None, comment="")

    def export(self, conversation: Conversation) -> Iterable[dict[str, Any]]:
        return (_record(row) for row in in_parts(_rows_of(conversation).select_related("conversation")))

    def restore(self, conversation: Conversation, line: Line) -> Callable[[], object]:
        position, value, comment = line.number("position"), line.text("value"), line.text("comment")
        if not 0 <= position < conversation.next_position:
            raise line.bad(f"position: expected one of this conversation, got {str(position)[:100]}")
        if value not in Thumb.values:
            raise line.bad(f"value: expected one of {', '.join(Thumb.values)}, got {value[:100]!r}")
        if len(comment) > LONGEST_COMMENT:
            raise line.bad(f"comment: expected at most {LONGEST_COMMENT} characters, got {len(comment)}")
        try:
            require_storable(comment, "comment")
        except ValueError as error:
            raise line.bad(str(error)) from error
        row = Feedback(
            conversation=conversation,
            position=position,
            # Another user of the same name, in another database, may be another person.
            user_id=conversation.owner_id if line.flag("by_owner") else None,
            value=value,
            comment=comment,
            created_at=line.moment("created_at"),
            updated_at=line.moment("updated_at"),
        )
        return partial(row.save, using=conversation._state.db, force_insert=True)

    def verify(self, conversations: QuerySet[Conversation], *, repair: bool) -> Iterable[Finding]:
        for page in pages(conversations):
            yield from _strays(page, conversations.db, repair)

    def routes(self) -> Sequence[URLPattern]:
        from chatmemory.contrib.feedback.rest import routes

        return routes

    def message_fields(self) -> Sequence[MessageField]:
        from chatmemory.contrib.feedback.rest import message_field

        return [message_field()]

    def admin_filters(self) -> Sequence[Any]:
        from chatmemory.contrib.feedback.admin import FeedbackFilter

        return [FeedbackFilter]

    def admin_notes(
        self, model_admin: Any, request: HttpRequest, conversation: Conversation, positions: Collection[int]
    ) -> Mapping[int, str]:
        from chatmemory.contrib.feedback.admin import notes

        with_text = model_admin.has_read_text_permission(request, conversation)
        return notes(_rows_of(conversation).filter(position__in=positions), with_text=with_text)

    def chat_scripts(self) -> Sequence[str]:
        return ["chatmemory_feedback/feedback.css", "chatmemory_feedback/feedback.js"]

    def chat_texts(self) -> Mapping[str, Any]:
        return {
            "feedback-up": str(Thumb.UP.label),
            "feedback-down": str(Thumb.DOWN.label),
            "feedback-comment": _("What was wrong? (optional)"),
            "feedback-edit": _("Comment"),
            "feedback-send": _("Send"),
            "feedback-cancel": _("Cancel"),
            "feedback-saved": _("Your feedback was saved."),
            "feedback-withdrawn": _("Your feedback was withdrawn."),
            "feedback-longest": str(LONGEST_COMMENT),
        }


def _rows_of(conversation: Conversation) -> QuerySet[Feedback]:
    return Feedback.objects.using(conversation._state.db).filter(conversation=conversation)


def _record(row: Feedback) -> dict[str, Any]:
    return {
        "position": row.position,
        "by_owner": row.user_id is not None and row.user_id == row.conversation.owner_id,
        "value": row.value,
        "comment": row.comment,
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
    }


def _strays(page: list[Conversation], database: str, repair: bool) -> Iterator[Finding]:
    """Yield feedback to messages that are not there, or are not answers."""
    answers = Message.objects.filter(ANSWERS, conversation=OuterRef("conversation"), position=OuterRef("position"))
    strays = Feedback.objects.using(database).filter(~Exists(answers), conversation__in=page)
    memory_ids = {conversation.pk: conversation.memory_id for conversation in page}

    def examine() -> list[Feedback]:
        with transaction.atomic(using=database):
            found = list(strays.order_by("pk"))
            if repair:
                strays.delete()
        return found

    for row in retry(database, examine):
        yield Finding(
            conversation=row.conversation_id,
            memory_id=memory_ids[row.conversation_id],
            what=f"feedback to message {row.position}",
            expected="an answer at this position",
            found="none",
            repaired=repair,
        )
