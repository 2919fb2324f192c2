"""The writer of Anthropic's messages; see :mod:`chatmemory.formats.anthropic`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, takewhile
from typing import Any, cast

from chatmemory.core.arguments import tuple_of
from chatmemory.core.messages import AiMessage, ChatMessage, SystemMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.formats import CannotExpressError, naming_message
from chatmemory.formats.anthropic.block_writer import (
    REDACTED_THINKING,
    THINKING_SIGNATURE,
    answer_blocks,
    content_block,
    is_compaction,
    is_sendable,
    is_summary,
    is_thinking,
)
from chatmemory.formats.anthropic.reader import (
    ATTRIBUTE,
    clean_blocks,
    clean_contents,
    read_answer,
    read_contents,
)
from chatmemory.formats.kept_parts import (
    Half,
    given_up,
    is_same_answer,
    kept_pieces,
    with_attributes,
    without_lone_halves,
    without_refused,
    write_transcript,
)
from chatmemory.formats.rules import Names, Repair, RepairReason, Rules, tell
from chatmemory.formats.thinking import Thinking, without_stale_thinking
from chatmemory.formats.validity import Valid, make_valid

_BEHIND_ANSWER = "Thinking was left out, because another answer begins its turn."
_LEADS_NOWHERE = "Thinking was left out, because nothing is said after it."
_SENT_BEFORE = "What ran at Anthropic was left out of an answer, because it was sent before."
_OWN_ATTRIBUTES = (ATTRIBUTE, THINKING_SIGNATURE, REDACTED_THINKING)
_RAN = ("server_tool_use", "mcp_tool_use")
_NAMES = r"[^a-zA-Z0-9_-]"
_RULES = Rules(
    ids=Names(_NAMES, 64),
    unique_ids=True,
    tool_names=Names(_NAMES, 128),
    object_arguments=True,
    blank_texts=False,
    text_errors=True,
    user_first=True,
    must_be_first=lambda message: any(
        block.get("signature") for block in _kept_blocks(message) or () if is_summary(block)
    ),
    says_nothing=lambda message: not _answer_blocks(message),
)


def to_anthropic(
    messages: Iterable[ChatMessage],
    on_repair: Callable[[Repair], object] | None = None,
    *,
    thinking: Thinking = "all",
) -> dict[str, Any]:
    """Return ``messages`` and, with a system message, ``system``: ``create(model=…, max_tokens=…, **to_anthropic(…))``.

    Anthropic accepts whatever is returned, as long as ``thinking`` is true of the messages. A message that it has no
    place for is an error.

    Args:
        on_repair: called with each repair, in the order of the messages.
        thinking: the answers whose thinking may be sent: ``"all"``, if nothing before them was changed since they were
            written; ``"none"``; or the indexes of the answers before which nothing was changed. With indexes, the
            thinking of the turn under way is sent as well.

    Raises:
        ValueError: ``thinking`` is another text.
        UnsupportedContentError: a ``ValueError``; the format cannot express a message. Nothing is left out in silence.
        TypeError: something is no message.
    """
    given: tuple[ChatMessage, ...] = tuple_of(ChatMessage, messages, "messages")
    repairs: list[Repair] = []
    sent: set[str] = set()
    sendable = list(without_refused(given, ATTRIBUTE, lambda answer: _sent_before(answer, sent), repairs))
    valid = make_valid(sendable, _RULES)
    repairs += [*valid.repairs, *given_up(sendable, valid, _kept_blocks)]
    lost = {repair.position for repair in repairs if repair.reason is RepairReason.REASONING}
    valid, behind = without_lone_halves(valid, _kept_blocks, _half, _with_blocks, repairs)
    lost |= {position for position, blocks in behind.items() if any(map(is_thinking, blocks))}
    valid, later = _without_later_thinking(valid, given, repairs)
    valid = without_stale_thinking(valid, given, thinking, _without_thinking, repairs, lost, {*lost, *behind, *later})
    thinks_last: list[AiMessage] = []
    texts, turns = write_transcript(valid, given, lambda message: _blocks(message, thinks_last))
    repairs += [
        Repair(position, RepairReason.REASONING, _LEADS_NOWHERE)
        for position, message in zip(valid.positions, valid.messages, strict=True)
        if any(message is answer for answer in thinks_last)
    ]
    role, blocks = turns[-1]
    if role == "assistant":
        repairs += _strip_end(blocks, valid)
    tell(repairs, on_repair)
    system = [{"type": "text", "text": text} for text in texts]
    written = [{"role": role, "content": _content(blocks)} for role, blocks in turns]
    return ({"system": _content(system)} if system else {}) | {"messages": written}


def _blocks(message: ChatMessage, thinks_last: list[AiMessage]) -> tuple[str, list[dict[str, Any]]]:
    """Return who speaks, and the blocks. ``thinks_last`` gets an answer that ends with thinking, which is left out."""
    match message:
        case UserMessage():
            return "user", _user_blocks(message)
        case AiMessage():
            blocks = _sendable_blocks(message)
            if is_thinking(blocks[-1]):
                thinks_last.append(message)
            return "assistant", _without_last_thinking(blocks)
        case ToolExecutionResultMessage():
            return "user", [_tool_result(message)]
    raise CannotExpressError("%(api)s has no such messages", api="Anthropic")


def _user_blocks(message: UserMessage) -> list[dict[str, Any]]:
    def is_same(blocks: list[dict[str, Any]]) -> bool:
        # The message has lost its blank texts already.
        return read_contents(_sendable(blocks)) == list(message.contents)

    kept = kept_pieces(message, ATTRIBUTE, "content", clean_contents, is_same)
    return [content_block(content) for content in message.contents] if kept is None else _sendable(kept)


def _kept_blocks(message: AiMessage) -> list[dict[str, Any]] | None:
    """Return the blocks that ``from_anthropic`` kept aside; None if there are none to write."""
    return kept_pieces(
        message, ATTRIBUTE, "content", clean_blocks, lambda blocks: is_same_answer(read_answer(blocks), message)
    )


def _sent_before(message: AiMessage, sent: set[str]) -> str | None:
    """Return what must be left out because its IDs are among those sent; otherwise None, and add the IDs to them."""
    ids = [str(block.get("id")) for block in _kept_blocks(message) or () if block["type"] in _RAN]
    if len({*ids}) < len(ids) or not sent.isdisjoint(ids):
        return _SENT_BEFORE
    sent.update(ids)
    return None


def _half(block: dict[str, Any]) -> Half:
    """Return what a block is in the run of a tool at Anthropic."""
    caller = block.get("caller")
    tool_id = caller.get("tool_id") if isinstance(caller, Mapping) else None
    code = tool_id if isinstance(tool_id, str) else None
    if block["type"] in _RAN:
        return Half("call", str(block.get("id")), code)
    if block["type"].endswith("_tool_result"):
        return Half("result", str(block.get("tool_use_id")), code)
    return Half(caller=code)


def _with_blocks(message: AiMessage, blocks: list[dict[str, Any]]) -> AiMessage | None:
    """Return an answer with other blocks, which say the same; None if Anthropic would get none of them."""
    rest = with_attributes(message, {**message.attributes, ATTRIBUTE: {"content": blocks}})
    return rest if _answer_blocks(rest) else None


def _answer_blocks(message: AiMessage) -> list[dict[str, Any]]:
    return _without_last_thinking(_sendable_blocks(message))


def _without_last_thinking(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    while blocks and is_thinking(blocks[-1]):
        blocks.pop()
    return blocks


def _sendable_blocks(message: AiMessage) -> list[dict[str, Any]]:
    kept = _kept_blocks(message)
    return _sendable(answer_blocks(message) if kept is None else kept)


def _without_thinking(message: AiMessage) -> AiMessage | None:
    """Return an answer without its thinking; None if it has none that would be sent."""
    if not any(map(is_thinking, _answer_blocks(message))):
        return None
    attributes = {key: value for key, value in message.attributes.items() if key not in _OWN_ATTRIBUTES}
    kept = _kept_blocks(message)
    if kept is not None:
        attributes[ATTRIBUTE] = {"content": [block for block in kept if not is_thinking(block)]}
    return AiMessage(message.text, message.tool_execution_requests, attributes=attributes)


def _sendable(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [block for block in blocks if is_sendable(block)]


def _without_later_thinking(
    valid: Valid, given: Sequence[ChatMessage], repairs: list[Repair]
) -> tuple[Valid, list[int]]:
    """Return a valid memory whose answers do not begin to think behind what another one says in the same turn.

    Anthropic refuses a turn that has thinking and does not begin with it, and thinking that is moved is not the model's
    any more.

    Returns:
        The memory, and the positions of the answers that have lost their thinking.
    """
    messages = list(valid.messages)
    positions = []
    said = [index for index, message in enumerate(messages) if not isinstance(message, SystemMessage)]
    for is_answer, group in groupby(said, lambda index: isinstance(messages[index], AiMessage)):
        neighbours = list(group)
        begins_with: list[dict[str, Any]] = []
        for index in neighbours if is_answer and len(neighbours) > 1 else ():
            message = cast(AiMessage, messages[index])
            with naming_message(given, valid.positions[index]):
                blocks = _answer_blocks(message)
            first = list(takewhile(lambda block: is_thinking(block) or is_compaction(block), blocks))
            if any(map(is_summary, first)):
                begins_with = []
            elif begins_with and not is_thinking(begins_with[0]) and any(map(is_thinking, first)):
                messages[index] = _without_thinking(message) or message
                positions.append(valid.positions[index])
            begins_with = begins_with or [block for block in blocks if not is_compaction(block)]
    repairs += [Repair(position, RepairReason.REASONING, _BEHIND_ANSWER) for position in positions]
    return replace(valid, messages=messages), positions


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


def _strip_end(blocks: list[dict[str, Any]], valid: Valid) -> Iterable[Repair]:
    last = blocks[-1]
    if last["type"] == "text" and last["text"] != last["text"].rstrip():
        blocks[-1] = last | {"text": last["text"].rstrip()}
        what = "White space at the end of the last answer was left out."
        said = zip(valid.positions, valid.messages, strict=True)
        position = [position for position, message in said if isinstance(message, AiMessage)][-1]
        yield Repair(position, RepairReason.TRAILING_SPACE, what)
