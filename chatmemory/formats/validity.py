"""Any memory made acceptable to a model's API, by fixed rules that lose as little as possible of what was said.

A window cuts conversations wherever it is full, and a process may end between a call and its result; but APIs refuse a
tool result without its call, a call without its result, and more. What is changed, in this order:

1. A tool call has an ID that the API takes, and that no other call of the answer has (for Anthropic and OpenAI's
   Responses: no other call of the conversation). One that is not unique, or is missing where IDs are needed, is
   ``call_0`` and so on; characters that are not allowed become ``_``, and what is too long is cut. The result gets the
   same ID.
2. A result answers the latest call of its ID that was made before it and has none. Results without an ID answer the
   calls without one, those of the latest message first, in order.
3. A result that answers no call, for there is none or it has one already, is left out.
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
calls without results, and results without calls, are left out (:mod:`chatmemory.formats.kept_parts`).

More repairs belong to one API each: white space at the end of the last turn, stale thinking, thinking behind what
another answer of its turn says or at the end of an answer, and what ran there and was sent before
(:mod:`chatmemory.formats.anthropic`); reasoning that is not encrypted or leads to nothing, and items that were sent
before (:mod:`chatmemory.formats.responses`); names of answers (:mod:`chatmemory.formats.openai`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from chatmemory.core.arguments import tuple_of
from chatmemory.core.contents import Content, TextContent
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.formats.pairing import paired
from chatmemory.formats.rules import Repair, RepairReason, Rules

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
    """Return the result, with a text in place of the mark of an error if that cannot stay."""
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
