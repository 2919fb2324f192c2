"""The page "Window": what other windows would evict from a memory, side by side, and the change to one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext

from chatmemory.admin.display.message import UNREADABLE, unreadable
from chatmemory.admin.display.passages import are_too_long
from chatmemory.admin.display.window_words import (
    BOUND,
    SHOWN,
    WAY,
    ComparedWindow,
    Outcome,
    pins_problem,
    present_settings,
    presets,
    replayed,
    setting_words,
    window_words,
)
from chatmemory.admin.views.staff_pages import (
    ChangedMeanwhileError,
    act,
    as_seen,
    conversation_or_404,
    conversation_page,
    record_read,
    state_of,
)
from chatmemory.conf import setting
from chatmemory.core.exceptions import PinnedTooMuchError
from chatmemory.core.window import SETTINGS, Kind, Setting, WindowKind
from chatmemory.database.change import Change, WindowTrial
from chatmemory.database.operations.change_window import MemoryToTry
from chatmemory.models import MAX_LIMIT, Conversation, WindowSettings
from chatmemory.replaying import MOST_AT_ONCE

_MOST_WINDOWS = 3


class WindowForm(forms.Form):
    """A window. Its number on the page is the prefix of its fields."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields |= {name: _field(SETTINGS[name]) for name in SHOWN}

    @property
    def number(self) -> int:
        """The number of the window on the page, from 1."""
        return int(self.prefix or 0)

    @property
    def name(self) -> str:
        """The name that the page gives the window."""
        return gettext("Window %(number)s") % {"number": self.number}

    @property
    def parts(self) -> dict[str, list[forms.BoundField]]:
        """The fields that say how much fits, what it evicts, and when older turns are summarised."""
        names = {"bound": BOUND, "way": WAY, "summaries": [name for name in SHOWN if name not in BOUND + WAY]}
        return {part: [self[name] for name in among] for part, among in names.items()}

    @property
    def values(self) -> dict[str, Any]:
        """The values of the fields, by their names on the page."""
        return {field.html_name: "" if field.value() is None else field.value() for field in self}


def _field(setting: Setting) -> forms.Field:
    name = capfirst(gettext(setting.label))
    if setting.kind is Kind.PERCENT:
        name = gettext("%(label)s, in percent") % {"label": name}
    told: dict[str, Any] = {"label": name, "help_text": gettext(setting.help), "required": not setting.null}
    match setting.kind:
        case Kind.CHOICE:
            choices = [(value, gettext(label)) for value, label in setting.choices.items()]
            return forms.ChoiceField(choices=choices, **told)
        case Kind.FLAG:
            # Not a box to tick: one that is not ticked cannot be told from one that the address does not name.
            choices = [(_as_value(value), setting_words(setting.name, value)) for value in (False, True)]
            return forms.TypedChoiceField(choices=choices, coerce=lambda value: value == _as_value(True), **told)
        case Kind.TEXT:
            return forms.CharField(max_length=setting.most, **told)
    return forms.IntegerField(min_value=setting.least, max_value=setting.most or MAX_LIMIT, **told)


def as_fields(settings: dict[str, Any], number: int) -> dict[str, str]:
    """Return the settings of a window as the values of the fields of a form."""
    return {f"{number}-{name}": _as_value(value) for name, value in settings.items()}


def window_forms(conversation: Conversation, data: QueryDict) -> list[WindowForm]:
    """Return the forms of a page. Those that ``data`` does not fill are not bound.

    The first shows the window of the conversation until it is filled. The others are left out without a limit. How a
    window evicts is as in the conversation where ``data`` does not say it.
    """
    return [_window_form(conversation, data, number) for number in range(1, _MOST_WINDOWS + 1)]


