"""The texts of the chat that its script shows, in the language of the request."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from chatmemory.core.entries import EvictionReason

_ONE_AND_MANY = (1, 2)


def words() -> dict[str, str | list[str]]:
    """Return the texts by name. Of two in a list the first is for one thing, and the second for any other number."""
    return {**_names(), **_reasons(), **_amounts(), **_controls(), **_states(), **connection_words()}


def _names() -> dict[str, str | list[str]]:
    return {
        "SYSTEM": pgettext("who says a message", "Instructions"),
        "USER": pgettext("who says a message", "You"),
        "AI": pgettext("who says a message", "Model"),
        "TOOL_EXECUTION_RESULT": pgettext("who says a message", "Tool"),
        "CUSTOM": pgettext("who says a message", "Other"),
        "summary": pgettext("who says a message", "Summary"),
    }


def _reasons() -> dict[str, str | list[str]]:
    return {
        "forgotten": _("Forgotten"),
        "forgotten-why": _("Forgotten: %(reason)s"),
        "summarised": _("Summarised"),
        **{reason.value: _(reason.chat_label) for reason in EvictionReason},
    }


def _amounts() -> dict[str, str | list[str]]:
    return {
        "messages": [ngettext("%(number)s message", "%(number)s messages", n) for n in _ONE_AND_MANY],
        "tokens": [ngettext("%(number)s token", "%(number)s tokens", n) for n in _ONE_AND_MANY],
        "forgotten-messages": [
            ngettext("%(number)s message forgotten", "%(number)s messages forgotten", n) for n in _ONE_AND_MANY
        ],
        "older-forgotten": [
            ngettext("%(number)s older message forgotten", "%(number)s older messages forgotten", n)
            for n in _ONE_AND_MANY
        ],
        "older-summarised": [
            ngettext(
                "%(number)s older message forgotten or summarised",
                "%(number)s older messages forgotten or summarised",
                n,
            )
            for n in _ONE_AND_MANY
        ],
        "would-forget": [
            ngettext("Would forget %(number)s message", "Would forget %(number)s messages", n) for n in _ONE_AND_MANY
        ],
        "used-of": pgettext("how full a window is", "%(used)s of %(limit)s"),
        "full": _("%(percent)s percent full"),
        "too-full": _("%(percent)s percent: over its limit"),
        "what-a-window-is": _(
            "The window is what the model is given. A smaller one forgets the oldest messages at once."
        ),
    }


def _controls() -> dict[str, str | list[str]]:
    return {
        "instructions": _("Instructions to the model"),
        "thinking-shown": _("What the model thought"),
        "raw-text": _("Raw text"),
        "copy": _("Copy"),
        "copied": _("Copied"),
        "code": _("Code"),
        "table": _("Table"),
        "show-more": _("Show more (%(number)s characters)"),
        "show-all": _("Show all"),
        "show-less": _("Show less"),
        "calls": pgettext("before the tool that the model calls", "calls"),
        "tool-failed": _("Failed"),
        "from-rewrite": _("from a rewrite"),
        "stands-for": _("In the place of messages %(first)s to %(last)s"),
        "cut-off": _("Cut off: %(reason)s"),
        "try-again": _("Try again"),
        "ask-again": _("Ask again"),
        "get-answer": _("Get the answer"),
        "say-again": _("Say it again"),
    }


def _states() -> dict[str, str | list[str]]:
    return {
        "answering": _("Answering …"),
        "thinking": _("Thinking …"),
        "stopped": _("Stopped. The partial answer was discarded."),
        "busy": _("Another answer is being made in this conversation."),
        "unanswered": _("The last message has no answer yet."),
        "unanswered-forgotten": _("The last message was forgotten before it was answered."),
        "too-small": _(
            "The window is too small: the last message was forgotten before it was answered. Make the window larger or "
            "the message shorter, then say it again."
        ),
        "summary-came": _("A summary took the place of older messages."),
    }


def connection_words() -> dict[str, str]:
    """Return the texts about requests that fail, by name, which all scripts of this app's chats show."""
    return {
        "sign-in": _("Sign in again"),
        "signed-out": _("You are signed out."),
        "no-answer": _("The site does not answer."),
        "answered-status": _("The site answered with the status %(status)s."),
        "broke-off": _("The connection to the site broke off."),
    }
