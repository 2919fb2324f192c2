"""The page of a conversation, and that of what the model had when it answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.display.memory_map import Gauge, MemoryMap
from chatmemory.admin.display.memory_view import MemoryView
from chatmemory.admin.display.message import unreadable
from chatmemory.admin.display.past_memory import (
    AskedMemory,
    PastRows,
    answers_around,
    asked_version,
    json_texts,
    shown_difference,
    shown_memory,
)
from chatmemory.admin.display.strip import Strip
from chatmemory.admin.display.summary_cards import CompactionStatus
from chatmemory.admin.display.timeline import Timeline, TimelineEntry, count_lost, place_to_go
from chatmemory.admin.display.window_words import bound_words, present_settings, way_words
from chatmemory.admin.views.staff_pages import conversation_or_404, conversation_page, record_read
from chatmemory.capabilities import filled, hooks
from chatmemory.conf import setting
from chatmemory.core.json_text import dumps
from chatmemory.core.messages import ChatMessageType
from chatmemory.database.reading import display_titles
from chatmemory.formats import UnsupportedContentError
from chatmemory.formats.registry import message_format, message_formats, one_for_one
from chatmemory.models import Conversation, Origin


def tools(model_admin: Any, request: HttpRequest, conversation: Conversation) -> dict[str, list[tuple[str, Any]]]:
    """Return the addresses and the words of the links that the admin allows this member of staff, by what they do.

    Links to pages on which nothing could be done are left out.
    """

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
        for name in (one_for_one() if conversation.next_position else ())
    ]
    summarizes = setting("SUMMARIZER") is not None and bool(conversation.next_position)
    return {
        "looks": links(
            *([("memory", _("What the model had"))] if conversation.next_position else []), ("window", _("Window"))
        ),
        "pages": links(
            *((page.name, page.label) for page in filled("admin_pages") if page.label),
            ("history", _("Admin log")),
        ),
        "exports": links(("export_jsonl", _("Export JSON lines")), *formats) if may("read_text") else [],
        "acts": [
            *(
                links(("clear_tool_results", _("Clear old tool results")))
                if may("act") and _has_results_to_clear(conversation)
                else []
            ),
            *(links(("compact", _("Summarise now"))) if summarizes and may("compact") else []),
            *(links(("clear", _("Clear memory"))) if conversation.retained_count and may("act") else []),
        ],
        "erasures": links(("delete", _("Erase"))) if may("delete") else [],
    }


def _name(conversation: Conversation, *, with_text: bool) -> str:
    """Return the title of a conversation; without one, its first words."""
    names = display_titles([conversation]) if with_text else {}
    return names.get(conversation.pk, str(conversation))


def _has_results_to_clear(conversation: Conversation) -> bool:
    """Return whether the memory has tool results of a turn before the last one."""
    rows = conversation.messages.retained()
    asked = rows.filter(type=ChatMessageType.USER.value).order_by("-memory_order").values("memory_order")[:1]
    results = rows.filter(type=ChatMessageType.TOOL_EXECUTION_RESULT.value, memory_order__lt=Subquery(asked))
    return bool(results.exclude(origin=Origin.CLEARED).exists())


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
    lost = count_lost(conversation, memory)
    timeline = view = None
    if request.GET.get("view") == "history" or "position" in request.GET:
        timeline = Timeline.read(conversation, request.GET, memory, with_text=with_text)
        first, last, has_messages = timeline.start, timeline.last, bool(timeline.entries)
    else:
        view = MemoryView.read(conversation, memory, lost, with_text=with_text)
        first, last, has_messages = view.first, view.last, view.has_messages
    _add_notes(model_admin, request, conversation, _shown_in(timeline, view))
    strip = Strip.read(conversation, first, last, memory, with_text=with_text)
    # Bars have first words, also around a page whose own messages were not kept.
    if with_text and (has_messages or strip.bars):
        record_read(request, conversation)
    return {
        "title": str(conversation),
        "name": _name(conversation, with_text=with_text),
        "subtitle": None,
        "timeline": timeline,
        "memory": view,
        "evicted_count": lost,
        "forked_from": _forked_from(model_admin, request, conversation),
        "has_markdown_toggle": with_text and has_messages,
        "gauge": Gauge.of(conversation),
        "strip": strip,
        "bound_words": bound_words(conversation.window, conversation.limit),
        "way_words": way_words(present_settings(conversation)),
        "status": CompactionStatus.read(conversation, with_text=with_text),
        "tools": tools(model_admin, request, conversation),
        "sections": [show(model_admin, request, conversation, conversation.version) for show in hooks("admin_section")],
        "may_pin": model_admin.has_act_permission(request, conversation),
    }


def _forked_from(model_admin: Any, request: HttpRequest, conversation: Conversation) -> Conversation | None:
    """Return the conversation of which this one is a copy; None if it was erased or is not for this reader."""
    if conversation.forked_from is None:
        return None
    found: Conversation | None = model_admin.get_queryset(request).filter(pk=conversation.forked_from).first()
    return found if found is not None and model_admin.has_view_permission(request, found) else None


def _shown_in(timeline: Timeline | None, view: MemoryView | None) -> Iterator[TimelineEntry]:
    """Yield the entries of a page: those of the timeline, or of the memory and of what left it last."""
    if timeline is not None:
        yield from timeline.entries
    if view is not None:
        yield from chain(view.always_first, view.pinned, view.others)
        for group in view.evicted.groups if view.evicted else ():
            yield from group.entries


def _add_notes(
    model_admin: Any, request: HttpRequest, conversation: Conversation, entries: Iterable[TimelineEntry]
) -> None:
    """Add to the messages on a page what capabilities show below them."""
    found = hooks("admin_notes")
    messages = [entry.message for entry in entries] if found else []
    if not messages:
        return
    for notes_of in found:
        notes = notes_of(model_admin, request, conversation, {message.row.position for message in messages})
        for message in messages:
            if message.row.position in notes:
                message.notes.append(notes[message.row.position])


_EXPORTED = _("Exported the memory at version {version} for {format}.")
_EXPORTED_BEFORE = _("Exported what the model had when it wrote message {position}, for {format}.")
_READ = _("Read the memory at version {version}.")
_READ_BEFORE = _("Read what the model had when it wrote message {position}.")


def show_past_memory(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Return the page before ``?answer=``, after ``?message=`` or for ``?version=``; by default for the memory now.

    With ``?against=`` and a version also what differs, and with ``?download=`` and the name of a format the memory as
    a file.
    """
    conversation = conversation_or_404(model_admin, request, object_id)
    asked = AskedMemory.of(conversation, request.GET)
    with_text = model_admin.has_read_text_permission(request, conversation)
    past = PastRows.read(asked, with_text=with_text)
    # Worked out from all rows, so only for those who get to see the formats.
    fresh = past.fresh() if with_text else []
    broken = unreadable(past.rows) if with_text and not past.is_long else []
    refused = {}
    wanted = request.GET.get("download")
    if wanted in message_formats() and not (broken or past.is_long):
        if not with_text:
            raise PermissionDenied
        try:
            file = _file(past, fresh, wanted)
        except UnsupportedContentError as error:
            refused[wanted] = str(error)
        else:
            title = message_format(wanted).title
            record_read(request, conversation, what=_record(asked, _EXPORTED, _EXPORTED_BEFORE, format=title))
            return file
    if with_text:
        record_read(request, conversation, what=_record(asked, _READ, _READ_BEFORE))
    memory = shown_memory(past, with_text=with_text)
    answer = [memory["answer"]] if memory["answer"] else []
    _add_notes(model_admin, request, conversation, [*memory["entries"], *answer])
    return conversation_page(
        model_admin,
        request,
        conversation,
        "past",
        _title(asked),
        asked=asked,
        query="{}={}".format(*asked.query),
        around=answers_around(conversation, asked),
        unreadable=broken,
        jsons=json_texts(past.rows, fresh, refused) if with_text and not (broken or past.is_long) else [],
        is_too_long=past.is_long,
        with_text=with_text,
        has_markdown_toggle=with_text,
        sections=[show(model_admin, request, conversation, asked.version) for show in hooks("admin_section")],
        **memory,
        **_compared(conversation, past, request.GET.get("against"), with_text=with_text),
    )


