"""A site of async views: they add, read, and take turns with a model that may fail at any moment.

``CHATMEMORY_TEST_FAILURES`` is how often it does, from 0 to 1, and ``CHATMEMORY_TEST_TURN_TIMEOUT`` the assistant's.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.urls import path

from chatmemory import AiMessage, ChatMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.assistant import Assistant, AssistantError, ChatModel, ToolSpecification
from chatmemory.models import Conversation

_chance = random.Random()
_FAILURES = float(os.environ.get("CHATMEMORY_TEST_FAILURES", "0"))
_LONGEST = 0.01  # seconds between two pieces


class ModelFailure(Exception):
    """The model is away."""


class Talker(ChatModel):
    """Answers ``Re:`` and all that users said since its last answer; now and then it calls tools before."""

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage:
        raise NotImplementedError

    async def achat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage:
        pieces = [piece async for piece in self.astream(messages, tools)]
        assert isinstance(pieces[-1], AiMessage)
        return pieces[-1]

    async def astream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]
    ) -> AsyncIterator[str | AiMessage]:
        await _perhaps_fail()
        if not isinstance(messages[-1], ToolExecutionResultMessage) and _chance.random() < 0.3:
            names = [_chance.choice(["look_up", "gone"]) for _ in range(_chance.randint(1, 3))]
            calls = [ToolExecutionRequest(f"{number}", name, "{}") for number, name in enumerate(names)]
            yield AiMessage(None, calls)
            return
        said: list[str] = []
        for message in messages:
            if isinstance(message, UserMessage):
                said.append(message.single_text())
            elif isinstance(message, AiMessage) and not message.tool_execution_requests:
                said = []
        answer = f"Re: {' | '.join(said)}"
        for word in answer.split(" "):
            yield f"{word} "
            await _perhaps_fail()
        yield AiMessage(answer)


async def _perhaps_fail() -> None:
    await asyncio.sleep(_chance.random() * _LONGEST)
    if _chance.random() < _FAILURES:
        raise ModelFailure("away")


async def look_up() -> str:
    """Looks something up."""
    await _perhaps_fail()
    return "found"


assistant = Assistant(
    Talker(),
    memory=lambda pk: Conversation.objects.get(pk=pk).memory,
    tools=[look_up],
    turn_timeout=float(os.environ.get("CHATMEMORY_TEST_TURN_TIMEOUT", "60")),
)


async def add(request: HttpRequest, pk: str) -> HttpResponseBase:
    given = json.loads(request.body)
    conversation = await Conversation.objects.aget(pk=pk)
    messages = [UserMessage(text) for text in given["said"]]
    change = await conversation.memory.aadd(*messages, idempotency_key=given.get("key"))
    return JsonResponse({"positions": [row.position for row in change.added]})


async def memory(request: HttpRequest, pk: str) -> HttpResponseBase:
    conversation = await Conversation.objects.aget(pk=pk)
    return JsonResponse({"texts": [_text(message) for message in await conversation.memory.amessages()]})


async def chat(request: HttpRequest, pk: str) -> HttpResponseBase:
    given = json.loads(request.body)
    try:
        answer = await assistant.achat(pk, given["text"], idempotency_key=given["key"])
    except (ModelFailure, AssistantError) as error:
        return JsonResponse({"error": str(error)}, status=503)
    return JsonResponse({"text": answer.text})


async def stream(request: HttpRequest, pk: str) -> HttpResponseBase:
    given = json.loads(request.body)

    async def pieces() -> AsyncIterator[str]:
        try:
            async for event in assistant.astream(pk, given["text"], idempotency_key=given["key"]):
                if isinstance(event, str):
                    yield json.dumps({"piece": event}) + "\n"
            yield json.dumps({"done": True}) + "\n"
        except (ModelFailure, AssistantError) as error:
            yield json.dumps({"error": str(error)}) + "\n"

    return StreamingHttpResponse(pieces(), content_type="application/x-ndjson")


def _text(message: Any) -> str:
    return message.single_text() if isinstance(message, UserMessage) else message.text or ""


urlpatterns = [
    path("<uuid:pk>/add/", add),
    path("<uuid:pk>/memory/", memory),
    path("<uuid:pk>/chat/", chat),
    path("<uuid:pk>/stream/", stream),
]
