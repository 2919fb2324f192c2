"""The forms for the settings of windows that are tried."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.display.window_presets import present_settings
from chatmemory.admin.display.window_words import WAY
from chatmemory.models import MAX_LIMIT, WINDOWS, Conversation

__all__ = ["WindowForm", "as_fields", "window_forms"]

_MOST_WINDOWS = 3
_BOUND = ("window", "limit")

# Not a box to tick: one that is not ticked cannot be told from one that the address does not name.
_UNITS = [("no", _("message by message")), ("yes", _("whole turns"))]


class WindowForm(forms.Form):
    """A window. Its number on the page is the prefix of its fields."""

    window = forms.ChoiceField(label=_("Window"), choices=WINDOWS)
    limit = forms.IntegerField(label=_("Limit"), min_value=1, max_value=MAX_LIMIT)
    low_water = forms.IntegerField(
        label=_("Low-water mark, in percent"),
        min_value=1,
        max_value=100,
        help_text=_(
            "A full window evicts down to this percent of its limit, so that it is a while until it is full again. "
            "100: it evicts only as much as needed."
        ),
    )
    whole_turns = forms.TypedChoiceField(
        label=_("Evict"),
        choices=_UNITS,
        coerce=lambda value: value == "yes",
        help_text=_("A turn is a user message with everything that follows it before the next one."),
    )
    keep_tool_results = forms.IntegerField(
        label=_("Keep tool results"),
        required=False,
        min_value=0,
        max_value=MAX_LIMIT,
        help_text=_(
            "How many tool results stay when the window is full. Older ones give way to short placeholders, if that "
            "saves tokens. Empty: none does."
        ),
    )
    compact_at = forms.IntegerField(
        label=_("Summarise at, in percent"),
        required=False,
        min_value=1,
        max_value=100,
        help_text=_(
            "From this percent of the limit on a summary of older turns is due. It takes their place in the memory. "
            "Empty: none is made by itself."
        ),
    )

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
        return [self[name] for name in _BOUND]

    @property
    def way(self) -> list[forms.BoundField]:
        """The fields that say how it evicts."""
        return [self[name] for name in WAY]

    @property
    def summaries(self) -> list[forms.BoundField]:
        """The fields that say when older turns are summarised."""
        return [self["compact_at"]]

    @property
    def values(self) -> dict[str, Any]:
        """The values of the fields, by their names on the page."""
        return {field.html_name: "" if field.value() is None else field.value() for field in self}


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
        as_it_is = {name: value for name, value in present.items() if name.partition("-")[2] not in _BOUND}
        return WindowForm(as_it_is | data.dict(), prefix=prefix)
    form = WindowForm(initial={name.partition("-")[2]: value for name, value in present.items()}, prefix=prefix)
    if number > 1:
        form.fields["limit"].required = form.fields["limit"].widget.is_required = False
    return form


def _as_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
