"""``THREAD_CONTEXT``: what a middleware keeps in its thread reaches all threads and tasks that work for the request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.http import HttpRequest, HttpResponseBase
from django.test import AsyncClient, Client

from chatmemory import AiMessage, ChatMessage, ToolExecutionRequest, UserMessage
from chatmemory.assistant import Assistant, ChatModel, ToolSpecification
from chatmemory.models import Conversation
from tests.database.test_async import run
from tests.support.api import url
from tests.support.turns import Gate, ask, chunks_in, chunks_of, stream, texts_of, turn_under_way

pytestmark = pytest.mark.django_db(transaction=True)

_here = threading.local()
seen: list[tuple[str, str]] = []
"""Who worked, and for which tenant."""


def tenant() -> str:
    return getattr(_here, "tenant", "nobody")


@contextmanager
def of_tenant(name: str) -> Iterator[None]:
    before, _here.tenant = tenant(), name
    try:
        yield
    finally:
        _here.tenant = before


def thread_context() -> Callable[[], AbstractContextManager[None]]:
    return partial(of_tenant, tenant())


def usable_once() -> AbstractContextManager[None]:
    return of_tenant(tenant())


def failing() -> Any:
    return of_tenant  # without the argument that it needs


def tenant_middleware(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    def middleware(request: HttpRequest) -> HttpResponseBase:
        with of_tenant("acme"):
            return get_response(request)

    return middleware


class Noting(ChatModel):
    """Calls the tool, and then answers; without tools, it writes a title."""

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage:
        if tools:
            *_, last = self.stream(messages, tools)
            return last  # type: ignore[no-any-return]
        seen.append(("title", tenant()))
        return AiMessage("A title")

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Iterator[Any]:
        if isinstance(messages[-1], UserMessage):
            yield AiMessage(None, [ToolExecutionRequest("1", "note", "{}")])
        else:
            yield "Noted"
            yield AiMessage("Noted")


def note() -> str:
    seen.append(("tool", tenant()))
    return "noted"


ASSISTANT = Assistant(Noting(), tools=[note], tool_timeout=60, title=True)


@pytest.fixture(autouse=True)
def project(settings: Any, conversation: Conversation) -> Any:
    seen.clear()
    Conversation.objects.update(title="")
    settings.MIDDLEWARE = [f"{__name__}.tenant_middleware", *settings.MIDDLEWARE]
    own = {"ASSISTANT": f"{__name__}.ASSISTANT", "THREAD_CONTEXT": f"{__name__}.thread_context"}
    settings.CHATMEMORY = {**settings.CHATMEMORY, **own}
    yield settings
    assert ASSISTANT.wait_for_summaries(60)


def test_a_stream_in_a_thread(api: Client, conversation: Conversation) -> None:
    assert texts_of(chunks_of(stream(api, conversation, "Hello"))) == "Noted"
    assert ASSISTANT.wait_for_summaries(60)
    assert seen == [("tool", "acme"), ("title", "acme")]
    assert tenant() == "nobody"


def test_a_stream_in_a_task(user: Any, conversation: Conversation) -> None:
    async def read() -> list[bytes]:
        client = AsyncClient()
        await client.aforce_login(user)
        headers = {"accept": "text/event-stream"}
        response: Any = await client.post(
            url(conversation, "turns/"),
            {"message": "Hello"},  # type: ignore[arg-type]
            content_type="application/json",
            headers=headers,
        )
        return [part async for part in response.streaming_content]

    assert texts_of(chunks_in(run(read()))) == "Noted"
    assert ASSISTANT.wait_for_summaries(60)
    assert seen == [("tool", "acme"), ("title", "acme")]


def test_an_answer_that_is_no_stream(api: Client, conversation: Conversation) -> None:
    assert ask(api, conversation, "Hello").status_code == 200
    assert ASSISTANT.wait_for_summaries(60)
    assert seen == [("tool", "acme"), ("title", "acme")]


def test_who_follows_a_turn_after_the_middleware_has_returned(
    api: Client, conversation: Conversation, project: Any
) -> None:
    project.CHATMEMORY = {**project.CHATMEMORY, "ASSISTANT": "tests.support.assistants.assistant"}
    asked = set()

    def look(execute: Any, *arguments: Any) -> Any:
        asked.add(tenant())
        return execute(*arguments)

    gate = Gate()
    with turn_under_way(api, conversation, "Hello", gate):
        parts = iter(api.get(url(conversation, "turns/stream/")).streaming_content)
        with connection.execute_wrapper(look):
            beginning = next(parts)
            gate.go.set()
            assert texts_of(chunks_in([beginning, *parts])) == "Half whole"
    assert asked == {"acme"}


def test_a_function_that_returns_a_context_manager_says_what_to_return(
    api: Client, conversation: Conversation, project: Any
) -> None:
    project.CHATMEMORY = {**project.CHATMEMORY, "THREAD_CONTEXT": f"{__name__}.usable_once"}
    with pytest.raises(ImproperlyConfigured, match="must return a function that returns a context manager"):
        stream(api, conversation, "Hello")


def test_a_context_that_fails_ends_the_stream_with_an_error(
    api: Client, conversation: Conversation, project: Any
) -> None:
    project.CHATMEMORY = {**project.CHATMEMORY, "THREAD_CONTEXT": f"{__name__}.failing"}
    assert chunks_of(stream(api, conversation, "Hello"))[-1]["type"] == "error"
