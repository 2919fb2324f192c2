"""A page that compares windows: what each would have left of the provider's prompt cache in this conversation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from chatmemory.admin.display.gauge import grouped
from chatmemory.admin.display.window_words import SETTINGS, window_words
from chatmemory.admin.views.base import conversation_or_404, conversation_page
from chatmemory.admin.views.window_form import WindowForm
from chatmemory.core.window import WindowKind
from chatmemory.database.operations.replay import MOST_AT_ONCE, Replay, replay
from chatmemory.models import Conversation, WindowSettings

__all__ = ["show"]


class ComparedForm(WindowForm):
    """One of the windows that are compared; without a limit it is left out."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # A replay has the summaries that were made, and makes none.
        del self.fields["compact_at"]
        for field in self.fields.values():
            field.required = field.widget.is_required = False
            field.help_text = ""  # the page says it once

    @property
    def number(self) -> int:
        """The number of the window on the page, from 1."""
        return int(self.prefix or 0)

    @property
    def settings(self) -> WindowSettings:
        """The settings of the window, empty if it is left out. The form is valid."""
        if self.cleaned_data["limit"] is None:
            return {}
        given = {name: value for name, value in self.cleaned_data.items() if value not in ("", None)}
        return cast(WindowSettings, {"keep_tool_results": None, **given})


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One window, and what was sent with it."""

    name: str

    said: str
    """The share of the cache, as a sentence."""

    replay: Replay

    percent: int
    """The share of the input that could have come from the cache."""

    fill: int
    """The mean percentage of the limit that requests took."""

    @classmethod
    def recorded(cls, replay: Replay) -> Compared:
        """Return what really happened."""
        percent = _percent(replay.hit_share)
        said = _("%(percent)s%% of the input could have come from the cache.") % {"percent": percent}
        return cls(name=_("As recorded"), said=said, replay=replay, percent=percent, fill=_percent(replay.mean_fill))

    @classmethod
    def tried(cls, replay: Replay, recorded: Compared) -> Compared:
        """Return what would have happened with other settings of the window."""
        percent = _percent(replay.hit_share)
        said = _("%(percent)s%% of the input could have come from the cache, instead of %(recorded)s%%.")
        return cls(
            name=window_words(**{name: getattr(replay, name) for name in SETTINGS if name != "compact_at"}),
            said=said % {"percent": percent, "recorded": recorded.percent},
            replay=replay,
            percent=percent,
            fill=_percent(replay.mean_fill),
        )

    @property
    def breaks(self) -> str:
        """The requests that began differently, of all."""
        found = {"breaks": grouped(self.replay.prefix_breaks), "requests": grouped(self.replay.requests)}
        return _("%(breaks)s of %(requests)s") % found


def show(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Return the page, which compares what was recorded with up to three windows, by default with suggestions.

    It shows figures and no words, so that those who may see the conversation may see it.
    """
    conversation = conversation_or_404(model_admin, request, object_id)
    compared = _forms(conversation, request)
    context: dict[str, Any] = {"forms": compared, "most": MOST_AT_ONCE}
    if conversation.next_position > MOST_AT_ONCE:
        context["is_too_long"] = True
    elif all(form.is_valid() for form in compared):
        try:
            context["rows"] = _rows(conversation, compared)
        except Conversation.DoesNotExist as error:
            raise Http404 from error
    return conversation_page(model_admin, request, conversation, "replay", _("Compare windows"), **context)


def _forms(conversation: Conversation, request: HttpRequest) -> list[ComparedForm]:
    suggestions = [
        {f"{number}-{name}": value for name, value in suggested.items()}
        for number, suggested in enumerate(_suggestions(conversation), 1)
    ]
    data: Any = request.GET if any(name in request.GET for row in suggestions for name in row) else None
    return [
        ComparedForm(data if data is not None else suggested, prefix=str(number))
        for number, suggested in enumerate(suggestions, 1)
    ]


def _suggestions(conversation: Conversation) -> list[dict[str, Any]]:
    """Return the fields of windows that are worth a look: that of the conversation, evicting in other ways."""
    kept = conversation.keep_tool_results
    whole = {
        "window": conversation.window,
        "limit": conversation.limit,
        "low_water": 70,
        "whole_turns": "yes",
        "keep_tool_results": "" if kept is None else kept,
    }
    lower = whole | {"low_water": 50}
    if conversation.window == WindowKind.MESSAGES:  # of which a placeholder saves none
        return [whole, lower, whole | {"limit": ""}]
    return [whole, whole | {"keep_tool_results": 3}, lower]


def _rows(conversation: Conversation, compared: list[ComparedForm]) -> list[Compared]:
    """Return what was recorded, and each window that is not left out."""
    variants = [form.settings for form in compared if form.settings]
    first, *others = replay(conversation, [None, *variants])
    recorded = Compared.recorded(first)
    return [recorded, *(Compared.tried(found, recorded) for found in others)]


def _percent(share: float) -> int:
    return round(100 * share)
