"""The writer of Anthropic's messages; see :mod:`chatmemory.formats.anthropic`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from chatmemory.core.arguments import tuple_of
from chatmemory.core.messages import AiMessage, ChatMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.formats import CannotExpressError
from chatmemory.formats.anthropic.block_writer import (
    REDACTED_THINKING,
    THINKING_SIGNATURE,
    answer_blocks,
    content_block,
)
from chatmemory.formats.anthropic.reader import ATTRIBUTE, read_answer, read_contents
from chatmemory.formats.kept_parts import is_same_answer, kept_pieces
from chatmemory.formats.rules import Names, Repair, RepairReason, Rules
from chatmemory.formats.thinking import Thinking, without_stale_thinking
from chatmemory.formats.transcript import write_transcript
from chatmemory.formats.validity import make_valid

__all__ = ["to_anthropic"]

_THINKING = ("thinking", "redacted_thinking")

_OWN_ATTRIBUTES = (ATTRIBUTE, THINKING_SIGNATURE, REDACTED_THINKING)

_NAMES = r"[^a-zA-Z0-9_-]"
_RULES = Rules(
    ids=Names(_NAMES, 64),
    unique_ids=True,
    tool_names=Names(_NAMES, 128),
    object_arguments=True,
    blank_texts=False,
    text_errors=True,
    user_first=True,
    says_nothing=lambda message: not _answer_blocks(message),
)


def to_anthropic(
    messages: Iterable[ChatMessage],
    on_repair: Callable[[Repair], object] | None = None,
    *,
    thinking: Thinking = "all",
) -> dict[str, Any]:
    """Return ``messages`` and, with a system message, ``system``: ``create(model=…, max_tokens=…, **to_anthropic(…))``.

    Anthropic accepts whatever is returned; a message that it has no place for is an error.

    Args:
        on_repair: called with each repair, in the order of the messages.
        thinking: the answers whose thinking may be sent: ``"all"``, if nothing before them was changed since they were
            written; ``"none"``; or the indexes of those before which nothing was changed. With indexes, that of the
            turn under way is sent as well.

    Raises:
        ValueError: ``thinking`` is another text.
        UnsupportedContentError: a ``ValueError``; the format cannot express a message. Nothing is left out in silence.
        TypeError: something is no message.
    """
    given: tuple[ChatMessage, ...] = tuple_of(ChatMessage, messages, "messages")
    valid = without_stale_thinking(make_valid(given, _RULES), given, thinking, _without_thinking)
    repairs = valid.repairs
    transcript = write_transcript(valid, given, _blocks)
    role, blocks = transcript.turns[-1]
    if role == "assistant":
        repairs = [*repairs, *_strip_end(blocks, valid.positions)]
    if on_repair is not None:
        for repair in repairs:
            on_repair(repair)
    system = [{"type": "text", "text": text} for text in transcript.system]
    turns = [{"role": role, "content": _content(blocks)} for role, blocks in transcript.turns]
    return ({"system": _content(system)} if system else {}) | {"messages": turns}


def _blocks(message: ChatMessage) -> tuple[str, list[dict[str, Any]]]:
    match message:
        case UserMessage():
            return "user", _user_blocks(message)
        case AiMessage():
            return "assistant", _answer_blocks(message)
        case ToolExecutionResultMessage():
            return "user", [_tool_result(message)]
    raise CannotExpressError("Anthropic has no such messages")


def _user_blocks(message: UserMessage) -> list[dict[str, Any]]:
    kept = kept_pieces(message, ATTRIBUTE, "content", lambda blocks: read_contents(blocks) == list(message.contents))
    return [content_block(content) for content in message.contents] if kept is None else _sayable(kept)


def _kept_blocks(message: AiMessage) -> list[dict[str, Any]] | None:
    return kept_pieces(message, ATTRIBUTE, "content", lambda blocks: is_same_answer(read_answer(blocks), message))


def _answer_blocks(message: AiMessage) -> list[dict[str, Any]]:
    kept = _kept_blocks(message)
    blocks = _sayable(answer_blocks(message) if kept is None else kept)
    while blocks and blocks[-1]["type"] in _THINKING:
        blocks.pop()
    return blocks


def _without_thinking(message: AiMessage) -> AiMessage | None:
    if all(block["type"] not in _THINKING for block in _answer_blocks(message)):
        return None
    attributes = {key: value for key, value in message.attributes.items() if key not in _OWN_ATTRIBUTES}
    kept = _kept_blocks(message)
    if kept is not None:
        attributes[ATTRIBUTE] = {"content": [block for block in kept if block["type"] not in _THINKING]}
    return AiMessage(message.text, message.tool_execution_requests, attributes=attributes)


def _sayable(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [block for block in blocks if block["type"] != "text" or block["text"].strip()]


def _tool_result(message: ToolExecutionResultMessage) -> dict[str, Any]:
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": message.id}
    content = _content([content_block(content) for content in message.contents])
    if content:
        result["content"] = content
    if message.is_error is not None:
        result["is_error"] = message.is_error
    return result


def _content(blocks: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Return the blocks, or the text of a single one that is nothing but text."""
    if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
        text: str = blocks[0]["text"]
        return text
    return blocks


def _strip_end(blocks: list[dict[str, Any]], positions: list[int]) -> Iterable[Repair]:
    last = blocks[-1]
    if last["type"] == "text" and last["text"] != last["text"].rstrip():
        blocks[-1] = last | {"text": last["text"].rstrip()}
        what = "White space at the end of the last answer was left out."
        yield Repair(positions[-1], RepairReason.TRAILING_SPACE, what)
