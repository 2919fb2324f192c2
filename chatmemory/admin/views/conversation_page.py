"""The page of a conversation: its memory, or everything said."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.display.gauge import Gauge
from chatmemory.admin.display.memory_map import MemoryMap
from chatmemory.admin.display.memory_view import MemoryView
from chatmemory.admin.display.strip import Strip
from chatmemory.admin.display.summary_cards import CompactionStatus
from chatmemory.admin.display.timeline import Timeline, place_to_go
from chatmemory.admin.display.window_words import bound_words, present_settings, way_words
from chatmemory.admin.views.staff_pages import record_read
from chatmemory.capabilities import filled, hooks
from chatmemory.formats.registry import message_format, one_for_one
from chatmemory.models import Conversation


def tools(model_admin: Any, request: HttpRequest, conversation: Conversation) -> dict[str, list[tuple[str, Any]]]:
    """Return the addresses and the words of the links that the admin allows this member of staff, by what they do."""

    def may(act: str) -> bool:
        return bool(getattr(model_admin, f"has_{act}_permission")(request, conversation))

    def links(*found: tuple[str, Any]) -> list[tuple[str, Any]]:
        site = model_admin.admin_site.name
        return [
            (reverse(f"admin:chatmemory_conversation_{name}", args=[conversation.pk], current_app=site), label)
            for name, label in found
        ]

    formats = [
        (f"export_{name}", _("Export for %(format)s") % {"format": message_format(name).title})
        for name in one_for_one()
    ]
    return {
        "looks": links(
            ("memory", _("What the model had")),
            ("window", _("Window")),
            *((page.name, page.label) for page in filled("admin_pages")),
            ("history", _("Admin log")),
        ),
        "exports": links(("export_jsonl", _("Export JSON lines")), *formats) if may("read_text") else [],
        "acts": [
            *(links(("clear_tool_results", _("Clear old tool results"))) if may("act") else []),
            *(links(("compact", _("Summarise now"))) if may("compact") else []),
            *(links(("clear", _("Clear memory"))) if may("act") else []),
        ],
        "erasures": links(("delete", _("Erase"))) if may("delete") else [],
    }


def redirect(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponseRedirect | None:
    """Return the redirect to the place that ``?go=`` asks for; None if it asks for none, or to those who may not."""
    if "go" not in request.GET:
        return None
    conversation = model_admin.get_object(request, object_id)
    if conversation is None or not model_admin.has_view_permission(request, conversation):
        return None
    place = place_to_go(conversation, request.GET["go"])
    return HttpResponseRedirect(f"{request.path}?position={place}#message-{place}")


def context(model_admin: Any, request: HttpRequest, conversation: Conversation) -> dict[str, Any]:
    """Return what the template ``change_form.html`` draws, and record that the reader got the words."""
    with_text = model_admin.has_read_text_permission(request, conversation)
    memory = MemoryMap.now(conversation)
    timeline = view = None
    if request.GET.get("view") == "history" or "position" in request.GET:
        timeline = Timeline.read(conversation, request.GET, memory, with_text=with_text)
        first, last, has_messages = timeline.start, timeline.last, bool(timeline.entries)
    else:
        view = MemoryView.read(conversation, memory, with_text=with_text)
        first, last, has_messages = view.first, view.last, view.has_messages
    strip = Strip.read(conversation, first, last, memory, with_text=with_text)
    # Bars have first words, also around a page whose own messages were not kept.
    if with_text and (has_messages or strip.bars):
        record_read(request, conversation)
    return {
        "title": str(conversation),
        "subtitle": None,
        "timeline": timeline,
        "memory": view,
        "has_markdown_toggle": with_text,
        "gauge": Gauge.of(conversation),
        "strip": strip,
        "bound_words": bound_words(conversation.window, conversation.limit),
        "way_words": way_words(present_settings(conversation)),
        "status": CompactionStatus.read(conversation, with_text=with_text),
        "tools": tools(model_admin, request, conversation),
        "sections": [show(model_admin, request, conversation, conversation.version) for show in hooks("admin_section")],
        "may_pin": model_admin.has_act_permission(request, conversation),
    }
