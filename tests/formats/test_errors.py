"""The errors of the readers and writers: whatever somebody sends, a template that knows nothing of it, and a code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chatmemory import (
    AiMessage,
    AudioContent,
    ChatMessage,
    Content,
    CustomMessage,
    ImageContent,
    InvalidMessageError,
    PdfFileContent,
    ToolExecutionRequest,
    UserMessage,
    VideoContent,
)
from chatmemory.core.exceptions import CODES, CodedError
from chatmemory.formats import UnsupportedContentError
from chatmemory.formats.anthropic import from_anthropic, to_anthropic
from chatmemory.formats.gemini import from_gemini, to_gemini
from chatmemory.formats.openai import from_openai, to_openai
from chatmemory.formats.registry import BUILT_IN
from chatmemory.formats.responses import from_responses, to_responses
from tests.formats import test_anthropic, test_gemini, test_responses
from tests.support.fuzzing import LANGCHAIN4J, OPENAI

HOSTILE = "%(hostile)s %d 100%"

BAD: list[Any] = [
    HOSTILE,
    f"\ud800{HOSTILE}",
    f"data:text/html;base64,{HOSTILE}",
    f"https://{HOSTILE}",
    f"{HOSTILE}\0",
    "file",
    "",
    None,
    True,
    -1,
    1e400,
    [],
    {},
    [HOSTILE],
    {HOSTILE: HOSTILE},
    {"type": HOSTILE},
    {"\0": 1},
]

DATA_URL = "data:image/png;base64,aGk="
UI_PARTS: list[Any] = [
    {"type": "text", "text": "Look", "providerMetadata": {"chatmemory": {"a": 1}}},
    {"type": "file", "mediaType": "image/png", "url": DATA_URL},
    {
        "type": "file",
        "mediaType": "image/*",
        "url": DATA_URL,
        "providerMetadata": {
            "chatmemory": {"type": "IMAGE", "detailLevel": "LOW", "media": {"base64Data": True, "mimeType": "x"}}
        },
    },
]
UI_CALL = {
    "type": "tool-now",
    "toolCallId": "c1",
    "state": "output-available",
    "input": {"zone": "UTC"},
    "output": {"value": UI_PARTS[:2]},
    "callProviderMetadata": {"chatmemory": {"id": "c2", "spaced": True, "call": True}},
    "resultProviderMetadata": {"chatmemory": {"contents": True, "at": 1, "attributes": {"a": 1}, "toolName": "x"}},
}
AI_SDK: list[Any] = [
    {"id": "1", "role": "system", "parts": [{"type": "text", "text": "Be kind."}]},
    {"id": "2", "role": "user", "parts": UI_PARTS, "metadata": {"chatmemory": {"name": "ann", "attributes": {"a": 1}}}},
    {
        "id": "3",
        "role": "assistant",
        "parts": [{"type": "step-start"}, {"type": "reasoning", "text": "Hm"}, UI_CALL, {"type": "text", "text": "x"}],
        "metadata": {"chatmemory": {"steps": {"0": {"attributes": {"a": 1}}}}},
    },
    {
        "id": "4",
        "role": "assistant",
        "parts": [{"type": "data-custom", "data": {"a": 1}}],
        "metadata": {"chatmemory": {"type": "CUSTOM"}},
    },
]

SENT: dict[str, list[Any]] = {
    "langchain4j": [[message] for message in LANGCHAIN4J],
    "openai": [[message] for message in OPENAI],
    "openai-responses": [
        *(items for _, items in test_responses.SAME_BOTH_WAYS.values()),
        *(items for items, _ in test_responses.KEPT.values()),
        {"instructions": "Be kind.", "input": "Hi"},
        {"output": [test_responses.CALL_ITEM]},
    ],
    "anthropic": [
        *(data for _, data in test_anthropic.SAME_BOTH_WAYS.values()),
        *([{"role": "user", "content": [block]}] for block in (test_anthropic.PNG_BLOCK, test_anthropic.RESULT_BLOCK)),
        {"system": "Be kind.", "messages": []},
    ],
    "gemini": [
        *(data for _, data in test_gemini.SAME_BOTH_WAYS.values()),
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}}]},
    ],
    "ai-sdk": [[message] for message in AI_SDK],
}


def bent(value: Any) -> Iterator[Any]:
    """``value`` with something bad in each of its places in turn, and with each field missing or one too many."""
    yield from BAD
    if isinstance(value, dict):
        yield value | {HOSTILE: 1}
        for key, item in value.items():
            yield {other: value[other] for other in value if other != key}
            for bad in bent(item):
                yield value | {key: bad}
    elif isinstance(value, (list, tuple)):
        yield [*value, *value]
        for index, item in enumerate(value):
            for bad in bent(item):
                yield [*value[:index], bad, *value[index + 1 :]]


def check(error: CodedError) -> None:
    """It can be told to people and to programs, in any language."""
    assert error.code in CODES
    assert "hostile" not in error.message, "its template is made of what was sent"
    json.dumps(error.params, ensure_ascii=False, allow_nan=False)
    assert error.text(lambda message: f"{message}!") == f"{error.text()}!"
    str(error).encode()


SEEN: dict[str, set[str]] = {
    "langchain4j": {"required", "null", "blank", "empty", "invalid_type", "invalid_choice", "unknown_field", "invalid"},
    "openai": {"required", "null", "empty", "invalid_type", "invalid_choice", "unknown_field", "invalid"},
    "openai-responses": {"required", "null", "empty", "invalid_type", "invalid_choice", "unknown_field", "invalid"},
    "anthropic": {"required", "null", "empty", "invalid_type", "invalid_choice", "unknown_field", "invalid"},
    "gemini": {"required", "null", "empty", "invalid_type", "invalid_choice", "unknown_field", "invalid"},
    "ai-sdk": {"required", "null", "empty", "invalid_type", "invalid_choice", "not_supported", "invalid"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SENT)
def test_whatever_is_refused_is_refused_with_a_template_and_a_code(name: str) -> None:
    read = BUILT_IN[name].read
    assert read is not None
    codes = set()
    for data in SENT[name]:
        for bad in bent(data):
            try:
                read(bad, "m")
            except InvalidMessageError as error:
                check(error)
                codes.add(error.code)
    assert codes >= {*SEEN[name], "invalid_characters"}


def _said(content: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


READ: dict[str, tuple[Callable[[Any, str], Any], Any, str, str, dict[str, Any]]] = {
    "another type": (
        from_openai,
        _said(7),
        "m[0].content",
        "invalid_type",
        {"expected": "a string or a list of parts", "got": "a number"},
    ),
    "null": (
        from_openai,
        [{"role": "tool", "tool_call_id": None, "content": "x"}],
        "m[0].tool_call_id",
        "null",
        {"expected": "a string", "got": "null"},
    ),
    "missing": (
        from_openai,
        [{"role": "tool", "content": "x"}],
        "m[0].tool_call_id",
        "required",
        {"expected": "a string", "got": "nothing"},
    ),
    "another choice": (
        from_gemini,
        [{"role": "%s", "parts": []}],
        "m[0].role",
        "invalid_choice",
        {"choices": ["user", "model", "function", "system"], "got": "'%s'"},
    ),
    "no parts": (from_openai, _said([]), "m[0].content", "empty", {}),
    "no blocks": (from_anthropic, _said([]), "m[0].content", "empty", {}),
    "none of the parts": (
        from_gemini,
        [{"parts": [{}]}],
        "m[0].parts[0]",
        "required",
        {"choices": ["text", "inlineData", "fileData", "functionResponse"]},
    ),
    "a field of another name": (
        from_openai,
        [{"role": "assistant", "contents": "x"}],
        "m[0].contents",
        "unknown_field",
        {"meant": "content"},
    ),
    "twice": (
        from_gemini,
        [{"role": "model", "parts": [{"inline_data": {}, "inlineData": {}}]}],
        "m[0].parts[0].inlineData",
        "repeated",
        {},
    ),
    "known, and not kept": (
        from_anthropic,
        _said([{"type": "search_result"}]),
        "m[0].content[0].type",
        "not_supported",
        {},
    ),
    "known, and nobody's": (
        from_responses,
        [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}],
        "m[0].content[0].file_id",
        "not_supported",
        {},
    ),
    "both": (
        from_responses,
        [{"role": "user", "content": [{"type": "input_file", "file_url": "https://x/a", "file_data": "x"}]}],
        "m[0].content[0].file_data",
        "repeated",
        {},
    ),
    "what a message itself refuses": (
        from_anthropic,
        {"role": "system", "content": " "},
        "m.content",
        "blank",
        {"name": "text"},
    ),
    "no Base64": (
        BUILT_IN["langchain4j"].read,  # type: ignore[dict-item]
        [{"type": "USER", "contents": [{"type": "AUDIO", "audio": {"binaryData": "é"}}]}],
        "m[0].contents[0].audio.binaryData",
        "invalid",
        {"error": "string argument should contain only ASCII characters"},
    ),
    "a file of another type": (
        BUILT_IN["ai-sdk"].read,  # type: ignore[dict-item]
        [{"role": "user", "parts": [{"type": "file", "mediaType": "text/%s", "url": DATA_URL}]}],
        "m[0].parts[0].mediaType",
        "not_supported",
        {"type": "'text/%s'"},
    ),
}


@pytest.mark.parametrize(("read", "data", "place", "code", "params"), READ.values(), ids=READ)
def test_the_code_and_the_parameters_of_what_was_sent(
    read: Callable[[Any, str], Any], data: Any, place: str, code: str, params: dict[str, Any]
) -> None:
    with pytest.raises(InvalidMessageError) as raised:
        read(data, "m")
    error = raised.value
    assert (error.place, error.code, error.params) == (place, code, params)


WRITTEN: dict[str, tuple[Callable[..., Any], ChatMessage | Content, dict[str, Any]]] = {
    "another content": (to_openai, VideoContent("https://x/a"), {"api": "OpenAI", "content": "VIDEO"}),
    "another type": (
        to_anthropic,
        ImageContent(base64_data="aGk=", mime_type="image/%s"),
        {
            "api": "Anthropic",
            "kinds": "images",
            "types": ["image/jpeg", "image/png", "image/gif", "image/webp"],
            "mime_type": "'image/%s'",
        },
    ),
    "another scheme": (
        to_gemini,
        ImageContent("ftp://x/%41.png"),
        {"api": "Gemini", "kind": "an image", "schemes": "http, https and gs", "url": "'ftp://x/%41.png'"},
    ),
    "no data": (to_openai, PdfFileContent("https://x/a"), {"api": "OpenAI", "kind": "a PDF file"}),
    "no type": (to_gemini, ImageContent("https://x/a"), {"api": "Gemini", "kind": "an image"}),
    "another audio": (
        to_openai,
        AudioContent(base64_data="aGk=", mime_type="audio/%s"),
        {"mime_type": "'audio/%s'"},
    ),
    "no Base64": (
        to_openai,
        ImageContent(base64_data="%", mime_type="image/png"),
        {"api": "OpenAI", "kind": "an image"},
    ),
    "no such content": (to_responses, VideoContent("https://x/a"), {"content": "VIDEO"}),
    "no tool": (to_openai, AiMessage(None, [ToolExecutionRequest("1")]), {"api": "OpenAI"}),
    "no such message": (to_anthropic, CustomMessage({"a": "%s"}), {"api": "Anthropic"}),
}


@pytest.mark.parametrize(("write", "said", "params"), WRITTEN.values(), ids=WRITTEN)
def test_the_code_and_the_parameters_of_what_cannot_be_written(
    write: Callable[..., Any], said: ChatMessage | Content, params: dict[str, Any]
) -> None:
    message = said if isinstance(said, ChatMessage) else UserMessage([said])
    with pytest.raises(UnsupportedContentError) as raised:
        write([UserMessage("Hi"), message])
    error = raised.value
    problem = error.params["problem"]
    assert (error.code, error.index, error.params["type"]) == ("not_expressible", 1, message.type.value)
    check(problem)
    assert (problem.code, problem.params) == ("not_supported", params)
    assert str(error) == f"message 1 ({message.type}): {error.problem}"
