"""Any memory made acceptable to a model's API, by fixed rules that lose as little as possible of what was said.

A window cuts conversations wherever it is full, and a process may end between a call and its result; but APIs refuse a
tool result without its call, a call without its result, and more. What is changed, in this order:

1. A tool call has an ID that the API takes, and that no other call of the answer has (for Anthropic and OpenAI's
   Responses: no other call of the conversation). One that is not unique, or is missing where IDs are needed, is
   ``call_0`` and so on; characters that are not allowed become ``_``, and what is too long is cut. The result gets the
   same ID.
2. A result answers the latest call of its ID that was made before it and has none. Results without an ID answer the
   calls without one, those of the latest message first, in order.
3. A result that answers no call, because there is none or it has one already, is left out.
4. A result that does not directly follow its call is moved there.
5. A call without a result gets one that says so and is marked as an error.
6. Names lose the characters that the API does not take, as IDs do. An empty name of a tool becomes ``_``.
7. Arguments that are no JSON object, where one is demanded, become ``{"arguments": …}`` with the text as it was.
8. Where blank texts are refused they are left out. A user message of nothing else becomes ``(empty)``, an error without
   output ``(no output)``, and a system message or an answer that says nothing is left out.
9. Where an error may have nothing but text, one with more is no longer marked, but begins with ``(This is an error.)``.
10. A summary that Anthropic signed stands for all that was said before it, and must be first: the messages before the
    last such summary, except system messages, are left out.
11. Where the user must begin, and another does, a user message that says that the beginning is missing comes first.

What a format keeps aside of an answer (thoughts above all) is sent only with the calls as they were. If the calls were
changed, it is left out, and that is reported.

The kind of the last message is not changed: a memory that ends with an answer is sent so, and the caller decides
whether the model goes on from there. The same messages always give the same result, and valid messages are not changed.

Tools that run at the provider are no tool calls here: an answer says what they did, in what a format keeps aside. Their
calls without results, and results without calls, are left out (``chatmemory.formats.kept_parts``).

More repairs belong to one API each: white space at the end of the last turn, stale thinking, thinking behind what
another answer of its turn says or at the end of an answer, and what ran there and was sent before
(``chatmemory.formats.anthropic``); reasoning that is not encrypted or leads to nothing, and items that were sent
before (``chatmemory.formats.responses``); names of answers (``chatmemory.formats.openai``).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count
from typing import Any, Generic, TypeVar

from chatmemory.core.arguments import tuple_of
from chatmemory.core.contents import Content, TextContent
from chatmemory.core.json_text import dumps, loads
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.formats import CannotExpressError


class RepairReason(StrEnum):
    """The reason why a memory was changed before it was sent, or a message before it was stored."""

    TOOL_CALL_ID = "tool_call_id"
    RESULT_WITHOUT_CALL = "result_without_call"
    RESULT_NOT_AFTER_CALL = "result_not_after_call"
    CALL_WITHOUT_RESULT = "call_without_result"
    NAME = "name"
    ARGUMENTS = "arguments"
    BLANK = "blank"
    ERROR_CONTENT = "error_content"
    FIRST_TURN = "first_turn"
    TRAILING_SPACE = "trailing_space"
    REASONING = "reasoning"
    STALE_THINKING = "stale_thinking"
    SUMMARIZED = "summarized"
    CHARACTER = "character"


@dataclass(frozen=True)
class Repair:
    """One change that an API or the database demands."""

    position: int
    """The index of the changed message among those that are written, or stored together; of an added one, its place."""

    reason: RepairReason

    what: str
    """The change in a sentence for people."""


def tell(repairs: Iterable[Repair], on_repair: Callable[[Repair], object] | None) -> None:
    """Call ``on_repair`` with each repair, in the order of the messages."""
    if on_repair is not None:
        for repair in sorted(repairs, key=lambda repair: repair.position):
            on_repair(repair)


@dataclass(frozen=True)
class Names:
    """The form of names or IDs that an API takes."""

    forbidden: str | None
    """A regular expression of the refused characters; None if all are taken."""

    max_length: int

    def allowed(self, name: str) -> str:
        """Return ``name`` with ``_`` for each refused character, cut to ``max_length``."""
        cut = name[: self.max_length]
        return cut if self.forbidden is None else re.sub(self.forbidden, "_", cut)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The demands of one API."""

    ids: Names
    unique_ids: bool
    """Whether IDs of calls must be unique in the conversation, rather than in one message."""

    needs_ids: bool = True
    """Whether a call must have an ID. Otherwise results without one answer calls without one, in order."""

    tool_names: Names
    user_names: Names | None = None
    """The form of users' names; None if they are not sent."""

    object_arguments: bool = False
    blank_texts: bool = True
    """Whether texts may be blank."""

    text_errors: bool = False
    """Whether a result that is marked as an error may have nothing but text."""

    user_first: bool = False
    """Whether the first message must be the user's."""

    must_be_first: Callable[[AiMessage], bool] = field(default=lambda message: False)
    """Returns whether an answer replaces all messages before it, so that the API rejects both together."""

    says_nothing: Callable[[AiMessage], bool] = field(default=lambda message: False)
    """Returns whether nothing of an answer would be sent, which the API refuses."""


