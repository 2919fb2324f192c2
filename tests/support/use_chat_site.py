"""A site with a chat by ``useChat``, and a model that does what its user says.

``CHATMEMORY_TEST_BUNDLE`` is the page's script, and ``CHATMEMORY_TEST_GATE`` a file: the model waits for it in the
middle of its answer to "wait", and fails to answer "fail" until it is there. No two answers to "again" are the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.http import FileResponse, HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.urls import include, path

from chatmemory import AiMessage, ChatMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.assistant import Assistant, Thinking
from tests.support.assistants import Speaker, text_of

__all__ = ["assistant", "urlpatterns"]

_PAUSE = 0.02  # seconds between two looks at the gate
_PATIENCE = 60


def _speak(messages: Sequence[ChatMessage]) -> Iterator[Any]:
    last = messages[-1]
    if isinstance(last, ToolExecutionResultMessage):
        yield "I have looked."
        yield AiMessage("I have looked.")
        return
    said = text_of(next(message for message in reversed(messages) if isinstance(message, UserMessage)))
    if said.startswith("look"):
        yield Thinking("Where may it be?")
        calls = [ToolExecutionRequest("1", "look up", f'{{"what": "{what}"}}') for what in ("cat", "nothing")]
        yield AiMessage(None, calls, thinking="Where may it be?")
        return
    if said.startswith("fail") and not _gate().exists():
        yield "I am "
        raise RuntimeError("secret://the model's own words")
    if said.startswith("again"):
        answer = uuid4().hex
        for start in range(0, len(answer), 8):
            yield answer[start : start + 8]
        yield AiMessage(answer)
        return
    yield "You said "
    if said.startswith("wait"):
        yield from _wait()
    yield f"{said} 🎉"
    yield AiMessage(f"You said {said} 🎉")


def _wait() -> Iterator[str]:
    until = time.monotonic() + _PATIENCE
    while not _gate().exists():
        assert time.monotonic() < until
        time.sleep(_PAUSE)
        yield ""


def _gate() -> Path:
    return Path(os.environ["CHATMEMORY_TEST_GATE"])


def look_up(what: str) -> dict[str, str]:
    """Look something up."""
    if what == "nothing":
        raise LookupError(what)
    return {what: "purrs"}


look_up.__name__ = "look up"
assistant = Assistant(Speaker(_speak), tools=[look_up], turn_timeout=90)


def _page(request: HttpRequest, conversation: str) -> HttpResponse:
    return HttpResponse(
        f'<!doctype html><title>useChat</title><body data-conversation="{conversation}" '
        f'data-csrf="{get_token(request)}"><div id="root"></div><script type="module" src="/chat.js"></script>'
    )


def _script(request: HttpRequest) -> FileResponse:
    return FileResponse(Path(os.environ["CHATMEMORY_TEST_BUNDLE"]).open("rb"), content_type="text/javascript")


urlpatterns = [
    path("chat/<uuid:conversation>/", _page),
    path("chat.js", _script),
    path("api/", include("chatmemory.urls")),
]
