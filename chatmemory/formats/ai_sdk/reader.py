"""The strict reader of UI messages; see ``chatmemory.formats.ai_sdk``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from chatmemory.core.contents import Content, TextContent
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import require_json
from chatmemory.core.kept import REDACTED_THINKING, THINKING_SIGNATURE
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    ChatMessageType,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.serialization import Fields, expected
from chatmemory.formats.ai_sdk.content_parts import KEY, attributes_in, read_file, read_text, rest_of, text_of

_PARTS = {"text": read_text, "file": read_file}
_SYSTEM_PARTS = {"text": read_text}


def from_ai_sdk(data: Any, place: str = "") -> list[ChatMessage]:
    """Read messages from a list of ``UIMessage`` objects in parsed JSON, whole ones or one for each message.

    ``null`` is the same as a field that is not there. Fields that messages here have no use for are ignored: IDs,
    titles, a project's own metadata, and parts such as sources and data. An assistant message that says nothing, as an
    aborted stream leaves it, is no message.

    Args:
        place: what the list is called in errors, ``messages`` say.

    Raises:
        InvalidMessageError: a ``ValueError`` that names the place: ``messages[3].parts[0].text``.
    """
    if not isinstance(data, (list, tuple)):
        raise expected("a list of messages", data, place)
    messages: list[ChatMessage] = []
    for index, item in enumerate(data):
        messages += Fields(item, f"{place}[{index}]").build(_message)
    return messages


def _message(fields: Fields) -> Sequence[ChatMessage]:
    role = fields.choice("role", ("system", "user", "assistant"))
    rest = rest_of(fields, "metadata")
    where = f"{fields.at('metadata')}.{KEY}"
    place = fields.at("parts")
    parts = fields.value("parts", (list, tuple), "a list of parts")
    fields.leave_all()
    if role == "system":
        texts = _contents(parts, place, _SYSTEM_PARTS)
        return [SystemMessage("".join(part.text for part in texts if isinstance(part, TextContent)))]
    if role == "user":
        name = None if rest is None else Fields(rest, where).optional_text("name")
        return [UserMessage(_contents(parts, place, _PARTS), name=name, attributes=attributes_in(rest, where))]
    if rest is not None and rest.get("type") == ChatMessageType.CUSTOM:
        return [CustomMessage(_custom_attributes(parts, place))]
    return read_answer(parts, place, _steps(rest, where), f"{where}.steps")


def _contents(parts: Sequence[Any], place: str, readers: Mapping[str, Any]) -> list[Content]:
    def read(fields: Fields) -> Content:
        content: Content = readers[fields.choice("type", readers)](fields)
        return content

    contents = [Fields(part, f"{place}[{index}]").build(read) for index, part in enumerate(parts) if not is_data(part)]
    if not contents:
        raise InvalidMessageError(
            "expected at least one part of the type %(types)s, got none",
            place,
            code="empty",
            types=" or ".join(readers),
        )
    return contents


def _custom_attributes(parts: Sequence[Any], place: str) -> Mapping[str, Any]:
    if len(parts) != 1:
        raise InvalidMessageError(
            "expected one part of the type data-custom, got %(count)s parts", place, count=len(parts)
        )
    fields = Fields(parts[0], f"{place}[0]")
    fields.choice("type", ["data-custom"])
    attributes: Mapping[str, Any] = fields.value("data", Mapping, "an object")
    require_json(attributes, fields.at("data"), 1)
    return attributes


def _steps(rest: Mapping[str, Any] | None, place: str) -> Mapping[str, Any]:
    steps = rest.get("steps", {}) if rest is not None else {}
    if not isinstance(steps, Mapping):
        raise expected("an object", steps, f"{place}.steps")
    return steps


_REFUSED = {
    "file": "a file in an answer cannot be kept; leave it out",
    "reasoning-file": "a file in an answer cannot be kept; leave it out",
    "steering-message": "a steering message cannot be kept; make it a user message",
}
_NOT_SAID = ("source-url", "source-document", "custom")
_KNOWN = ("text", "reasoning", "step-start", "dynamic-tool", "tool-NAME", "data-NAME", *_NOT_SAID)


class _Step:
    """One answer of the model, with the results of its calls, while it is read."""

    def __init__(self, rest: Mapping[str, Any] | None = None, place: str = "") -> None:
        self._rest = rest
        self._place = place
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._signatures: list[str] = []
        self._redacted: list[str] = []
        self.requests: list[ToolExecutionRequest] = []
        self.results: list[Result] = []

    def read(self, kind: str, fields: Fields) -> None:
        """Read a part that says something."""
        text = fields.text("text")
        if kind == "text":
            self._texts.append(text)
        else:
            self._read_signature(fields)
            if text or not self._redacted:
                self._thoughts.append(text)
        fields.leave_all()

    def answer(self) -> list[AiMessage]:
        """Return the answer in a list, which is empty if there is none."""
        says_nothing = not (self._texts or self._thoughts or self._redacted or self.requests)
        if self._rest is None and says_nothing:
            return []
        attributes = attributes_in(self._rest, self._place)
        if self._rest is None:
            kept = {THINKING_SIGNATURE: "\n".join(self._signatures), REDACTED_THINKING: self._redacted}
            attributes = {key: value for key, value in kept.items() if value}
        return [
            AiMessage(
                "".join(self._texts) if self._texts else None,
                self.requests,
                thinking="\n".join(self._thoughts) if self._thoughts else None,
                attributes=attributes,
            )
        ]

    def _read_signature(self, fields: Fields) -> None:
        """Read what the AI SDK has of Anthropic's thinking, so that Anthropic gets it again."""
        if not fields.has("providerMetadata"):
            return
        metadata = fields.value("providerMetadata", Mapping, "an object").get("anthropic")
        if isinstance(metadata, Mapping):
            anthropic = Fields(metadata, f"{fields.at('providerMetadata')}.anthropic")
            self._signatures += filter(None, [anthropic.optional_text("signature")])
            self._redacted += filter(None, [anthropic.optional_text("redactedData")])


