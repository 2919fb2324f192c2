"""A conversation as Pydantic AI's message history.

::

    from pydantic_ai import Agent
    from chatmemory.contrib.pydantic_ai import DjangoMessageHistory

    history = DjangoMessageHistory("support-42", owner=request.user, window="messages", limit=50)
    result = agent.run_sync("Where is my parcel?", message_history=history.messages())
    history.add(result.new_messages())

What it promises:

- ``messages()`` returns the messages that were added, as equal objects: ``ModelMessagesTypeAdapter`` reads what it
  wrote. It is the memory: the window bounds what the model gets, and history and admin keep all.
- A response is one message. A request is one message for each of its parts: tool results, the system message, the
  user's prompt; messages of one request that are still next to each other become one request again. So after an
  eviction there may be a part of a request, with its instructions.
- A tool result without its call is never returned after an eviction: the window evicts both, or the result is left
  out. Before the first eviction all is as it was added, including what Pydantic AI itself repairs when it sends it.
- A memory holds one system message: all ``SystemPromptPart`` of one request. Those of a later request take its place,
  and equal ones add nothing. A part that holds for one request only, or changes an earlier part, does not count.
- A retry and a summary are messages of the user, as Pydantic AI sends them. Parts without text for people (changes of
  tools, instructions and settings, tools that ran at the provider, files of the model) are kept with the message next
  to them, which names them in its attributes; a request of nothing else is a custom message.
- The messages of other programs become requests and responses; content that these cannot express is a text in brackets.
- No database takes U+0000 or a lone surrogate in a text: U+FFFD takes its place, and the signal
  ``memory_repaired`` tells of it.

Source: ``pydantic_ai.messages`` of pydantic-ai-slim 2.68.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Unpack

from chatmemory.contrib.native_memory import (
    ConversationSettings,
    NativeMemory,
    async_change,
    async_read,
    left_as_found,
    valid_rows,
    without_stale_thinking,
)
from chatmemory.core.arguments import require_list
from chatmemory.core.exceptions import extra
from chatmemory.core.json_text import with_replacements
from chatmemory.core.messages import ChatMessage
from chatmemory.formats.usage import read_usage

with extra("pydantic-ai"):
    from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse
    from pydantic_core import PydanticSerializationError

    from chatmemory.formats.pydantic_ai import FRAMEWORK, answer, model_message, said_in

_ANTHROPIC = ("anthropic", "bedrock")


class DjangoMessageHistory:
    """The ``message_history`` of agents, under one memory ID. The first message creates the conversation.

    The ``a…`` methods are async versions.
    """

    def __init__(self, memory_id: str, *, owner: Any = None, **settings: Unpack[ConversationSettings]) -> None:
        """
        Args:
            memory_id: the memory ID of the conversation.
            owner: the user who owns the conversation; None for one without an owner.
            settings: those of a new conversation, see
                ``ConversationSettings``.

        Raises:
            TypeError: there is no such setting.
            ValueError: an anonymous or unsaved user, an ID that is empty or too long, or settings that no conversation
                can have.
        """
        self._memory = NativeMemory(FRAMEWORK, memory_id, owner, **settings)

    @left_as_found()
    def messages(self) -> list[ModelMessage]:
        """Return the messages of the memory, for ``message_history=``.

        Raises:
            pydantic.ValidationError: a ``ValueError``; a newer Pydantic AI wrote something that this one does not know.
        """
        made: list[ModelMessage | None] = []
        native: list[dict[str, Any]] = []
        request: tuple[int, int] | None = None
        parts: dict[int, Any] = {}
        rows = list(valid_rows(self._memory))
        forms = [row.native_of(FRAMEWORK) for row, _ in rows]
        forms = without_stale_thinking(rows, forms, _without_signed_thinking)
        for (row, message), form in zip(rows, forms, strict=True):
            if form is None:
                made.append(model_message(message, row.created_at))
                request = None
                continue
            of = (row.added_in, form["request"]) if "request" in form else None
            if of is None or of != request:
                made.append(None)
                native.append(form["message"])
                parts = {}
            request = of
            if of is not None:
                parts |= dict(zip(form["parts"], form["message"]["parts"], strict=True))
                native[-1]["parts"] = [parts[index] for index in sorted(parts)]
        read = iter(ModelMessagesTypeAdapter.validate_json(json.dumps(native)))
        return [next(read) if message is None else message for message in made]

    @left_as_found()
    def add(self, messages: Iterable[ModelMessage]) -> None:
        """Add all of ``messages`` or none: ``add(result.new_messages())``.

        Raises:
            TypeError: they are no list.
        """
        given, plain = plain_messages(require_list(messages, "messages"))
        # Read as they will be read later: the package brings older kinds of parts up to date.
        read = ModelMessagesTypeAdapter.validate_json(json.dumps(plain))
        said = [one for number, message in enumerate(read) for one in said_of(message, number, plain[number])]
        forms = [form for number, message in enumerate(read) for _, form in said_of(message, number, given[number])]
        replaced = [index for index, (_, form) in enumerate(said) if form != forms[index]]
        usages = [read_usage(message) for message in read if isinstance(message, ModelResponse)]
        self._memory.add([message for message, _ in said], [form for _, form in said], replaced, usages)

    @left_as_found()
    def clear(self) -> None:
        """Evict all messages; history keeps them."""
        self._memory.clear()

    amessages = async_read(messages)
    aadd = async_change(add)
    aclear = async_change(clear)


def plain_messages(messages: list[ModelMessage]) -> tuple[list[Any], list[Any]]:
    """Return the messages as JSON values, as they are and with U+FFFD for what has no UTF-8."""
    try:
        plain = json.loads(ModelMessagesTypeAdapter.dump_json(messages))
    except PydanticSerializationError:  # a lone surrogate
        given = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
        return given, [with_replacements(message) for message in given]
    return plain, plain


def _without_signed_thinking(form: Any) -> Any:
    """Return the form of a response without the thinking that Anthropic's models wrote; None if it has none."""
    if form is None or form["message"]["kind"] != "response":
        return None
    parts = form["message"]["parts"]
    rest = [part for part in parts if not (part["part_kind"] == "thinking" and part["provider_name"] in _ANTHROPIC)]
    return None if len(rest) == len(parts) else {**form, "message": {**form["message"], "parts": rest}}


def said_of(
    message: ModelMessage, request: int | str, plain: dict[str, Any]
) -> Iterator[tuple[ChatMessage, dict[str, Any]]]:
    """Yield the messages made of one of Pydantic AI's, each with its form, which keeps times and IDs.

    Args:
        message: the message.
        request: identifies the request among those that are added together.
        plain: the message as a JSON object.
    """
    if isinstance(message, ModelResponse):
        yield answer(message), {"message": plain}
        return
    for said in said_in(message):
        indexes = sorted(said.parts)
        parts = [plain["parts"][index] for index in indexes]
        yield said.message, {"request": request, "parts": indexes, "message": {**plain, "parts": parts}}
