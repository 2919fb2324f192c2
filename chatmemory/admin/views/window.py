"""The page "Window": what other windows would evict from a memory, side by side, and the change to one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.display.bounded_rows import are_too_long
from chatmemory.admin.display.message import UNREADABLE, unreadable
from chatmemory.admin.display.window_presets import present_settings, presets
from chatmemory.admin.display.window_trials import ComparedWindow, Outcome, replayed
from chatmemory.admin.display.window_words import pins_problem, window_words
from chatmemory.admin.views.base import conversation_or_404, conversation_page, record_read
from chatmemory.admin.views.logged_change import ChangedMeanwhileError, state_of
from chatmemory.admin.views.window_change import apply_window
from chatmemory.admin.views.window_form import WindowForm, as_fields, window_forms
from chatmemory.conf import setting
from chatmemory.core.exceptions import PinnedTooMuchError
from chatmemory.database.change import WindowTrial
from chatmemory.database.operations.try_window import MemoryToTry
from chatmemory.models import Conversation, WindowSettings
from chatmemory.replaying import MOST_AT_ONCE

__all__ = ["show"]

_MOST_SUGGESTED = 3


def show(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Return the page, which tries the windows in the address; a POST gives the conversation the one that is shown.

    If the memory has changed since the page was shown, nothing is done, and it is shown again.
    """
    is_sent = request.method == "POST"
    conversation = conversation_or_404(model_admin, request, object_id, also="act" if is_sent else None)
    data = request.POST if is_sent else request.GET
    forms = window_forms(conversation, data)
    chosen = _chosen(forms, data.get("show"))
    is_too_long = are_too_long(conversation.messages.retained())
    context: dict[str, Any] = {}
    try:
        if is_sent and chosen and not is_too_long:
            try:
                return apply_window(model_admin, request, conversation, chosen.cleaned_data)
            except ChangedMeanwhileError:
                conversation = conversation_or_404(model_admin, request, object_id, also="act")
                context["has_changed"] = True
            except UNREADABLE:  # nor can it be tried, and the page says why
                pass
        context |= {"is_too_long": True} if is_too_long else _tried(model_admin, request, conversation, forms, chosen)
    except Conversation.DoesNotExist as error:
        raise Http404 from error
    return conversation_page(
        model_admin,
        request,
        conversation,
        "window",
        _("Window"),
        forms=forms,
        errors=sum(len(form.errors) for form in forms if form.is_bound),
        presets=[
            {"name": preset.name, "address": _address(forms[1:], as_fields(preset.settings, 1))}
            for preset in presets(conversation)
        ],
        present=ComparedWindow.present(conversation, None),
        most=MOST_AT_ONCE,
        **context,
    )


def _chosen(forms: list[WindowForm], number: str | None) -> WindowForm | None:
    """Return the form of the window whose outcome is shown: the one with the number, else the first that is filled."""
    valid = [form for form in forms if form.is_bound and form.is_valid()]
    return next((form for form in valid if form.prefix == number), next(iter(valid), None))


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """A window to try."""

    name: str
    settings: dict[str, Any]

    address: str
    """The query of the page that shows its outcome."""

    form: WindowForm | None = None
    """The form that it is from; None if nobody asked for it."""


def _wanted(conversation: Conversation, forms: list[WindowForm]) -> list[_Wanted]:
    """Return the windows that the forms have, in their absence some that are worth a look."""
    if any(form.is_bound for form in forms):
        return [
            _Wanted(
                name=form.name, settings=dict(form.cleaned_data), address=_address(forms, show=form.prefix), form=form
            )
            for form in forms
            if form.is_bound and form.is_valid()
        ]
    return [
        _Wanted(name=preset.name, settings=preset.settings, address=_address(forms, as_fields(preset.settings, 1)))
        for preset in presets(conversation)[:_MOST_SUGGESTED]
    ]


def _tried(
    model_admin: Any,
    request: HttpRequest,
    conversation: Conversation,
    forms: list[WindowForm],
    chosen: WindowForm | None,
) -> dict[str, Any]:
    """Return the windows in figures, and the outcome of the one that was chosen. The memory is read once for all."""
    memory = MemoryToTry.read(conversation)
    found: list[tuple[_Wanted, WindowTrial]] = []
    for wanted in _wanted(conversation, forms):
        try:
            found.append((wanted, memory.try_window(cast(WindowSettings, wanted.settings))))
        except PinnedTooMuchError as error:
            if wanted.form is not None:
                wanted.form.add_error("limit", pins_problem(error))
        except UNREADABLE:
            # Which messages are evicted together depends on their contents.
            positions = unreadable(memory.rows)
            if not positions:
                raise
            return {"unreadable": positions}
    recorded, *replays = replayed(conversation, [wanted.settings for wanted, _trial in found])
    context: dict[str, Any] = {
        "windows": [
            ComparedWindow.present(conversation, recorded),
            *(
                ComparedWindow.tried(
                    wanted.name,
                    wanted.settings,
                    conversation,
                    trial,
                    cache=cache,
                    address=wanted.address,
                    is_shown=wanted.form is not None and wanted.form is chosen,
                )
                for (wanted, trial), cache in zip(found, replays, strict=True)
            ),
        ]
    }
    for wanted, trial in found:
        if wanted.form is not None and wanted.form is chosen:
            context |= _outcome(model_admin, request, conversation, wanted, trial)
            if context.get("may_apply"):
                context["fields"] = {**_fields(forms), "show": chosen.prefix, "seen": state_of(conversation)}
    return context


def _outcome(
    model_admin: Any, request: HttpRequest, conversation: Conversation, wanted: _Wanted, trial: WindowTrial
) -> dict[str, Any]:
    with_text = model_admin.has_read_text_permission(request, conversation)
    outcome = Outcome.of(trial, with_text=with_text)
    # Bars have first words, also where nothing would leave.
    if with_text and outcome.strip.bars:
        record_read(request, conversation)
    # A memory over its limit, after a change outside this app, evicts messages even so.
    is_same = wanted.settings == present_settings(conversation) and not outcome.leaving
    return {
        "outcome": outcome,
        "tried": wanted.name,
        "before": window_words(present_settings(conversation)),
        "after": window_words(wanted.settings),
        "is_same": is_same,
        "may_apply": not is_same and model_admin.has_act_permission(request, conversation),
        "keeps_history": setting("KEEP_HISTORY"),
    }


def _fields(forms: list[WindowForm]) -> dict[str, Any]:
    """Return the fields of the forms that are filled."""
    return {name: value for form in forms if form.is_bound for name, value in form.values.items()}


def _address(forms: list[WindowForm], first: Mapping[str, Any] = MappingProxyType({}), **more: Any) -> str:
    """Return the query of a page: the fields ``first``, and the forms that are filled."""
    return urlencode({**first, **_fields(forms), **more})
