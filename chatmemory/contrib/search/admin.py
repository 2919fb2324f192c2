"""A line about the index on the page of a conversation. Django imports this module when a process starts."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.translation import gettext

from chatmemory.admin.display.memory_map import grouped
from chatmemory.contrib.search.models import Progress
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
