"""What the pages of a conversation say: how far it is indexed, and what the model got as quotations.

Django imports this module when a process starts.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext

from chatmemory.admin.display.memory_map import MemoryMap, grouped
from chatmemory.contrib.search.models import Progress
from chatmemory.database.reading import rows_of
from chatmemory.models import Conversation


def index_section(conversation: Conversation) -> str:
    """Return how far a conversation is indexed; nothing if no messages are missing."""
    from chatmemory.contrib.search.checking import gap

    progress = Progress.objects.using(conversation._state.db).filter(conversation=conversation).first()
    if not gap(conversation, progress):
        return ""
    done = 0 if progress is None else progress.indexed_to
    said = gettext("Search index: %(done)s of %(count)s messages. To index the others, run chatmemory_index.")
    numbers = {"done": grouped(done), "count": grouped(conversation.next_position)}
    return format_html('<p class="chatmemory-intro">{}</p>', said % numbers)


def quoted_section(model_admin: Any, request: HttpRequest, conversation: Conversation, version: int) -> str:
    """Return the messages that the model got as quotations at a past version; nothing if there are none."""
    from chatmemory.admin.display.passages import position_ranges, read_bounded
    from chatmemory.admin.display.timeline import history_entries
    from chatmemory.contrib.search.quoted import quoted_at

    positions = quoted_at(conversation, version)
    if not positions:
        return ""
    with_text = model_admin.has_read_text_permission(request, conversation)
    there = rows_of(conversation).filter(position__in=positions).order_by("position")
    rows = read_bounded(there, with_text=with_text)
    found = [row.position for row in rows]
    content = {
        "positions": position_ranges(found),
        "entries": history_entries(conversation, rows, MemoryMap.of(()), with_text=with_text),
        "gone": position_ranges({*positions} - {*found}),
        "timeline_address": reverse(
            "admin:chatmemory_conversation_change", args=[conversation.pk], current_app=model_admin.admin_site.name
        ),
    }
    return render_to_string("admin/chatmemory_search/quoted.html", content, request)
