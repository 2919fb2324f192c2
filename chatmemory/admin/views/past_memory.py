"""The page "What the model saw": the memory at any message or version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.display.arrivals import last_position
from chatmemory.admin.display.bounded_rows import are_too_long, read_bounded, without_text
from chatmemory.admin.display.gauge import Gauge
from chatmemory.admin.display.json_layout import lay_out
from chatmemory.admin.display.message import UNREADABLE, unreadable
from chatmemory.admin.display.timeline import MOST_SHOWN, MemoryMap, memory_entries
from chatmemory.admin.views.base import conversation_or_404, conversation_page, record_read
from chatmemory.core.json_text import dumps
from chatmemory.core.numbers import whole_number
from chatmemory.database.operations.try_window import fit_rows
from chatmemory.database.prefix import fresh_rows, prefix_version_at
from chatmemory.formats import UnsupportedContentError
from chatmemory.formats.registry import message_format, message_formats
from chatmemory.models import MAX_LIMIT, Conversation, Message

__all__ = ["show"]

# Longer JSON is offered as a file: nobody copies it out of a box.
_MOST_JSON_CHARS = 100_000

_EXPORTED = _("Exported the memory at version {version} for {format}.")
_READ = _("Read the memory at version {version}.")


@dataclass(frozen=True, kw_only=True)
class JsonText:
    """A memory as the JSON of one format."""

    key: str

    name: str
    """The title of the format."""

    text: str = ""
    """The JSON; empty if it is too long to show, or the format cannot express the memory."""

    problem: str = ""
    """The reason why the format cannot express the memory; empty if it can."""


def show(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Return the page for ``?version=`` or after ``?message=`` (a position); by default for the memory now.

    With ``?download=`` and the name of a format return the memory as a file.
    """
    conversation = conversation_or_404(model_admin, request, object_id)
    version, problem = _asked(conversation, request)
    with_text = model_admin.has_read_text_permission(request, conversation)
    is_long = with_text and are_too_long(conversation.messages.in_memory_at(version))
    rows, over = _memory(conversation, version, with_text=with_text, is_long=is_long)
    # Worked out from all rows, so only for those who get to see the formats.
    fresh = fresh_rows(rows, version if over else prefix_version_at(conversation, version)) if with_text else []
    broken = unreadable(rows) if with_text and not is_long else []
    refused = {}
    wanted = request.GET.get("download")
    if wanted in message_formats() and not (broken or is_long):
        if not with_text:
            raise PermissionDenied
        try:
            file = _file(conversation, version, rows, fresh, wanted)
        except UnsupportedContentError as error:
            refused[wanted] = str(error)
        else:
            title = message_format(wanted).title
            record_read(request, conversation, what=format_lazy(_EXPORTED, version=version, format=title))
            return file
    if with_text:
        record_read(request, conversation, what=format_lazy(_READ, version=version))
    memory = MemoryMap.of((row.position, row.type, row.token_count) for row in rows)
    return conversation_page(
        model_admin,
        request,
        conversation,
        "past",
        _("What the model saw"),
        version=version,
        after=last_position(conversation, version),
        problem=problem,
        asked=request.GET.get("message", ""),
        entries=memory_entries(_to_show(conversation, rows, is_long), memory, with_text=with_text, version=version),
        left_out=max(0, len(rows) - MOST_SHOWN),
        count=len(rows),
        memory_tokens=sum(row.token_count for row in rows),
        over=over,
        lacks_evicted=version > 0 and _lacks_evicted(conversation, version),
        unreadable=broken,
        jsons=_jsons(rows, fresh, refused) if with_text and not (broken or is_long) else [],
        with_text=with_text,
    )


def _to_show(conversation: Conversation, rows: list[Message], is_long: bool) -> list[Message]:
    """Return the last rows; those of a memory that is too long are read again, with the beginnings of their texts."""
    last = rows[-MOST_SHOWN:]
    if not is_long:
        return last
    return read_bounded(conversation.messages.filter(pk__in=[row.pk for row in last]).order_by("memory_order"))


def _memory(conversation: Conversation, version: int, *, with_text: bool, is_long: bool) -> tuple[list[Message], int]:
    """Return the rows that the model got, and the number of retained messages that it did not get.

    The rows of a memory that is too long are without text, and all of them are returned.
    """
    is_now = version == conversation.version
    found = conversation.messages.retained() if is_now else conversation.messages.in_memory_at(version)
    rows = list(found.defer("native") if with_text and not is_long else without_text(found))
    if is_long or not (is_now and Gauge.of(conversation).is_over):
        return rows, 0
    try:
        fit = {row.pk for row in fit_rows(conversation).retained}
    except UNREADABLE:
        return rows, 0  # then the memory cannot be written in any format, and the page says why
    got = [row for row in rows if row.pk in fit]
    return got, len(rows) - len(got)


def _lacks_evicted(conversation: Conversation, version: int) -> bool:
    """Return whether messages that the model may have got were deleted when they were evicted."""
    return version < conversation.version and conversation.messages.count() < conversation.next_position


def _jsons(rows: list[Message], fresh: list[int], refused: dict[str, str]) -> list[JsonText]:
    """Return the JSON of each format.

    Args:
        rows: the memory.
        fresh: the indexes of the messages before which nothing has changed.
        refused: the formats known to be unable to express it, and why.
    """
    # A format adds about a hundred characters to each message.
    is_long = sum(100 + len(row.text) + len(row.payload or "") for row in rows) > _MOST_JSON_CHARS
    messages = [] if is_long else [row.message for row in rows]
    found = []
    for key, format in message_formats().items():
        text, problem = "", refused.get(key, "")
        if not (is_long or problem):
            try:
                text = lay_out(dumps(format.write_memory(messages, fresh)))
            except UnsupportedContentError as error:
                problem = str(error)
        found.append(JsonText(key=key, name=format.title, text=text, problem=problem))
    return found


def _file(conversation: Conversation, version: int, rows: list[Message], fresh: list[int], key: str) -> HttpResponse:
    text = dumps(message_format(key).write_memory([row.message for row in rows], fresh))
    headers = {
        "Content-Disposition": f'attachment; filename="conversation-{conversation.pk}-version-{version}-{key}.json"',
        "X-Content-Type-Options": "nosniff",
    }
    return HttpResponse(text, content_type="application/json", headers=headers)


def _asked(conversation: Conversation, request: HttpRequest) -> tuple[int, Any]:
    """Return the version that the address asks for, and what is wrong with the address; None if nothing is."""
    message, version = request.GET.get("message"), request.GET.get("version")
    if message:
        position = whole_number(message, most=MAX_LIMIT)
        rows = conversation.messages.filter(position=position) if position is not None else None
        added_in = rows.values_list("added_in", flat=True).first() if rows is not None else None
        if added_in is None:
            return conversation.version, _("There is no such message; this is the memory now.")
        return added_in, None
    if version:
        asked = whole_number(version, most=conversation.version)
        if asked is None:
            return conversation.version, _("There is no such version; this is the memory now.")
        return asked, None
    return conversation.version, None
