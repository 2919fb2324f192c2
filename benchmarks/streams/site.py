"""The assistant, and the bare views that do the same without a memory."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any

from django.contrib.auth import get_user_model
from django.http import HttpRequest, StreamingHttpResponse
from django.views.decorators.csrf import csrf_exempt
from openai import AsyncOpenAI, OpenAI

from chatmemory.assistant import Assistant
from chatmemory.assistant.openai import OpenAiChatModel

__all__ = ["abare", "assistant", "bare"]

_MODEL = "tiny"

assistant = Assistant(OpenAiChatModel(_MODEL))


@cache
def _client() -> OpenAI:
    return OpenAI()


@cache
def _async_client() -> AsyncOpenAI:
    return AsyncOpenAI()  # uvicorn has one event loop


@csrf_exempt
def bare(request: HttpRequest) -> StreamingHttpResponse:
    """Stream an answer, under WSGI. The user is read from the database, as our views do."""
    get_user_model()._default_manager.order_by("pk")[0]
    return _streaming(_parts(_asked(request)))


@csrf_exempt
async def abare(request: HttpRequest) -> StreamingHttpResponse:
    """Stream an answer, under ASGI."""
    await get_user_model()._default_manager.order_by("pk").afirst()
    return _streaming(_aparts(_asked(request)))


def _asked(request: HttpRequest) -> dict[str, Any]:
    said = json.loads(request.body)["message"]
    return {"model": _MODEL, "messages": [{"role": "user", "content": said}], "stream": True}


def _parts(asked: dict[str, Any]) -> Iterator[str]:
    for chunk in _client().chat.completions.create(**asked):
        if chunk.choices and (piece := chunk.choices[0].delta.content):
            yield _part(piece)
    yield "data: [DONE]\n\n"


async def _aparts(asked: dict[str, Any]) -> AsyncIterator[str]:
    async for chunk in await _async_client().chat.completions.create(**asked):
        if chunk.choices and (piece := chunk.choices[0].delta.content):
            yield _part(piece)
    yield "data: [DONE]\n\n"


def _part(piece: str) -> str:
    return f"data: {json.dumps({'type': 'text-delta', 'id': '1', 'delta': piece})}\n\n"


def _streaming(parts: Any) -> StreamingHttpResponse:
    return StreamingHttpResponse(parts, content_type="text/event-stream")
