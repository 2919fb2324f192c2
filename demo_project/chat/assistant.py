"""The demo's assistant, which ``CHATMEMORY["ASSISTANT"]`` names."""

from __future__ import annotations

from django.http import HttpRequest

from chatmemory.assistant import Assistant
from chatmemory.contrib.search.tool import conversation_search
from demo_project.chat import titles  # noqa: F401 - listens from now on
from demo_project.chat.recall import is_recall_on
from demo_project.chat.speakers import EmbeddedBot, chosen_speaker
from demo_project.chat.tools import TOOLS

__all__ = ["assistant"]

_MAX_INVOCATIONS = 6
"""Rounds of tools in a row, for a model that never stops calling tools."""


def assistant(request: HttpRequest) -> Assistant:
    """Return an assistant with the model that the environment names."""
    speaker = chosen_speaker()
    recall = [conversation_search()] if is_recall_on(request) else []
    return Assistant(
        speaker,
        tools=[*TOOLS, *recall],
        max_sequential_tools_invocations=_MAX_INVOCATIONS,
        title=not isinstance(speaker, EmbeddedBot),
    )
