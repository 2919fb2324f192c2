"""Helpers that the readers and writers of formats share.

Pieces that messages here cannot express are kept aside in attributes, and written again. Among these are the calls of
tools that run at the provider, and their results: an API refuses a call without its result, and a result without its
call. An answer that only paused, or was cut off, has such a call; the half of a pair remains when a window evicts the
answer with the other half.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal, TypeVar, cast

from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.messages import AiMessage, ChatMessage, SystemMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.core.serialization import Fields
from chatmemory.formats import naming_message
from chatmemory.formats.validity import Repair, RepairReason, Valid

A = TypeVar("A", bound=UserMessage | AiMessage | ToolExecutionResultMessage)

_GIVEN_UP = "Thoughts, and what else only this API has, were left out of an answer whose calls were changed."


def kept_pieces(
    message: UserMessage | AiMessage | ToolExecutionResultMessage,
    attribute: str,
    key: str,
    clean: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
    is_same: Callable[[list[dict[str, Any]]], bool],
) -> list[dict[str, Any]] | None:
    """Return a copy of the parts, blocks or items that a reader kept; None if there are none to write.

    Anybody may write attributes, so the pieces count only as long as they say what the message says, and nothing else.

    Args:
        message: the message that they were kept beside.
        attribute: the attribute of the format.
        key: the key in it.
        clean: returns pieces that can be read as the reader keeps them, without what it drops.
        is_same: reads pieces, and returns whether they say what the message says.
    """
    kept = message.attributes.get(attribute)
    pieces = kept.get(key) if isinstance(kept, Mapping) else None
    if not isinstance(pieces, (list, tuple)):
        return None
    try:
        plain: list[dict[str, Any]] = _plain(pieces)
        return plain if is_same(plain) and clean(plain) == plain else None
    except (InvalidMessageError, TypeError, KeyError):
        return None  # not written by the format's reader


def without_refused(
    given: Iterable[ChatMessage], attribute: str, problem: Callable[[AiMessage], str | None], repairs: list[Repair]
) -> Iterator[ChatMessage]:
    """Yield the messages, and take the pieces out of each answer whose pieces the API refuses.

    Args:
        given: the messages to be written.
        attribute: the attribute of the format.
        problem: returns what is left out of an answer and why, as a sentence; None if the API takes its pieces.
        repairs: gets a repair for each answer that is changed.
    """
    for position, message in enumerate(given):
        if isinstance(message, AiMessage) and (what := problem(message)):
            repairs.append(Repair(position, RepairReason.REASONING, what))
            others = {key: value for key, value in message.attributes.items() if key != attribute}
            message = with_attributes(message, others)
        yield message


def given_up(given: Sequence[ChatMessage], valid: Valid, kept: Callable[[AiMessage], object]) -> Iterator[Repair]:
    """Yield a repair for each answer whose pieces are not written because its calls had to be changed.

    Args:
        given: the messages that the valid ones were made of.
        valid: the valid messages.
        kept: returns the pieces of an answer, or nothing.
    """
    for position, message in zip(valid.positions, valid.messages, strict=True):
        # Only calls of an answer are changed, and what is kept has the calls as they were.
        if (
            isinstance(message, AiMessage)
            and message is not (before := given[position])
            and kept(cast(AiMessage, before))
        ):
            yield Repair(position, RepairReason.REASONING, _GIVEN_UP)


def is_same_answer(read: AiMessage, message: AiMessage) -> bool:
    """Return whether two answers are equal apart from their attributes."""
    return (read.text, read.thinking, read.tool_execution_requests) == (
        message.text,
        message.thinking,
        message.tool_execution_requests,
    )


def with_attributes(message: A, attributes: Mapping[str, Any]) -> A:
    """Return a message that says the same, with other attributes."""
    return replace(message, attributes=attributes)  # type: ignore[arg-type]  # the constructor freezes them


def with_tool_names(messages: Iterable[ChatMessage]) -> Iterator[ChatMessage]:
    """Yield the messages, those tool results that lack it with the name of the tool that an earlier one calls."""
    names: dict[str | None, str | None] = {}
    for message in messages:
        if isinstance(message, AiMessage):
            names |= {request.id: request.name for request in message.tool_execution_requests}
        elif isinstance(message, ToolExecutionResultMessage) and message.tool_name is None:
            message = replace(message, tool_name=names.get(message.id))
        yield message


def read_system(text: str, place: str) -> SystemMessage:
    """Return a system message; the error for a blank text names the place."""
    return Fields({}, place).build(lambda _: SystemMessage(text))


def _plain(value: Any) -> Any:
    # Writers change what they send, and attributes are read-only.
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


WITHOUT_RESULT = "A call of a tool that runs at the provider was left out, because it has no result."
_WITHOUT_CALL = "A result of a tool that runs at the provider was left out, because its call is missing."
_WITHOUT_CODE = "A call by code that ran at the provider became the model's own, because that code is missing."
_SAYS_NOTHING = "An answer that says nothing else was left out."

Piece = dict[str, Any]
"""A block or a part of an answer."""


@dataclass(frozen=True)
class Half:
    """One side of a call of the provider's tool: the call, its result, or neither."""

    kind: Literal["call", "result", "none"] = "none"

    of: Hashable = None
    """The ID that a call and its result share."""

    caller: Hashable = None
    """``of`` the call whose code makes this call. It is the field ``caller`` of the piece."""


