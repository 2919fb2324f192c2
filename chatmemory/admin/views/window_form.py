"""The form for the settings of a window."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.display.window_words import SETTINGS, WAY
from chatmemory.models import MAX_LIMIT, WINDOWS, Conversation

__all__ = ["WindowForm"]

_BOUND = ("window", "limit")

# Not a box to tick: one that is not ticked cannot be told from one that the address does not name.
_UNITS = [("no", _("message by message")), ("yes", _("whole turns"))]


class WindowForm(forms.Form):
    """A window."""

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

    @classmethod
    def of(cls, conversation: Conversation, data: Any = None) -> WindowForm:
        """Return the form, by default with the window of the conversation.

        Args:
            conversation: the conversation.
            data: what was sent. How the window evicts is as in the conversation where this does not say it.
        """
        initial = {name: getattr(conversation, name) for name in SETTINGS}
        initial["whole_turns"] = "yes" if conversation.whole_turns else "no"
        if not data:
            return cls(initial=initial)
        as_it_is = {name: "" if initial[name] is None else initial[name] for name in initial if name not in _BOUND}
        return cls(as_it_is | data.dict(), initial=initial)

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

    def is_window_of(self, conversation: Conversation) -> bool:
        """Return whether the conversation has this window already. The form is valid."""
        return all(getattr(conversation, name) == value for name, value in self.cleaned_data.items())
