"""The writer of OpenAI's Responses; see :mod:`chatmemory.formats.responses`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from chatmemory.core.arguments import tuple_of
from chatmemory.core.messages import AiMessage, ChatMessage, SystemMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.formats import CannotExpressError, naming_message
from chatmemory.formats.kept_parts import WITHOUT_RESULT, given_up, is_same_answer, kept_pieces, without_refused
from chatmemory.formats.pairing import CallIds, arguments_text, unused_ids, used_ids
from chatmemory.formats.responses.item_writer import answer_items, text_or_parts
from chatmemory.formats.responses.reader import ATTRIBUTE, clean_items, read_answer
from chatmemory.formats.rules import Names, Repair, RepairReason, Rules, tell
from chatmemory.formats.validity import make_valid

_NOT_ENCRYPTED = "Reasoning that is not encrypted was left out; of its answer only the text and the calls were sent."
_LEADS_NOWHERE = "Reasoning was left out, because nothing that is sent comes after it."
_SAME_ID = "Items whose IDs are empty or were sent before were left out; of their answer only text and calls were sent."
_RAN = ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call")
_RULES = Rules(
    ids=Names(None, 64),
    unique_ids=True,
    tool_names=Names(r"[^a-zA-Z0-9_-]", 128),
    says_nothing=lambda message: not (_sent(message) or message.text),
)


def to_responses(
    messages: Iterable[ChatMessage],
    on_repair: Callable[[Repair], object] | None = None,
    *,
    repair: bool = True,
) -> list[dict[str, Any]]:
    """Return the items as ``input=`` takes them. OpenAI accepts whatever is returned.

    Args:
        on_repair: called with each repair, in the order of the messages.
        repair: False writes every message, and all that was kept aside, for a record of what was said rather
            than a request, as :func:`chatmemory.formats.openai.to_openai` does.

    Raises:
        UnsupportedContentError: a ``ValueError``; the format cannot express a message. Nothing is left out in silence.
        TypeError: something is no message.
    """
    given: tuple[ChatMessage, ...] = tuple_of(ChatMessage, messages, "messages")
    written: Sequence[ChatMessage] = given
    positions: Sequence[int] = range(len(given))
    repairs: list[Repair] = []
    if repair:
        sent: set[str] = set()
        sendable = list(without_refused(given, ATTRIBUTE, lambda answer: _problem(_sent(answer), sent), repairs))
        valid = make_valid(sendable, _RULES)
        written, positions = valid.messages, valid.positions
        repairs += [*_left_out(sendable), *valid.repairs, *given_up(sendable, valid, _kept)]
    new_ids = unused_ids(used_ids(written))
    calls = CallIds(lambda number: next(new_ids))
    items: list[dict[str, Any]] = []
    for position, message in zip(positions, written, strict=True):
        with naming_message(given, position):
            items += _items(message, calls, repair)
    tell(repairs, on_repair)
    return items


def _problem(items: list[dict[str, Any]], sent: set[str]) -> str | None:
    """Return what OpenAI would refuse; otherwise None, and add the IDs of the items to those sent."""
    if not _is_encrypted(items):
        return _NOT_ENCRYPTED
    ids = [item["id"] for item in items if "id" in item]
    if not all(isinstance(id, str) and id for id in ids) or len({*ids}) < len(ids) or not sent.isdisjoint(ids):
        return _SAME_ID
    sent.update(ids)
    return None


def _items(message: ChatMessage, calls: CallIds, repair: bool) -> list[dict[str, Any]]:
    match message:
        case SystemMessage():
            return [{"role": "system", "content": message.text}]
        case UserMessage():
            return [{"role": "user", "content": text_or_parts(message.contents, record=not repair)}]
        case AiMessage():
            items = _sent(message) if repair else _kept(message)
            # In a record each message has a place, even one that says nothing.
            made = items or answer_items(calls.with_ids(message), record=not repair)
            return made or [{"role": "assistant", "content": ""}]
        case ToolExecutionResultMessage():
            id = calls.require_id_answered_by(message)
            output = text_or_parts(message.contents, record=not repair)
            return [{"type": "function_call_output", "call_id": id, "output": output}]
    raise CannotExpressError("%(api)s has no such messages", api="OpenAI")


def _left_out(messages: Iterable[ChatMessage]) -> Iterator[Repair]:
    """Yield the repairs of answers that are sent without some of the items that were kept aside."""
    for position, message in enumerate(messages):
        if isinstance(message, AiMessage):
            kept = _kept(message)
            sent = _sendable(kept)
            if any(map(_is_unfinished, kept)):
                yield Repair(position, RepairReason.CALL_WITHOUT_RESULT, WITHOUT_RESULT)
            if sent and len(list(filter(_is_reasoning, sent))) < len(list(filter(_is_reasoning, kept))):
                yield Repair(position, RepairReason.REASONING, _LEADS_NOWHERE)


def _sent(message: AiMessage) -> list[dict[str, Any]]:
    """Return those of the items that ``from_responses`` kept aside which OpenAI takes."""
    items = _sendable(_kept(message))
    for item in items:
        if item.get("type") == "function_call":
            item["arguments"] = arguments_text(item["arguments"])
    return items


def _sendable(kept: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items without calls that OpenAI has not finished, and without reasoning that leads to nothing else."""
    items: list[dict[str, Any]] = []
    leads_on = False
    for item in reversed(kept):
        if _is_unfinished(item):
            leads_on = leads_on and not _is_reasoning(items[-1])
        elif leads_on or not _is_reasoning(item):
            items.append(item)
            leads_on = True
    return items[::-1]


def _is_reasoning(item: dict[str, Any]) -> bool:
    return bool(item.get("type") == "reasoning")


def _is_unfinished(item: dict[str, Any]) -> bool:
    """Return whether an item is the call of a tool that runs at OpenAI and has no outcome."""
    return item.get("type") in _RAN and item.get("status", "completed") not in ("completed", "failed")


def _is_encrypted(items: list[dict[str, Any]]) -> bool:
    return all(item.get("encrypted_content") for item in items if _is_reasoning(item))


def _kept(message: AiMessage) -> list[dict[str, Any]]:
    """Return the items that ``from_responses`` kept aside, an empty list without any."""
    kept = kept_pieces(
        message, ATTRIBUTE, "items", clean_items, lambda items: is_same_answer(read_answer(items), message)
    )
    return kept or []
