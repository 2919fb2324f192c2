"""The forms for the settings of windows that are tried."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.text import capfirst
from django.utils.translation import gettext

from chatmemory.admin.display.window_presets import present_settings
from chatmemory.admin.display.window_words import BOUND, SHOWN, WAY, setting_words
from chatmemory.core.window_settings import SETTINGS, Kind, Setting
from chatmemory.models import MAX_LIMIT, Conversation

__all__ = ["WindowForm", "as_fields", "window_forms"]

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
    def bound(self) -> list[forms.BoundField]:
        """The fields that say how much fits."""
        return [self[name] for name in BOUND]

    @property
    def way(self) -> list[forms.BoundField]:
        """The fields that say what it evicts."""
        return [self[name] for name in WAY]

    @property
    def summaries(self) -> list[forms.BoundField]:
        """The other fields: when older turns are summarised."""
        return [self[name] for name in SHOWN if name not in BOUND + WAY]

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