def without_lone_halves(
    valid: Valid,
    pieces_of: Callable[[AiMessage], list[Piece] | None],
    half_of: Callable[[Piece], Half],
    with_pieces: Callable[[AiMessage, list[Piece]], AiMessage | None],
    repairs: list[Repair],
) -> tuple[Valid, dict[int, list[Piece]]]:
    """Return a valid memory without calls that have no result, and without results that have no call.

    The result of a call stands behind it, in the same answer; or in the next one, if nothing but results of other tools
    is in between, because then the provider runs its tool when it gets those. So a call of the last answer may wait for
    its result if nothing else has been said since, and so may the code that made a call of that answer.

    Args:
        valid: the memory.
        pieces_of: returns a copy of the pieces that are kept of an answer; None if there are none.
        half_of: returns what a piece is in the run of a tool.
        with_pieces: returns an answer with other pieces; None if it says nothing then.
        repairs: gets the repairs of each answer that is changed.

    Returns:
        The memory; and for the position of each answer that has lost a piece, the pieces behind the first lost one.
    """
    messages: list[ChatMessage | None] = list(valid.messages)
    behind: dict[int, list[Piece]] = {}
    turns = _turns(valid.messages)
    for turn in turns:
        said = [(index, piece, half_of(piece)) for index, answer in turn for piece in pieces_of(answer) or ()]
        lone = _lone(said, valid.messages)
        if turn and turn is turns[-1]:
            lone.difference_update(_waiting(said, turn[-1][0]))
        known: set[Hashable] = {None}
        rests: defaultdict[int, list[Piece]] = defaultdict(list)
        changed: defaultdict[int, list[Repair]] = defaultdict(list)
        for number, (index, piece, half) in enumerate(said):
            position = valid.positions[index]
            if number in lone:
                changed[index].append(_left_out(position, half))
                behind.setdefault(position, [])
                continue
            if half.caller not in known:
                changed[index].append(Repair(position, RepairReason.REASONING, _WITHOUT_CODE))
                del piece["caller"]
            if half.kind == "call":
                known.add(half.of)
            rests[index].append(piece)
            if position in behind:
                behind[position].append(piece)
        for index, answer in turn:
            if index in changed:
                repairs += dict.fromkeys(changed[index])
                messages[index] = with_pieces(answer, rests[index])
                if messages[index] is None:
                    repairs.append(Repair(valid.positions[index], RepairReason.BLANK, _SAYS_NOTHING))
    remaining = [index for index, message in enumerate(messages) if message is not None]
    return replace(
        valid,
        messages=[message for message in messages if message is not None],
        positions=[valid.positions[index] for index in remaining],
    ), behind