def _window_form(conversation: Conversation, data: QueryDict, number: int) -> WindowForm:
    present = as_fields(present_settings(conversation), number)
    limit = f"{number}-limit"
    if number == 1:
        is_filled = any(name in data for name in present)
    else:
        is_filled = bool(data.get(limit, "").strip())
        present[limit] = ""
    prefix = str(number)
    if is_filled:
        as_it_is = {name: value for name, value in present.items() if name.partition("-")[2] not in BOUND}
        return WindowForm(as_it_is | data.dict(), prefix=prefix)
    form = WindowForm(initial={name.partition("-")[2]: value for name, value in present.items()}, prefix=prefix)
    if number > 1:
        form.fields["limit"].required = form.fields["limit"].widget.is_required = False
    return form


def _as_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _say_window(change: Change, *, before: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Return sentences about the change: always the limit, and the other settings that changed."""
    if wanted["window"] == WindowKind.TOKENS:
        changed = ngettext(
            "The window was changed to at most %(limit)s token.",
            "The window was changed to at most %(limit)s tokens.",
            wanted["limit"],
        )
    else:
        changed = ngettext(
            "The window was changed to at most %(limit)s message.",
            "The window was changed to at most %(limit)s messages.",
            wanted["limit"],
        )
    said = [changed % {"limit": wanted["limit"]}]
    new = [setting_words(name, wanted[name]) for name in SHOWN if name not in BOUND and wanted[name] != before[name]]
    if new:
        said.append(gettext("Now: %(words)s.") % {"words": gettext(", ").join(new)})
    count = len(change.evicted)
    evicted = ngettext("%(count)s message was evicted.", "%(count)s messages were evicted.", count)
    return " ".join([*said, evicted % {"count": count}])


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
    if is_sent and chosen and not is_too_long:
        try:
            wanted = chosen.cleaned_data
            change = partial(conversation.memory.set_window, precondition=as_seen(request), **wanted)
            say = partial(_say_window, before=present_settings(conversation), wanted=wanted)
            return act(model_admin, request, conversation, change, say)
        except ChangedMeanwhileError:
            conversation = conversation_or_404(model_admin, request, object_id, also="act")
            context["has_changed"] = True
        except UNREADABLE:  # nor can it be tried, and the page says why
            pass
    context |= {"is_too_long": True} if is_too_long else _tried(model_admin, request, conversation, forms, chosen)
    return conversation_page(
        model_admin,
        request,
        conversation,
        "window",
        gettext("Window"),
        forms=forms,
        errors=sum(len(form.errors) for form in forms if form.is_bound),
        presets=[
            {"name": name, "address": _address(forms[1:], as_fields(settings, 1))}
            for name, settings in presets(conversation)
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
    """The form that it is from; None if it was not requested."""


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
        _Wanted(name=name, settings=settings, address=_address(forms, as_fields(settings, 1)))
        for name, settings in presets(conversation)[:_MOST_SUGGESTED]
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
    context: dict[str, Any] = {"windows": [ComparedWindow.present(conversation, recorded)]}
    for (wanted, trial), cache in zip(found, replays, strict=True):
        is_shown = wanted.form is not None and wanted.form is chosen
        shown = {"address": wanted.address, "is_shown": is_shown}
        compared = ComparedWindow.tried(wanted.name, wanted.settings, conversation, trial, cache=cache, **shown)
        context["windows"].append(compared)
        if chosen and is_shown:
            context |= _outcome(model_admin, request, conversation, wanted, trial)
            if context.pop("may_apply"):
                context["fields"] = {**_fields(forms), "show": chosen.prefix, "seen": state_of(conversation)}
    return context


def _outcome(
    model_admin: Any, request: HttpRequest, conversation: Conversation, wanted: _Wanted, trial: WindowTrial
) -> dict[str, Any]:
    with_text = model_admin.has_read_text_permission(request, conversation)
    outcome = Outcome.of(trial, with_text=with_text)
    if with_text and outcome.entries:
        record_read(request, conversation)
    present = present_settings(conversation)
    # A memory over its limit, after a change outside this app, evicts messages even so.
    is_same = wanted.settings == present and not outcome.leaving
    return {
        "outcome": outcome,
        "tried": wanted.name,
        "before": window_words(present),
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