def read_answer(parts: Sequence[Any], place: str, rests: Mapping[str, Any], rests_place: str) -> list[ChatMessage]:
    """Read the answers and tool results that an assistant message is made of, in order.

    Each step is an answer, and the results of its calls follow it. What speaks behind a result begins another answer.

    Args:
        parts: the parts of the message.
        place: what errors call them.
        rests: what was kept of each step, by its number.
        rests_place: what errors call that.
    """
    steps = [_Step()]
    number = 0

    def read(fields: Fields) -> None:
        nonlocal number
        match kind := fields.choice("type", _KNOWN, _REFUSED):
            case "step-start":
                steps.append(_Step(_rest(rests, number, rests_place), f"{rests_place}.{number}"))
                number += 1
            case "text" | "reasoning":
                if steps[-1].results:
                    steps.append(_Step())
                steps[-1].read(kind, fields)
            case "dynamic-tool":
                request, result = read_tool(fields)
                steps[-1].requests += [request] if request else []
                steps[-1].results += [result] if result else []
        fields.leave_all()

    for index, part in enumerate(parts):
        if not is_data(part):
            Fields(_as_dynamic(part), f"{place}[{index}]").build(read)
    return _in_order(steps)


def is_data(part: Any) -> bool:
    """Return whether a part has data for the page alone."""
    return _type(part).startswith("data-")


def _as_dynamic(part: Any) -> Any:
    """Return a ``tool-NAME`` part as a ``dynamic-tool`` part with that name; any other part as it is."""
    type = _type(part)
    if not type.startswith("tool-"):
        return part
    return {**part, "type": "dynamic-tool", "toolName": type.removeprefix("tool-")}


def _type(part: Any) -> str:
    type = part.get("type") if isinstance(part, Mapping) else None
    return type if isinstance(type, str) else ""


def _rest(rests: Mapping[str, Any], number: int, place: str) -> Mapping[str, Any] | None:
    rest = rests.get(str(number))
    if rest is not None and not isinstance(rest, Mapping):
        raise expected("an object", rest, f"{place}.{number}")
    return rest