def _turns(messages: Sequence[ChatMessage]) -> list[list[tuple[int, AiMessage]]]:
    """Return the answers behind each user message, and first those before any, with their indexes."""
    turns: list[list[tuple[int, AiMessage]]] = [[]]
    for index, message in enumerate(messages):
        if isinstance(message, UserMessage):
            turns.append([])
        elif isinstance(message, AiMessage):
            turns[-1].append((index, message))
    return turns


def _lone(said: Sequence[tuple[int, Piece, Half]], messages: Sequence[ChatMessage]) -> set[int]:
    """Return the numbers of the halves without their other half.

    A call may be answered until the end of the next answer behind results of tools, and longer if that has a call by
    its code.
    """
    waiting: dict[Hashable, list[int]] = {}
    new: set[Hashable] = set()
    callers: set[Hashable] = set()
    lone: set[int] = set()
    for number, (index, _, half) in enumerate(said):
        before = said[number - 1][0] if number else index
        between = [message for message in messages[before:index] if not isinstance(message, SystemMessage)]
        gaps = [is_result for is_result, _ in groupby(between, _is_result) if is_result]
        if gaps:
            for of in waiting.keys() - (new | callers if len(gaps) == 1 else set()):
                lone.update(waiting.pop(of))
            new, callers = set(), set()
        callers.add(half.caller)
        if half.kind == "call":
            waiting.setdefault(half.of, []).append(number)
            new.add(half.of)
        elif half.kind == "result" and waiting.get(half.of):
            waiting[half.of].pop()
        elif half.kind == "result":
            lone.add(number)
    return lone.union(*waiting.values())


def _is_result(message: ChatMessage) -> bool:
    return isinstance(message, ToolExecutionResultMessage)


def _waiting(said: Sequence[tuple[int, Piece, Half]], last: int) -> Iterator[int]:
    """Yield the numbers of the calls that the provider runs next if it gets an answer, the last, and results alone."""
    callers = {half.caller for index, _, half in said if index == last}
    for number, (index, _, half) in enumerate(said):
        if half.kind == "call" and (index == last or half.of in callers):
            yield number


def _left_out(position: int, half: Half) -> Repair:
    if half.kind == "call":
        return Repair(position, RepairReason.CALL_WITHOUT_RESULT, WITHOUT_RESULT)
    return Repair(position, RepairReason.RESULT_WITHOUT_CALL, _WITHOUT_CALL)


Parts = list[dict[str, Any]]
"""The parts of a turn as JSON has them."""


def write_transcript(
    valid: Valid,
    given: Sequence[ChatMessage],
    write: Callable[[ChatMessage], tuple[str, Parts]],
) -> tuple[list[str], list[tuple[str, Parts]]]:
    """Write a valid memory as APIs with turns want it, but for the frame of their format.

    Args:
        valid: the memory.
        given: the messages that it was made of.
        write: returns the speaker and the parts of a message that is not the system's.

    Returns:
        The texts of the system messages; and the speaker and the parts of each turn, of which no two neighbours have
        the same speaker.

    Raises:
        UnsupportedContentError: ``write`` raised ``CannotExpressError``.
    """
    system: list[str] = []
    turns: list[tuple[str, Parts]] = []
    for position, message in zip(valid.positions, valid.messages, strict=True):
        if isinstance(message, SystemMessage):
            system.append(message.text)
            continue
        with naming_message(given, position):
            speaker, parts = write(message)
        if turns and turns[-1][0] == speaker:
            turns[-1][1].extend(parts)
        else:
            turns.append((speaker, parts))
    return system, turns
