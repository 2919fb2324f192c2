"""A model behind Gemini's API, through the ``google-genai`` package (extra ``gemini``)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from chatmemory.assistant.model import Answered, Thinking
from chatmemory.assistant.provider import Answer, Messages, ProviderChatModel, Tools, described
from chatmemory.core.exceptions import extra
from chatmemory.core.exceptions import gettext_noop as _
from chatmemory.core.json_text import with_replacements
from chatmemory.core.messages import AiMessage
from chatmemory.core.usage import Usage
from chatmemory.formats.gemini import from_gemini, to_gemini
from chatmemory.formats.usage import from_gemini as usage_from_gemini

with extra("gemini"):
    from google.genai import Client, errors
    from google.genai.types import GenerateContentConfig
    from pydantic import ValidationError

_WHOLE = ("STOP", "FINISH_REASON_UNSPECIFIED")
_FILTERS = ("SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "MODEL_ARMOR")
"""Reasons of a blocked answer. For images each has the prefix ``IMAGE_``."""


@dataclass(eq=False)
class _Answer(Answer):
    passed_on = errors.APIError
    cut_off = {
        "MAX_TOKENS": "the model's limit was reached",
        "MALFORMED_FUNCTION_CALL": "its call of a tool was malformed",
        "UNEXPECTED_TOOL_CALL": "it called a tool that it was not given",
        **dict.fromkeys(_FILTERS, "a content filter stopped it"),
    }
    no_stream = _("%(name)s did not answer as a stream of responses.")

    parts: list[dict[str, Any]] = field(default_factory=list)
    blocked: str | None = None

    def read(self, response: Any) -> None:
        self.take(response)

    def take(self, piece: Any) -> list[str | Thinking]:
        self.has_begun = True
        said: list[str | Thinking] = []
        with self._readable(piece):
            self._use(piece.usage_metadata, piece)
            if piece.prompt_feedback is not None and piece.prompt_feedback.block_reason is not None:
                self.blocked = piece.prompt_feedback.block_reason.value
                self.stop_reason = "FINISH_REASON_UNSPECIFIED"  # there is no candidate that ends
            for candidate in (piece.candidates or ())[:1]:
                if candidate.finish_reason is not None:
                    self.stop_reason = candidate.finish_reason.value
                for part in (candidate.content and candidate.content.parts) or ():
                    self._add(part.model_dump())
                    if part.text:
                        said.append(Thinking(part.text) if part.thought else part.text)
        return said or [""]

    def whole(self) -> Answered:
        if self.blocked and not self.parts:
            template = _("%(name)s returned an empty answer: the request was blocked (%(reason)s).")
            raise self._error(template, reason=self.blocked)
        return super().whole()

    @contextmanager
    def understood(self) -> Iterator[None]:
        try:
            with super().understood():
                yield
        except errors.UnknownApiResponseError as error:
            raise self._broken_json(str(error)) from error
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise self._not_understood(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        except (AttributeError, TypeError) as error:
            # The package takes for granted that there are objects and lists where there should be.
            raise self._not_understood(str(error)) from error

    def _says_more(self, error: Exception) -> bool:
        return super()._says_more(error) or not self.has_begun

    def _why_cut_off(self) -> str | None:
        if self.stop_reason is None or self.stop_reason in _WHOLE:
            return None
        return self.cut_off.get(self.stop_reason.removeprefix("IMAGE_"), f"it ended with {self.stop_reason}")

    def _add(self, part: dict[str, Any]) -> None:
        part = {key: value for key, value in part.items() if value is not None}
        before = self.parts[-1] if self.parts else {}
        if part.keys() <= {"text", "thought"} and not part.get("text"):
            return
        # A text with a signature stays apart: Gemini wants it back as it came.
        if _is_plain(part) and _is_plain(before) and bool(part.get("thought")) == bool(before.get("thought")):
            before["text"] += part["text"]
        else:
            self.parts.append(part)

    def _message(self) -> AiMessage:
        with self._readable(self.parts):
            [message] = from_gemini(with_replacements([{"role": "model", "parts": self.parts}]))
            assert isinstance(message, AiMessage)
        return message

    def _usage(self) -> Usage:
        return usage_from_gemini(self.used)


def _is_plain(part: Mapping[str, Any]) -> bool:
    return "text" in part and part.keys() <= {"text", "thought"}


class GeminiChatModel(ProviderChatModel):
    """A model that gets the memory as ``to_gemini`` writes and repairs it.

    The signatures of its thoughts and calls are kept beside the answer, and sent back. The package checks the types
    of a response, so a response with a wrong type is a ``ModelError``.
    """

    answer_class = _Answer
    client_class = async_client_class = Client
    keys = ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI")

    def __init__(self, model: str, *, client: Client | None = None, **options: Any) -> None:
        """
        Args:
            model: its name.
            client: by default ``Client()``, which reads ``GEMINI_API_KEY``; for async code each event loop has its own.
                It has no time-out: ``Client(http_options={"timeout": 60_000})`` has one of a minute, which should be
                below the assistant's ``turn_timeout``.
            options: fields of ``GenerateContentConfig``, such as ``thinking_config={"include_thoughts": True}``. Tools
                of Gemini's own in ``tools`` stand before the assistant's.
        """
        super().__init__(model, client, client, options)

    def _named(self, client: Any) -> str:
        return self.name

    def _provider_of(self, client: Any) -> str:
        return "google"

    def _request(self, client: Any, messages: Messages, tools: Tools) -> dict[str, Any]:
        written = to_gemini(messages)
        config = {**self._options, "automatic_function_calling": {"disable": True}}  # the assistant calls them
        if "system_instruction" in written:
            config["system_instruction"] = written["system_instruction"]
        if tools:
            own = {"function_declarations": described(tools, "parameters_json_schema")}
            config["tools"] = [*(config.get("tools") or ()), own]
        # Made here, so that an error in the options is not taken for one in the answer.
        return {"model": self.name, "contents": written["contents"], "config": GenerateContentConfig(**config)}

    def _send(self, client: Any, request: dict[str, Any], *, streams: bool = False) -> Any:
        if streams:
            return closing(client.models.generate_content_stream(**request))
        return client.models.generate_content(**request)

    async def _asend(self, client: Any, request: dict[str, Any], *, streams: bool = False) -> Any:
        if streams:
            return aclosing(_read_ahead(await client.aio.models.generate_content_stream(**request)))
        return await client.aio.models.generate_content(**request)


async def _read_ahead(items: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    """Yield the items, which a task of its own reads.

    Closing a generator does not close those within it, on whose end the connection of ``google-genai`` waits: they
    would go on until they are collected as garbage. A task that is cancelled while it waits in them ends them all.
    """
    read: asyncio.Queue[tuple[Any] | Exception | None] = asyncio.Queue()

    async def read_all() -> None:
        try:
            async for item in items:
                read.put_nowait((item,))
        except Exception as error:
            read.put_nowait(error)
        else:
            read.put_nowait(None)

    reader = asyncio.create_task(read_all())
    try:
        while (got := await read.get()) is not None:
            if isinstance(got, Exception):
                raise got
            yield got[0]
    finally:
        reader.cancel()
        await asyncio.wait([reader])