C = TypeVar("C")


_NO_RESULT = "(No result: this tool call was not completed.)"


def arguments_object(arguments: str | None) -> dict[str, Any] | None:
    """Return the object that the arguments of a call are, an empty one for none; None if they are no object."""
    if arguments is None or not arguments.strip():
        return {}
    try:
        value = loads(arguments)
        # What is read may still have no JSON: 1e999, or a lone surrogate.
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return dict(value) if isinstance(value, dict) else None


def arguments_text(arguments: str | None, *, keep_blank: bool = False) -> str:
    """Return the arguments of a call as JSON text: an empty object if there are none, or blank ones that may go."""
    if arguments is None or not (keep_blank or arguments.strip()):
        return "{}"
    return arguments


@dataclass
class _Call:
    """A call that waits for its result."""

    position: int
    id: str | None
    name: str | None
    is_answered: bool = False


class _Ids:
    """The IDs of calls: their own where the rules allow these, else new ones.

    Later messages change no ID, so that what stands before them is sent as it was: caches and signatures depend on it.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._given: set[str | None] = set()
        self._new = unused_ids(self._given)
        self._made: set[str] = set()
        self._taken: set[str] = set()

    def of(self, message: AiMessage) -> list[str | None]:
        self._given |= used_ids([message])
        taken = self._taken if self._rules.unique_ids else set(self._made)
        ids: list[str | None] = []
        for request in message.tool_execution_requests:
            if not (request.id or self._rules.needs_ids):
                ids.append(request.id)
                continue
            id = self._rules.ids.allowed(request.id or "")
            if not id or id in taken or (id != request.id and id in self._given):
                id = next(new for new in self._new if new not in taken)
                self._made.add(id)
            taken.add(id)
            ids.append(id)
        return ids


class Waiting(Generic[C]):
    """The calls without a result, by their IDs before any were changed. What stands for a call is the user's."""

    def __init__(self) -> None:
        self._calls: defaultdict[str, list[deque[C]]] = defaultdict(list)

    def add(self, requests: Sequence[ToolExecutionRequest], calls: Sequence[C]) -> None:
        """Add the calls of an answer."""
        groups: defaultdict[str, deque[C]] = defaultdict(deque)
        for request, call in zip(requests, calls, strict=True):
            groups[request.id or ""].append(call)
        for id, group in groups.items():
            self._calls[id].append(group)

    def take(self, id: str | None) -> C | None:
        """Take the call that a result with this ID answers; None if there is none."""
        groups = self._calls.get(id or "")
        if not groups:
            return None
        call = groups[-1].popleft()
        if not groups[-1]:
            groups.pop()
        return call


def paired(given: Sequence[ChatMessage], rules: Rules, repairs: list[Repair]) -> Iterator[tuple[int, ChatMessage]]:
    """Yield the messages with every call directly followed by its results, and no other results."""
    ids = _Ids(rules)
    waiting: Waiting[_Call] = Waiting()
    calls: dict[int, list[_Call]] = {}
    results: defaultdict[int, list[tuple[int, ChatMessage]]] = defaultdict(list)
    before = -1  # the latest message that is no result
    for position, message in enumerate(given):
        if not isinstance(message, ToolExecutionResultMessage):
            before = position
            if isinstance(message, AiMessage):
                requests = message.tool_execution_requests
                calls[position] = [
                    _Call(position, id, request.name) for id, request in zip(ids.of(message), requests, strict=True)
                ]
                waiting.add(requests, calls[position])
            continue
        call = waiting.take(message.id)
        if call is None:
            repairs.append(
                Repair(position, RepairReason.RESULT_WITHOUT_CALL, "A tool result that answers no call was left out.")
            )
            continue
        if call.position != before:
            repairs.append(
                Repair(position, RepairReason.RESULT_NOT_AFTER_CALL, "A tool result was moved behind its call.")
            )
        call.is_answered = True
        results[call.position].append((position, replace(message, id=call.id)))
    for position, message in enumerate(given):
        if isinstance(message, AiMessage):
            yield position, _called(message, position, calls[position], rules, repairs)
            yield from results[position]
            for call in calls[position]:
                if not call.is_answered:
                    what = "A tool call without a result was given one that says so."
                    repairs.append(Repair(position, RepairReason.CALL_WITHOUT_RESULT, what))
                    yield position, ToolExecutionResultMessage(call.id, call.name, _NO_RESULT, is_error=True)
        elif not isinstance(message, ToolExecutionResultMessage):
            yield position, message


