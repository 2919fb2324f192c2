"""Agent Framework's messages as messages of a conversation, and back.

Agent Framework's own ``Message.to_dict()`` is stored beside a message, so that Agent Framework reads messages equal to
those it added: contents of every kind, reasoning with its signatures, names, IDs, ``additional_properties``. As in its
own stores, ``raw_representation`` is not kept, nor is a value that has no JSON form, and a marker takes the place of an
exception.

How other programs read Agent Framework's messages:

- A message with the results of several calls is one message for each result.
- Calls of every kind, functions, shells and computers, are calls here, unless their results are in the same message:
  these ran at the provider. A call that waits for an approval is a call, too.
- The decision of a user about an approval is a text in brackets: ``[approved: send_mail]``. Other contents that
  messages here cannot express are their type in brackets: ``[hosted_file]``. In an answer only media are; its other
  contents, such as citations, usage and the signatures of reasoning, are left to Agent Framework.
- A message of another role, a blank system message, and a tool's message without a result are custom messages.

How Agent Framework reads the messages of other programs: a custom message is a user's, with its attributes as JSON.
Thinking is left out, because a client may refuse thinking that its provider did not sign, and so are attributes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from agent_framework import Content as Part
from agent_framework import Message as FrameworkMessage
from agent_framework.exceptions import ContentError

from chatmemory.contrib.native_memory import request_of
from chatmemory.core.arguments import is_blank
from chatmemory.core.contents import Content, ContentType, TextContent
from chatmemory.core.json_text import dumps
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.formats.media import content_of_type, data_of, data_uri
from chatmemory.models import Message

FRAMEWORK = "agent-framework"
"""The framework of the native forms."""

Form = dict[str, Any]
"""``Message.to_dict()`` of Agent Framework; of a message that became several, with a part of its contents."""

_PART_OF = "part_of"
"""The key in a form for the number, among those added at once, of the message that became several."""

_MIME_TYPES = {
    ContentType.IMAGE: "image/png",
    ContentType.AUDIO: "audio/wav",
    ContentType.VIDEO: "video/mp4",
    ContentType.PDF: "application/pdf",
}
"""The types of media that do not say theirs."""


def said_in(messages: Sequence[FrameworkMessage]) -> list[list[tuple[ChatMessage, Form | None]]]:
    """Return the messages that each of Agent Framework's becomes, at least one.

    With each is its form; None if the message expresses all of it.

    Args:
        messages: messages that are added at once.

    Raises:
        TypeError: one of them is not a message of Agent Framework's.
        ValueError: one of them cannot be kept as JSON.
    """
    names: dict[str | None, str | None] = {}
    return [list(_said(_dumped(message), number, names)) for number, message in enumerate(messages)]


def from_rows(rows: Iterable[tuple[Message, ChatMessage]], forms: Iterable[Form | None]) -> list[FrameworkMessage]:
    """Return the messages of rows for Agent Framework: equal to its own, or another program's, converted.

    Args:
        rows: rows of the conversation in memory order, each with the message to convert.
        forms: the form of each row.
    """
    made: list[FrameworkMessage] = []
    group: tuple[int, int] | None = None
    for (row, message), form in zip(rows, forms, strict=True):
        number = None if form is None else form.pop(_PART_OF, None)
        one = from_chat_message(message) if form is None else FrameworkMessage.from_dict(form)
        before, group = group, None if number is None else (row.added_in, number)
        if group is not None and group == before:
            made[-1].contents.extend(one.contents)
        else:
            made.append(one)
    return made


def from_chat_message(message: ChatMessage) -> FrameworkMessage:
    """Return a message of this app as a message of Agent Framework's."""
    match message:
        case SystemMessage():
            return FrameworkMessage("system", [message.text])
        case UserMessage():
            return FrameworkMessage("user", list(map(_part, message.contents)), author_name=message.name)
        case ToolExecutionResultMessage():
            result = Part.from_function_result(
                message.id or "",
                result=list(map(_part, message.contents)),
                exception="the tool failed" if message.is_error else None,
            )
            return FrameworkMessage("tool", [result])
        case AiMessage():
            texts = [] if message.text is None else [message.text]
            return FrameworkMessage("assistant", [*texts, *map(_call, message.tool_execution_requests)])
        case CustomMessage():
            return FrameworkMessage("user", [dumps(message.attributes)])
    raise TypeError(f"expected a message, but is: {type(message).__name__}")


def without_signed_reasoning(form: Form | None) -> Form | None:
    """Return a form without the reasoning that a provider signed; None if it has none.

    That of OpenAI's Responses API stays: it must stay beside what follows it. The contents do not name the provider,
    but only there are IDs of this kind.
    """
    contents = [] if form is None else form["contents"]
    rest = [
        content
        for content in contents
        if content["type"] != "text_reasoning"
        or not content.get("protected_data")
        or str(content.get("id")).startswith("rs_")
    ]
    return None if form is None or len(rest) == len(contents) else {**form, "contents": rest}


