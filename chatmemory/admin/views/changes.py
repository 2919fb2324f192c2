"""Changes to a memory: clear it or its old tool results, pin messages, summarise older turns. Each is logged."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from django import forms
from django.contrib import messages
from django.core.exceptions import ImproperlyConfigured
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatmemory.admin.display.memory_map import MemoryMap, count_messages, grouped
from chatmemory.admin.display.message import UNREADABLE, unreadable
from chatmemory.admin.display.passages import are_too_long, read_bounded
from chatmemory.admin.display.summary_cards import CompactionStatus
from chatmemory.admin.display.timeline import MOST_SHOWN, memory_entries
from chatmemory.admin.display.window_words import pins_problem
from chatmemory.admin.views.selection import say_cleared
from chatmemory.admin.views.staff_pages import (
    ChangedMeanwhileError,
    act,
    as_seen,
    back_to_timeline,
    conversation_or_404,
    conversation_page,
    logged,
    record_read,
    state_of,
)
from chatmemory.compaction import project_summarizer
from chatmemory.conf import setting
from chatmemory.core.arguments import whole_number
from chatmemory.core.entries import RESULTS_KEPT, EvictionReason
from chatmemory.core.exceptions import PinnedTooMuchError
from chatmemory.core.messages import ChatMessageType, ToolExecutionResultMessage
from chatmemory.core.summaries import Summarizer
from chatmemory.database.change import Change
from chatmemory.database.operations.compact import error_text, still_uncovered
from chatmemory.database.operations.compaction_plan import CompactionPlan, uncovered
from chatmemory.database.reading import request_bound
from chatmemory.models import MAX_LIMIT, Conversation


def clear_memory(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Show how many messages will be evicted, and clear the memory once confirmed."""
    conversation = conversation_or_404(model_admin, request, object_id, also="act")
    if request.method == "POST":
        otherwise = _("The memory was already empty.")
        return act(model_admin, request, conversation, conversation.memory.clear, say_cleared, otherwise=otherwise)
    keeps_history = setting("KEEP_HISTORY")
    return conversation_page(
        model_admin, request, conversation, "clear", _("Clear memory"), keeps_history=keeps_history
    )


class ClearingForm(forms.Form):
    """The tool results that stay."""

    keep = forms.IntegerField(
        label=gettext_lazy("Keep the last"),
        min_value=0,
        max_value=MAX_LIMIT,
        initial=RESULTS_KEPT,
        help_text=gettext_lazy("The number of tool results that stay as they are, counted from the end of the memory."),
    )
    exclude_tools = forms.MultipleChoiceField(
        label=gettext_lazy("Keep all results of"), required=False, widget=forms.CheckboxSelectMultiple
    )

    @classmethod
    def of(cls, conversation: Conversation, data: Any, *, with_text: bool) -> ClearingForm:
        """Return the form for what was sent, by default for the last few results.

        Args:
            conversation: of which all retained messages can be read.
            data: what was sent.
            with_text: whether this reader may know the names of tools; without, they cannot choose among them.
        """
        form = cls(data if "keep" in data else {"keep": RESULTS_KEPT})
        names = _tools(conversation) if with_text else []
        if names:
            form.fields["exclude_tools"].choices = [(name, name) for name in names]  # type: ignore[attr-defined]
        else:
            del form.fields["exclude_tools"]
        return form