def _title(asked: AskedMemory) -> Any:
    if asked.answer is not None:
        return format_lazy(_("What the model had when it wrote message {position}"), position=asked.answer.position)
    if asked.is_now:
        return _("What the model has now")
    return format_lazy(_("What the model had at version {version}"), version=asked.version)


def _record(asked: AskedMemory, at_version: Any, before_answer: Any, **more: Any) -> Any:
    if asked.answer is None:
        return format_lazy(at_version, version=asked.version, **more)
    return format_lazy(before_answer, position=asked.answer.position, **more)


def _file(past: PastRows, fresh: list[int], key: str) -> HttpResponse:
    text = dumps(message_format(key).write_memory([row.message for row in past.rows], fresh))
    headers = {
        "Content-Disposition": f'attachment; filename="{past.asked.file_name}-{key}.json"',
        "X-Content-Type-Options": "nosniff",
    }
    return HttpResponse(text, content_type="application/json", headers=headers)


def _compared(conversation: Conversation, past: PastRows, against: str | None, *, with_text: bool) -> dict[str, Any]:
    """Return what differs from the memory at the version ``against``; without one, which version to suggest."""
    version, problem = asked_version(conversation, against or "")
    if against is None or version is None:
        suggested = max(0, conversation.version - 1) if past.asked.is_now else conversation.version
        return {"against": suggested, "against_problem": problem}
    other = AskedMemory.at(conversation, version).rows()
    here, there = past.positions, list(other.values_list("position", flat=True))
    is_later = version > past.asked.version or (past.asked.answer is None and version == past.asked.version)
    before, after = (here, there) if is_later else (there, here)
    return {
        "against": version,
        "is_later": is_later,
        "difference": shown_difference(conversation, before, after, with_text=with_text),
    }