def _in_order(steps: Sequence[_Step]) -> list[ChatMessage]:
    messages: list[ChatMessage] = []
    elsewhere: list[Result] = []
    for step in steps:
        messages += step.answer()
        messages += [result.message for result in step.results if result.at is None]
        elsewhere += [result for result in step.results if result.at is not None]
    for result in sorted(elsewhere, key=lambda result: result.at or 0):
        messages.insert(result.at or 0, result.message)
    return messages


_STATES = (
    "input-streaming",
    "input-available",
    "approval-requested",
    "approval-responded",
    "output-available",
    "output-error",
    "output-denied",
)
_DENIED = "Tool call execution denied."  # as the AI SDK tells a model


class Result(NamedTuple):
    """A tool result, and its place."""

    message: ToolExecutionResultMessage

    at: int | None
    """Its number among what the assistant message is made of; None behind its call."""


def read_tool(fields: Fields) -> tuple[ToolExecutionRequest | None, Result | None]:
    """Read the call and the result of a part, either of which may be missing.

    A call whose input was still under way is none, and what a tool said before it was done is no result.
    """
    state = fields.choice("state", _STATES)
    call_rest = rest_of(fields, "callProviderMetadata") or {}
    rest_place = f"{fields.at('callProviderMetadata')}.{KEY}"
    id, name = fields.text("toolCallId"), fields.text("toolName")
    call = ToolExecutionRequest(
        _replaced(call_rest, "id", id, rest_place),
        _replaced(call_rest, "name", name, rest_place),
        _arguments(fields, call_rest, rest_place),
    )
    result = _result(fields, state, call)
    is_call = state != "input-streaming" and call_rest.get("call") is not False
    return (call if is_call else None), result


def _arguments(fields: Fields, rest: Mapping[str, Any], place: str) -> str | None:
    raw = fields.optional("rawInput", object, "anything")
    input = fields.optional("input", object, "anything")
    if input is None:
        input = raw
    if input is None or rest.get("arguments", "") is None:
        return None
    require_json(input, fields.at("input"))
    require_json(rest, place)
    return text_of(input, rest)


def _result(fields: Fields, state: str, call: ToolExecutionRequest) -> Result | None:
    rest = rest_of(fields, "resultProviderMetadata") or {}
    place = f"{fields.at('resultProviderMetadata')}.{KEY}"
    output = fields.optional("output", object, "anything")
    preliminary = fields.optional("preliminary", object, "anything")
    is_error: bool | None = True
    match state:
        case "output-available" if preliminary is not True:
            require_json(output, fields.at("output"))
            text = text_of(output, rest)
            is_error = False if rest.get("isError") is False else None
        case "output-error":
            text = fields.text("errorText")
        case "output-denied":
            approval = fields.optional("approval", object, "anything")
            text = (Fields(approval, fields.at("approval")).optional_text("reason") if approval else None) or _DENIED
        case _:
            return None
    contents = _parts_of_result(rest, output, fields.at("output.value"), f"{place}.contents")
    return Result(
        ToolExecutionResultMessage(
            _replaced(rest, "id", call.id, place),
            _replaced(rest, "toolName", call.name, place),
            None if contents else text,
            contents=contents,
            is_error=is_error,
            attributes=attributes_in(rest, place),
        ),
        _at(rest, place),
    )


def _parts_of_result(rest: Mapping[str, Any], output: Any, at_output: str, at_rest: str) -> list[Content] | None:
    """Return the contents of a result that is more than a text."""
    contents, place = rest.get("contents"), at_rest
    if contents is True:
        contents, place = output.get("value") if isinstance(output, Mapping) else None, at_output
    elif contents is None:
        return None
    if not isinstance(contents, (list, tuple)):
        raise expected("a list of parts", contents, place)
    return [
        Fields(part, f"{place}[{index}]").build(lambda fields: _PARTS[fields.choice("type", _PARTS)](fields))
        for index, part in enumerate(contents)
    ]


def _replaced(rest: Mapping[str, Any], key: str, default: str | None, place: str) -> str | None:
    return Fields(rest, place).optional_text(key) if key in rest else default


def _at(rest: Mapping[str, Any], place: str) -> int | None:
    at = rest.get("at")
    if at is not None and (not isinstance(at, int) or isinstance(at, bool) or at < 0):
        raise expected("a number from 0 on", at, f"{place}.at")
    return at