def clear_tool_results(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Show which tool results would be cleared and how many tokens that frees, and clear them once confirmed.

    If the memory has changed since that was shown, it is shown again.
    """
    conversation = conversation_or_404(model_admin, request, object_id, also="act")
    with_text = model_admin.has_read_text_permission(request, conversation)
    context: dict[str, Any] = {"keeps_history": setting("KEEP_HISTORY")}
    is_post = request.method == "POST"
    if are_too_long(conversation.messages.retained()):
        context["is_too_long"] = True
    else:
        try:
            data = request.POST if is_post else request.GET
            context["form"] = form = ClearingForm.of(conversation, data, with_text=with_text)
            if form.is_valid():
                if is_post:
                    clear = partial(
                        conversation.memory.clear_tool_results, **form.cleaned_data, precondition=as_seen(request)
                    )
                    otherwise = _("There was nothing to clear.")
                    try:
                        return act(model_admin, request, conversation, clear, _say_freed, otherwise=otherwise)
                    except ChangedMeanwhileError:
                        conversation = conversation_or_404(model_admin, request, object_id, also="act")
                        context["has_changed"] = True
                context |= _clearing(conversation, form.cleaned_data, with_text=with_text)
        except UNREADABLE:
            # Which results are old depends on what the messages are.
            context["unreadable"] = unreadable(conversation.messages.retained())
            if not context["unreadable"]:
                raise
    if with_text and (context.get("entries") or "exclude_tools" in getattr(context.get("form"), "fields", ())):
        record_read(request, conversation)
    return conversation_page(
        model_admin, request, conversation, "clear_tool_results", _("Clear old tool results"), **context
    )


def _tools(conversation: Conversation) -> list[str]:
    """Return the names of the tools whose results are in the memory."""
    results = conversation.messages.retained().filter(type=ChatMessageType.TOOL_EXECUTION_RESULT.value).defer("native")
    found = (row.message for row in results)
    names = {result.tool_name for result in found if isinstance(result, ToolExecutionResultMessage)}
    return sorted(name for name in names if name)


def _clearing(conversation: Conversation, wanted: dict[str, Any], *, with_text: bool) -> dict[str, Any]:
    tokens, freed = conversation.memory.try_clearing(**wanted)
    leaving = conversation.messages.filter(position__in=list(tokens)[:MOST_SHOWN]).order_by("position")
    rows = read_bounded(leaving, with_text=with_text)
    for row in rows:
        row.eviction_reason = EvictionReason.TOOL_CLEARED.value
    return {
        "leaving": len(tokens),
        "freed": freed,
        "entries": memory_entries(rows, MemoryMap.of(()), with_text=with_text),
        "left_out": len(tokens) - len(rows),
        "seen": state_of(conversation) if tokens else "",
    }


def _say_freed(change: Change) -> str:
    """Return sentences about the change; empty if nothing changed."""
    count = len(change.evicted)
    if not count:
        return ""
    freed = sum(row.token_count for row in change.evicted) - sum(row.token_count for row in change.added)
    cleared = ngettext("%(count)s old tool result was cleared.", "%(count)s old tool results were cleared.", count)
    tokens = ngettext("That freed %(tokens)s token.", "That freed %(tokens)s tokens.", freed)
    return f"{cleared % {'count': grouped(count)}} {tokens % {'tokens': grouped(freed)}}"


def change_pin(model_admin: Any, request: HttpRequest, object_id: str, *, to: Literal["pin", "unpin"]) -> HttpResponse:
    """Pin or unpin the message at ``position``, and return to it in the view that the form was in."""
    conversation = conversation_or_404(model_admin, request, object_id, also="act")
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    position = whole_number(request.POST.get("position", ""), most=MAX_LIMIT)
    if position is None:
        raise Http404
    place: dict[str, Any] = {"position": position, "to_history": request.POST.get("view") != "memory"}

    def back(problem: str) -> HttpResponse:
        return back_to_timeline(model_admin, request, conversation, problem, level=messages.ERROR, **place)

    if problem := _obstacle(conversation, position):
        return back(problem)
    say = partial(_say_pinned, to=to, position=position)
    nothing = _("Message %(position)s is pinned already.") if to == "pin" else _("Message %(position)s is not pinned.")
    memory = conversation.memory
    change = partial(memory.pin if to == "pin" else memory.unpin, position)
    try:
        return act(model_admin, request, conversation, change, say, otherwise=nothing % {"position": position}, **place)
    except PinnedTooMuchError as error:
        return back(pins_problem(error))
    except UNREADABLE:  # the message has just left, or another row was written outside this app
        positions = ", ".join(map(str, unreadable(conversation.messages.retained())))
        said = _("Nothing was changed, because messages cannot be read: %(positions)s") % {"positions": positions}
        return back(_obstacle(conversation, position) or said)


def _obstacle(conversation: Conversation, position: int) -> str:
    """Return the reason why a message of the conversation can be neither pinned nor unpinned; empty if it can."""
    if not conversation.messages.retained().filter(position=position).exists():
        return _("Message %(position)s is not in the memory: it can be neither pinned nor unpinned.") % {
            "position": position
        }
    if are_too_long(conversation.messages.retained()):
        return _("This memory is too long to pin messages here. Use pin() and unpin() in your code.")
    return ""


def _say_pinned(change: Change, *, to: Literal["pin", "unpin"], position: int) -> str:
    """Return a sentence about the change; empty if nothing changed."""
    if change.moment is None:
        return ""
    said = _("Pinned message %(position)s.") if to == "pin" else _("Unpinned message %(position)s.")
    count = len(change.gone)
    evicted = ngettext("%(count)s message was evicted.", "%(count)s messages were evicted.", count) % {"count": count}
    return " ".join([said % {"position": position}, *([evicted] if count else [])])


_logger = logging.getLogger("chatmemory.admin")


class KeepForm(forms.Form):
    """The part of the limit whose turns stay."""

    keep = forms.IntegerField(
        label=gettext_lazy("Keep, in percent"),
        min_value=0,
        max_value=100,
        help_text=gettext_lazy(
            "The last turns stay as they are, as many as fit this percent of the limit. The very last turn stays, "
            "except older tool calls if the window summarises them."
        ),
    )


def compact(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Show what a summary would cover, and have it written once that is confirmed.

    It runs outside of any transaction: a model may take a minute, and the conversation goes on meanwhile.
    If a summary would cover other messages now than those that were confirmed, the page is shown again.
    """
    conversation = conversation_or_404(model_admin, request, object_id, also="compact")
    with_text = model_admin.has_read_text_permission(request, conversation)
    status = CompactionStatus.read(conversation, with_text=with_text)
    is_post = request.method == "POST"
    data = request.POST if is_post else request.GET
    form = KeepForm(data if "keep" in data else {"keep": conversation.compact_keep})
    title = _("Summarise older turns")
    page = partial(conversation_page, model_admin, request, conversation, "compact", title, form=form, status=status)
    try:
        summarizer = project_summarizer()
    except (ImproperlyConfigured, ImportError) as error:
        return page(is_not_set=str(error))
    if not request_bound().allows(*conversation.memory.size()):
        return page(is_too_long=True)
    if status.is_running:
        return page(has_changed=is_post)
    if not form.is_valid():
        return page()
    keep = form.cleaned_data["keep"]
    try:
        plan = conversation.memory.plan_compaction(keep, summarizer=summarizer)
    except UNREADABLE:
        positions = unreadable([*conversation.messages.retained(), *uncovered(conversation)])
        if not positions:
            raise
        return page(unreadable=positions)
    if is_post and plan is not None and request.POST.get("seen") == _range(plan):
        return _summarise(model_admin, request, conversation, summarizer, plan, keep)
    return page(has_changed=is_post, **_outcome(conversation, plan))


def _summarise(
    model_admin: Any,
    request: HttpRequest,
    conversation: Conversation,
    summarizer: Summarizer,
    plan: CompactionPlan,
    keep: int,
) -> HttpResponse:
    """Have the summary written, and return to the conversation with what came of it."""

    def log(say: Callable[[], str]) -> None:
        def add(change: Change) -> None:
            # The log names it by its title, which may have been erased while the model worked.
            row = change.conversation
            row.refresh_from_db(using=row._state.db)
            logged(model_admin, request, row, lambda _change: say())(change)

        conversation.memory.under_lock(add)

    back = partial(back_to_timeline, model_admin, request, conversation)
    try:
        change = conversation.memory.compact(summarizer, keep=keep, limit=1)
    except Conversation.DoesNotExist:
        raise
    except Exception as error:
        # A project's function may raise any exception: it is told here, and mended there.
        _logger.exception("No summary was made of conversation %s", conversation.pk)
        kind = type(error).__name__
        log(lambda: _("No summary was made: %(error)s.") % {"error": kind})
        with_text = model_admin.has_read_text_permission(request, conversation)
        words = error_text(error).removesuffix(": ") if with_text else kind
        said = _("No summary was made, and nothing has changed. The project's function failed: %(error)s")
        return back(said % {"error": words}, level=messages.ERROR)
    if change is None:
        said = _(
            "No summary was made: somebody else is making one, or these messages were summarised, erased or taken out "
            "of the memory a moment ago."
        )
        return back(said, level=messages.WARNING)
    summary = change.added[0]

    def say() -> str:
        said = _("A summary covers messages %(first)s to %(last)s now: %(before)s → %(tokens)s tokens.")
        return said % {
            "first": summary.covers_from,
            "last": summary.covers_to,
            "before": grouped(plan.tokens),
            "tokens": grouped(summary.token_count),
        }

    log(say)
    return back(say(), position=summary.position)


def _range(plan: CompactionPlan) -> str:
    return f"{plan.covers_from}-{plan.covers_to}"


def _outcome(conversation: Conversation, plan: CompactionPlan | None) -> dict[str, Any]:
    """Return what the page shows of a plan: figures and no words."""
    if plan is None:
        return {"is_too_little": True}
    covered = {*plan.positions, *plan.summaries}
    retained = conversation.messages.retained().values_list("position", "token_count")
    staying = [tokens for position, tokens in retained if position not in covered]
    messages_left, tokens_left = still_uncovered(conversation, plan)
    return {
        "plan": plan,
        "messages_left": messages_left,
        "tokens_left": tokens_left,
        "seen": _range(plan),
        "covered": count_messages(len(plan.messages)),
        "staying": len(staying),
        "staying_tokens": sum(staying),
    }
