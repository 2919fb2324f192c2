"""The page that summarises older turns: it shows which, and once confirmed the project's function writes the summary.

The views run outside of any transaction: a model may take a minute, and the conversation goes on meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatmemory.admin.display.gauge import grouped
from chatmemory.admin.display.message import UNREADABLE, unreadable
from chatmemory.admin.display.summary_cards import CompactionStatus
from chatmemory.admin.views.staff_pages import back_to_timeline, conversation_or_404, conversation_page, logged
from chatmemory.compaction import project_summarizer
from chatmemory.core.summaries import Summarizer
from chatmemory.database.change import Change
from chatmemory.database.operations.compaction import USUAL_KEEP, CompactionPlan, error_text, is_summarizable, uncovered
from chatmemory.models import Conversation, Message

__all__ = ["compact", "without_transaction"]

_logger = logging.getLogger("chatmemory.admin")


class KeepForm(forms.Form):
    """The part of the limit whose turns stay."""

    keep = forms.IntegerField(
        label=gettext_lazy("Keep, in percent"),
        min_value=0,
        max_value=100,
        initial=USUAL_KEEP,
        help_text=gettext_lazy(
            "The last turns stay as they are, as many as fit this percent of the limit. The very last turn stays in "
            "any case."
        ),
    )

    @classmethod
    def of(cls, data: Any) -> KeepForm:
        """Return the form for what was sent; if that has no ``keep``, the form with the usual one."""
        return cls(data if "keep" in data else {"keep": USUAL_KEEP})


def without_transaction(view: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a view as one around which ``ATOMIC_REQUESTS`` opens no transaction, on no database."""
    for alias in connections:
        view = transaction.non_atomic_requests(using=alias)(view)
    return view


def compact(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Show what a summary would stand for, and have it written once that is confirmed.

    If a summary would stand for other messages now than those that were confirmed, the page is shown again.
    """
    conversation = conversation_or_404(model_admin, request, object_id, also="compact")
    with_text = model_admin.has_read_text_permission(request, conversation)
    status = CompactionStatus.read(conversation, with_text=with_text)
    is_post = request.method == "POST"
    form = KeepForm.of(request.POST if is_post else request.GET)
    title = _("Summarise older turns")
    page = partial(conversation_page, model_admin, request, conversation, "compact", title, form=form, status=status)
    try:
        summarizer = project_summarizer()
    except (ImproperlyConfigured, ImportError) as error:
        return page(is_not_set=str(error))
    if not is_summarizable(conversation):
        return page(is_too_long=True)
    if status.is_running:
        return page(has_changed=is_post)
    if not form.is_valid():
        return page()
    keep = form.cleaned_data["keep"]
    try:
        plan = conversation.memory.plan_compaction(keep)
    except Conversation.DoesNotExist as error:
        raise Http404 from error
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
    try:
        change = conversation.memory.compact(summarizer, keep=keep)
    except Conversation.DoesNotExist as error:
        raise Http404 from error
    except Exception as error:
        # Whatever a project's function raises is its own affair: here it is told, and there it is found.
        _logger.exception("No summary was made of conversation %s", conversation.pk)
        kind = type(error).__name__
        _log(model_admin, request, conversation, lambda: _("No summary was made: %(error)s.") % {"error": kind})
        with_text = model_admin.has_read_text_permission(request, conversation)
        text = error_text(error).removesuffix(": ") if with_text else kind
        said = _("No summary was made, and nothing has changed. The project's function failed: %(error)s")
        return back_to_timeline(model_admin, request, conversation, said % {"error": text}, level=messages.ERROR)
    if change is None:
        said = _(
            "No summary was made: somebody else is making one, or these messages were summarised, erased or taken out "
            "of the memory a moment ago."
        )
        return back_to_timeline(model_admin, request, conversation, said, level=messages.WARNING)
    summary = change.added[0]
    _log(model_admin, request, conversation, lambda: _say(change, plan))
    return back_to_timeline(model_admin, request, conversation, _say(change, plan), position=summary.position)


def _log(model_admin: Any, request: HttpRequest, conversation: Conversation, say: Callable[[], str]) -> None:
    def log(change: Change) -> None:
        # The log names it by its title, which may have been erased while the model worked.
        row = change.conversation
        row.refresh_from_db(using=row._state.db)
        logged(model_admin, request, row, lambda _change: say())(change)

    try:
        conversation.memory.under_lock(log)
    except Conversation.DoesNotExist as error:
        raise Http404 from error


def _say(change: Change, plan: CompactionPlan) -> str:
    summary: Message = change.added[0]
    said = _("A summary stands for messages %(first)s to %(last)s now: %(before)s → %(tokens)s tokens.")
    return said % {
        "first": summary.covers_from,
        "last": summary.covers_to,
        "before": grouped(plan.tokens),
        "tokens": grouped(summary.token_count),
    }


def _range(plan: CompactionPlan) -> str:
    return f"{plan.covers_from}-{plan.covers_to}"


def _outcome(conversation: Conversation, plan: CompactionPlan | None) -> dict[str, Any]:
    """Return what the page shows of a plan: figures and no text."""
    if plan is None:
        return {"is_too_little": True}
    covered = {*plan.positions, *plan.summaries}
    retained = conversation.messages.retained().values_list("position", "token_count")
    staying = [tokens for position, tokens in retained if position not in covered]
    count = len(plan.messages)
    return {
        "plan": plan,
        "seen": _range(plan),
        "covered": ngettext("%(count)s message", "%(count)s messages", count) % {"count": grouped(count)},
        "staying": len(staying),
        "staying_tokens": sum(staying),
    }
