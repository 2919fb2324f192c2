"""The assistant of the tests' project, whose model each test chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from chatmemory import AiMessage, ChatMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.assistant import Answered, Assistant, ChatModel, ToolContext, ToolError, ToolSpecification

__all__ = ["Speaker", "assistant", "choose", "echo", "look_up", "recalling", "text_of"]


class Speaker(ChatModel):
    """A model that is a function of the messages, which yields the pieces of its answer and at last the answer."""

    name = "speaker"

    def __init__(self, speak: Callable[[Sequence[ChatMessage]], Iterator[Any]]) -> None:
        self._speak = speak

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage | Answered:
        *_, last = self._speak(messages)
        return last

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Iterator[Any]:
        yield from self._speak(messages)


def text_of(message: ChatMessage) -> str:
    """Return the text of a user's message."""
    assert isinstance(message, UserMessage)
    return "".join(getattr(content, "text", "") for content in message.contents)


def echo(messages: Sequence[ChatMessage]) -> Iterator[Any]:
    """Call a tool for "order N", and otherwise repeat what the user said, in two pieces."""
    last = messages[-1]
    if isinstance(last, ToolExecutionResultMessage):
        answer = f"It says: {last.text}"
    else:
        said = text_of(last)
        if said.startswith("order "):
            yield AiMessage(None, [ToolExecutionRequest("call-1", "look_up", f'{{"number": "{said[6:]}"}}')])
            return
        answer = f"You said: {said}"
    yield answer[:5]
    yield answer[5:]
    yield AiMessage(answer)


def look_up(number: str, context: ToolContext) -> str:
    """Say where an order is."""
    if number == "0":
        raise ToolError("There is no order 0.")
    return f"order {number} of {context.owner} is on its way"


_chosen: list[ChatModel] = [Speaker(echo)]


def choose(model: ChatModel | None) -> None:
    """Let this model answer from now on; None for the one that repeats."""
    _chosen[0] = model or Speaker(echo)


def assistant(request: Any) -> Assistant:
    """Return the assistant that ``CHATMEMORY["ASSISTANT"]`` of the tests names."""
    return Assistant(_chosen[0], tools=[look_up], max_sequential_tools_invocations=5, turn_timeout=90)


def recalling(request: Any) -> Assistant:
    """Return an assistant whose model gets quotations of what left the memory."""
    return Assistant(_chosen[0], tools=[look_up], recall="preload")