def _called(message: AiMessage, position: int, calls: list[_Call], rules: Rules, repairs: list[Repair]) -> AiMessage:
    """Return an answer whose calls have what the rules demand."""
    requests = []
    for request, call in zip(message.tool_execution_requests, calls, strict=True):
        if call.id != request.id:
            what = f"A tool call was given the ID {call.id}."
            repairs.append(Repair(position, RepairReason.TOOL_CALL_ID, what))
        name = None if request.name is None else rules.tool_names.allowed(request.name) or "_"
        if name != request.name:
            repairs.append(Repair(position, RepairReason.NAME, f"A called tool was given the name {name}."))
        arguments = request.arguments
        if rules.object_arguments and arguments_object(arguments) is None:
            what = "Arguments of a tool call that were no JSON object were put into one."
            repairs.append(Repair(position, RepairReason.ARGUMENTS, what))
            arguments = dumps({"arguments": arguments})
        requests.append(ToolExecutionRequest(call.id, name, arguments))
    return (
        message
        if tuple(requests) == message.tool_execution_requests
        else replace(message, tool_execution_requests=tuple(requests))
    )


def used_ids(messages: Iterable[ChatMessage]) -> set[str | None]:
    """Return the IDs that calls and results have."""
    used: set[str | None] = set()
    for message in messages:
        if isinstance(message, AiMessage):
            used.update(request.id for request in message.tool_execution_requests)
        elif isinstance(message, ToolExecutionResultMessage):
            used.add(message.id)
    return used


def unused_ids(used: Collection[str | None]) -> Iterator[str]:
    """Yield ``call_0`` and so on, without those that are used."""
    return (id for number in count() if (id := f"call_{number}") not in used)


class CallIds:
    """IDs for calls without one, and for the results without one that follow, in the order of the calls."""

    def __init__(self, new_id: Callable[[int], str], *, keep_empty: bool = False) -> None:
        """
        Args:
            new_id: returns the ID for the call that is the n-th of its answer.
            keep_empty: whether an empty ID is an ID, rather than missing.
        """
        self._new_id = new_id
        self._keep_empty = keep_empty
        self._waiting: deque[str] = deque()

    def with_ids(self, message: AiMessage) -> AiMessage:
        """Return an answer with an ID for each call. Results without an ID that come later answer this one."""
        self._waiting.clear()
        requests = []
        for number, request in enumerate(message.tool_execution_requests):
            if self._is_missing(request.id):
                request = replace(request, id=self._new_id(number))
                self._waiting.append(request.id or "")
            requests.append(request)
        return replace(message, tool_execution_requests=tuple(requests)) if self._waiting else message

    def id_answered_by(self, message: ToolExecutionResultMessage) -> str | None:
        """Return the ID of the call that a result answers; None if it has no ID and no call waits for it."""
        if not self._is_missing(message.id):
            return message.id
        return self._waiting.popleft() if self._waiting else None

    def require_id_answered_by(self, message: ToolExecutionResultMessage) -> str:
        """Return the ID of the call that a result answers.

        Raises:
            CannotExpressError: it has no ID, and no call waits for it.
        """
        id = self.id_answered_by(message)
        if id is None:
            raise CannotExpressError(
                "OpenAI needs the ID of the call: the result has none, and there is no unanswered call without an ID"
            )
        return id

    def _is_missing(self, id: str | None) -> bool:
        return id is None or (id == "" and not self._keep_empty)


_NO_OUTPUT = "(no output)"
_EMPTY = "(empty)"
_ERROR = "(This is an error.)"
_NO_BEGINNING = "(The beginning of this conversation is not included.)"

S = TypeVar("S", UserMessage, ToolExecutionResultMessage)


@dataclass(frozen=True)
class Valid:
    """Messages that an API takes."""

    messages: list[ChatMessage]

    positions: list[int]
    """The index of each message, or of the one that it was made for, among those to be written."""

    repairs: list[Repair]