def _dumped(message: FrameworkMessage) -> Form:
    if not isinstance(message, FrameworkMessage):
        raise TypeError(f"expected a message of Agent Framework's, but is: {type(message).__name__}")
    try:
        form: Form = json.loads(json.dumps(message.to_dict(), allow_nan=False))
        FrameworkMessage.from_dict(json.loads(json.dumps(form)))
    except (ContentError, TypeError, ValueError) as error:
        raise ValueError(f"a message of the role {message.role!r} cannot be kept as JSON: {error}") from error
    return form


def _said(form: Form, number: int, names: dict[str | None, str | None]) -> Iterator[tuple[ChatMessage, Form | None]]:
    contents = form["contents"]
    results = [index for index, content in enumerate(contents) if _is_result(content)]
    if form["role"] != "tool" or len(results) < 2:
        message = _message(form, names)
        yield message, None if _dumped(from_chat_message(message)) == form else form
        return
    # What is no result stays with the one before it.
    for start, end in pairwise([0, *results[1:], len(contents)]):
        part = {**form, "contents": contents[start:end]}
        yield _message(part, names), {**part, _PART_OF: number}


def _message(form: Form, names: dict[str | None, str | None]) -> ChatMessage:
    """Return the message of a form. ``names`` are those of the calls by their IDs, to which the form's are added."""
    role, contents = form["role"], form["contents"]
    match role:
        case "user":
            return UserMessage(contents=_contents(contents) or [TextContent("")], name=_text(form.get("author_name")))
        case "assistant":
            answer = _answer(contents)
            names |= {request.id: request.name for request in answer.tool_execution_requests}
            return answer
        case "tool" if result := next(filter(_is_result, contents), None):
            id = _text(result.get("call_id"))
            is_error = True if result.get("exception") is not None else None
            return ToolExecutionResultMessage(id, names.get(id), contents=_result_contents(result), is_error=is_error)
    text = "\n".join(content.text for content in _contents(contents) if isinstance(content, TextContent))
    if role in ("system", "developer") and not is_blank(text):
        return SystemMessage(text)
    return CustomMessage({"framework": FRAMEWORK, "type": role, "text": text})


def _is_result(content: Mapping[str, Any]) -> bool:
    return bool(content["type"].endswith("_result"))


def _answer(contents: Sequence[Mapping[str, Any]]) -> AiMessage:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: dict[str | None, Mapping[str, Any]] = {}
    answered = {content.get("call_id") for content in contents if _is_result(content)}
    for content in contents:
        match content["type"]:
            case "text_reasoning":
                thoughts.append(content.get("text") or "")
            case "text" | "data" | "uri" | "hosted_file":
                said = _content(content)
                texts.append(said.text if isinstance(said, TextContent) else f"[{said.type.lower()}]")
            case "function_approval_request" if call := content.get("function_call"):
                calls.setdefault(call.get("call_id"), call)
            case type if type.endswith("_call") and content.get("call_id") not in answered:
                calls[content.get("call_id")] = content
    return AiMessage(
        "\n".join(texts) if texts else None,
        [_request(call) for call in calls.values()],
        thinking="\n".join(filter(None, thoughts)) if thoughts else None,
    )


def _request(call: Mapping[str, Any]) -> ToolExecutionRequest:
    type = call["type"]
    name = _text(call.get("name")) or _text(call.get("tool_name")) or type.removesuffix("_call")
    if type == "function_call":
        arguments = call.get("arguments")
    else:
        arguments = {key: call[key] for key in ("arguments", "commands", "actions", "inputs") if key in call}
    return request_of(_text(call.get("call_id")), name, arguments)


def _result_contents(result: Mapping[str, Any]) -> list[Content]:
    contents = result.get("items") or [result[key] for key in ("screenshot",) if key in result]
    if contents:
        return _contents(contents)
    value = next((result[key] for key in ("result", "output", "outputs") if result.get(key) is not None), "")
    return [TextContent(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))]


def _contents(contents: Iterable[Mapping[str, Any]]) -> list[Content]:
    return list(map(_content, contents))


def _content(content: Mapping[str, Any]) -> Content:
    match content["type"]:
        case "text":
            return TextContent(content["text"])
        case "data" | "uri" if medium := _medium(content["uri"], content.get("media_type") or ""):
            return medium
        case "function_approval_response" if call := content.get("function_call"):
            decision = "approved" if content.get("approved") else "rejected"
            return TextContent(f"[{decision}: {_request(call).name}]")
        case type:
            return TextContent(f"[{type}]")


def _medium(uri: str, mime_type: str) -> Content | None:
    _, data = data_uri(uri)
    where = {"url": uri} if data is None else {"base64_data": data}
    try:
        return content_of_type(mime_type, **where, mime_type=mime_type)
    except ValueError:  # an invalid URL
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _call(request: ToolExecutionRequest) -> Part:
    return Part.from_function_call(request.id or "", request.name or "", arguments=request.arguments)


def _part(content: Content) -> Part:
    if isinstance(content, TextContent):
        return Part.from_text(content.text)
    media = content.media
    data = None if media is None else data_of(media)
    if media is not None and (data or media.url):
        mime_type = media.mime_type or _MIME_TYPES[content.type]
        try:
            uri = media.url or "" if data is None else f"data:{mime_type};base64,{data.base64}"
            return Part.from_uri(uri, media_type=mime_type)
        except ContentError:  # a relative URL
            pass
    return Part.from_text(f"[{content.type.lower()}]")
