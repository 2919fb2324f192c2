"""The writer of Anthropic's messages; see :mod:`chatmemory.formats.anthropic`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from chatmemory.core.arguments import tuple_of
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.messages import AiMessage, ChatMessage, SystemMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.formats import CannotExpressError, UnsupportedContentError
from chatmemory.formats.anthropic.block_writer import answer_blocks, content_block
from chatmemory.formats.anthropic.reader import ATTRIBUTE, read_answer, read_contents
from chatmemory.formats.plain import plain
from chatmemory.formats.rules import Names, Repair, RepairReason, Rules
from chatmemory.formats.validity import make_valid

__all__ = ["to_anthropic"]

_THINKING = ("thinking", "redacted_thinking")


def to_anthropic(
    messages: Iterable[ChatMessage], on_repair: Callable[[Repair], object] | None = None
) -> dict[str, Any]:
    """``messages`` and, if there is a system message, ``system``: ``create(model=…, max_tokens=…, **to_anthropic(…))``.

    Anthropic accepts the result whatever the memory holds.

    Args:
        on_repair: called with each repair, in the order of the messages.

    Raises:
        UnsupportedContentError: a ``ValueError``; the format cannot express a message. Nothing is left out in silence.
        TypeError: something is no message.
    """
    given: tuple[ChatMessage, ...] = tuple_of(ChatMessage, messages, "messages")
    valid = make_valid(given, _RULES)
    repairs = valid.repairs
    system: list[dict[str, Any]] = []
    turns: list[dict[str, Any]] = []
    for position, message in zip(valid.positions, valid.messages, strict=True):
        if isinstance(message, SystemMessage):
            system.append({"type": "text", "text": message.text})
            continue
        try:
            role, blocks = _blocks(message)
        except CannotExpressError as error:
            raise UnsupportedContentError(str(error), position, given[position]) from None
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    if turns[-1]["role"] == "assistant":
        repairs = [*repairs, *_strip_end(turns[-1]["content"], valid.positions)]
    if on_repair is not None:
        for repair in repairs:
            on_repair(repair)
    written: dict[str, Any] = {"system": _content(system)} if system else {}
    return written | {"messages": [turn | {"content": _content(turn["content"])} for turn in turns]}


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
    kept = _kept(message)
    if kept is not None:
        try:
            if read_contents(kept) == list(message.contents):
                return _sayable(kept)
        except (InvalidMessageError, TypeError):
            pass  # it is somebody else's
    return [content_block(content) for content in message.contents]


def _answer_blocks(message: AiMessage) -> list[dict[str, Any]]:
    blocks = _kept_answer(message)
    blocks = _sayable(answer_blocks(message) if blocks is None else blocks)
    while blocks and blocks[-1]["type"] in _THINKING:
        blocks.pop()
    return blocks


def _kept_answer(message: AiMessage) -> list[dict[str, Any]] | None:
    kept = _kept(message)
    if kept is None:
        return None
    try:
        answer = read_answer(kept)
    except (InvalidMessageError, TypeError):
        return None  # it is somebody else's
    same = (answer.text, answer.thinking, answer.tool_execution_requests) == (
        message.text,
        message.thinking,
        message.tool_execution_requests,
    )
    return kept if same else None


def _kept(message: UserMessage | AiMessage) -> list[Any] | None:
    """The blocks that ``from_anthropic`` kept aside. Attributes are anybody's, so nothing is taken for sure."""
    kept = message.attributes.get(ATTRIBUTE)
    content = kept.get("content") if isinstance(kept, Mapping) else None
    return [plain(block) for block in content] if isinstance(content, (list, tuple)) else None


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
    """The blocks, or a text that is all they are."""
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