def make_valid(messages: Iterable[ChatMessage], rules: Rules) -> Valid:
    """Return the messages with as little changed as the rules demand.

    Raises:
        TypeError: something is no message.
    """
    given: tuple[ChatMessage, ...] = tuple_of(ChatMessage, messages, "messages")
    repairs: list[Repair] = []
    placed = list(paired(given, rules, repairs))
    placed = [
        (position, said)
        for position, message in placed
        if (said := _sayable(message, position, rules, repairs)) is not None
    ]
    if (summarized := _from_summary_on(placed, rules, repairs)) is not None:
        placed = summarized
    elif rules.user_first:
        _begin_with_user(placed, repairs)
    repairs.sort(key=lambda repair: repair.position)
    return Valid([message for _, message in placed], [position for position, _ in placed], repairs)


def _sayable(message: ChatMessage, position: int, rules: Rules, repairs: list[Repair]) -> ChatMessage | None:
    """Return the message with an allowed name and allowed texts; None if nothing is left of it."""
    if isinstance(message, UserMessage) and message.name and rules.user_names is not None:
        name = rules.user_names.allowed(message.name)
        if name != message.name:
            repairs.append(Repair(position, RepairReason.NAME, f"A user was given the name {name}."))
            message = replace(message, name=name)
    if isinstance(message, AiMessage):
        if message.tool_execution_requests or not rules.says_nothing(message):
            return message
        repairs.append(Repair(position, RepairReason.BLANK, "An answer that says nothing was left out."))
        return None
    if isinstance(message, SystemMessage) and not rules.blank_texts and not message.text.strip():
        repairs.append(Repair(position, RepairReason.BLANK, "A blank system message was left out."))
        return None
    if isinstance(message, UserMessage) and not rules.blank_texts:
        return _not_blank(message, _EMPTY, position, repairs)
    if isinstance(message, ToolExecutionResultMessage):
        if not rules.blank_texts:
            message = _not_blank(message, _NO_OUTPUT if message.is_error else "", position, repairs)
        if rules.text_errors:
            message = _text_error(message, position, repairs)
    return message


def _not_blank(message: S, instead: str, position: int, repairs: list[Repair]) -> S:
    """Return the message without its blank texts, with the text ``instead`` if it has nothing else."""
    contents: tuple[Content, ...] = tuple(content for content in message.contents if not _is_blank(content))
    contents = contents or (TextContent(instead),)
    if contents == message.contents:
        return message
    is_replaced = instead and contents == (TextContent(instead),)
    what = f"Blank text became {instead}." if is_replaced else "Blank text was left out."
    repairs.append(Repair(position, RepairReason.BLANK, what))
    return replace(message, contents=contents)


def _is_blank(content: Content) -> bool:
    return isinstance(content, TextContent) and not content.text.strip()


def _text_error(
    message: ToolExecutionResultMessage, position: int, repairs: list[Repair]
) -> ToolExecutionResultMessage:
    """Return the result, with a text instead of the error flag if that cannot stay."""
    if not message.is_error or all(isinstance(content, TextContent) for content in message.contents):
        return message
    what = f"A tool result with more than text is not marked as an error, but begins with {_ERROR}"
    repairs.append(Repair(position, RepairReason.ERROR_CONTENT, what))
    return replace(message, contents=(TextContent(_ERROR), *message.contents), is_error=None)


def _from_summary_on(
    placed: list[tuple[int, ChatMessage]], rules: Rules, repairs: list[Repair]
) -> list[tuple[int, ChatMessage]] | None:
    """Return system messages, and all from the last answer on that must be first; None if there is no such answer."""
    first = max(
        (i for i, (_, said) in enumerate(placed) if isinstance(said, AiMessage) and rules.must_be_first(said)),
        default=None,
    )
    if first is None:
        return None
    gone = {position for position, message in placed[:first] if not isinstance(message, SystemMessage)}
    what = "A message before a summary that stands for it was left out."
    repairs += [Repair(position, RepairReason.SUMMARIZED, what) for position in gone]
    return [item for item in placed[:first] if isinstance(item[1], SystemMessage)] + placed[first:]


def _begin_with_user(placed: list[tuple[int, ChatMessage]], repairs: list[Repair]) -> None:
    first = next((index for index, (_, message) in enumerate(placed) if not isinstance(message, SystemMessage)), None)
    if first is not None and isinstance(placed[first][1], (UserMessage, CustomMessage)):
        return
    index = len(placed) if first is None else first
    position = placed[first][0] if first is not None else placed[-1][0] + 1 if placed else 0
    what = "A user message that says that the beginning is missing was put before the first message."
    repairs.append(Repair(position, RepairReason.FIRST_TURN, what))
    placed.insert(index, (position, UserMessage(_NO_BEGINNING)))
