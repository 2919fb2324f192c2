"""The history of LangChain's that is a conversation here, judged by LangChain's own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
)
from langchain_core.messages import ChatMessage as RoleMessage

from chatmemory import (
    AiMessage,
    AudioContent,
    ChatMessage,
    CustomMessage,
    ImageContent,
    PdfFileContent,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
    VideoContent,
)
from chatmemory import SystemMessage as System
from chatmemory.contents import Image
from chatmemory.contrib.langchain_messages import form_of, from_chat_message, to_chat_message
from tests.strategies import messages

DATA = "iVBORw0KGgo="
CALL: Any = {"name": "weather", "args": {"city": "Bern", "day": 1}, "id": "call_1", "type": "tool_call"}

# What LangChain and its providers make, and what it says.
SAID: dict[str, tuple[BaseMessage, ChatMessage]] = {
    "human": (HumanMessage("Grüezi 🎉"), UserMessage("Grüezi 🎉")),
    "human, named": (HumanMessage("Hi", name="ann", id="h1"), UserMessage("Hi", name="ann")),
    "human, nothing": (HumanMessage([]), UserMessage("")),
    "human, OpenAI's blocks": (
        HumanMessage(
            [
                "Look",
                {"type": "text", "text": "at"},
                {"type": "image_url", "image_url": {"url": "https://x.example/a.png", "detail": "high"}},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
                {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}},
                {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{DATA}", "filename": "a.pdf"}},
                {"type": "file", "file": {"file_id": "file-1"}},
            ]
        ),
        UserMessage(
            contents=[
                TextContent("Look"),
                TextContent("at"),
                ImageContent("https://x.example/a.png", detail_level="HIGH"),
                ImageContent(base64_data=DATA, mime_type="image/png", detail_level="AUTO"),
                AudioContent(base64_data=DATA, mime_type="audio/wav"),
                PdfFileContent(base64_data=DATA),
                TextContent("[file]"),
            ]
        ),
    ),
    "human, Anthropic's blocks": (
        HumanMessage(
            [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": DATA}},
                {"type": "search_result", "source": "x"},
            ]
        ),
        UserMessage(
            contents=[
                ImageContent(base64_data=DATA, mime_type="image/png", detail_level="AUTO"),
                PdfFileContent(base64_data=DATA),
                TextContent("[search_result]"),
            ]
        ),
    ),
    "human, LangChain's blocks": (
        HumanMessage(
            content_blocks=[
                {"type": "text-plain", "text": "plain", "mime_type": "text/plain"},
                {"type": "image", "base64": DATA},
                {"type": "video", "url": "https://x.example/a.mp4"},
                {"type": "file", "base64": DATA, "mime_type": "text/csv"},
                {"type": "image", "url": "no URL at all"},
            ]
        ),
        UserMessage(
            contents=[
                TextContent("plain"),
                ImageContent(image=Image(base64_data=DATA), detail_level="AUTO"),
                VideoContent("https://x.example/a.mp4"),
                TextContent("[file]"),
                TextContent("[image]"),
            ]
        ),
    ),
    "human, blocks that are none": (
        HumanMessage([{"type": ["x"]}, {"type": "image", "url": 1, "extras": "x"}]),
        UserMessage(contents=[TextContent("[['x']]"), TextContent("[image]")]),
    ),
    "system": (SystemMessage("Be brief"), System("Be brief")),
    "system, several": (SystemMessage([{"type": "text", "text": "a"}, "b"]), System("a\nb")),
    "system, blank": (
        SystemMessage(" "),
        CustomMessage({"framework": "langchain", "type": "system", "text": " "}),
    ),
    "ai": (AIMessage("Hello"), AiMessage("Hello")),
    "ai, nothing": (AIMessage(""), AiMessage("")),
    "ai, metadata": (
        AIMessage(
            "Hello",
            id="run-1",
            name="bot",
            usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
            response_metadata={"model_name": "gpt", "logprobs": None, "finish_reason": "stop"},
        ),
        AiMessage("Hello"),
    ),
    "ai, calls": (
        AIMessage("", tool_calls=[CALL, {**CALL, "id": "call_2"}]),
        AiMessage(
            None,
            [
                ToolExecutionRequest("call_1", "weather", '{"city":"Bern","day":1}'),
                ToolExecutionRequest("call_2", "weather", '{"city":"Bern","day":1}'),
            ],
        ),
    ),
    "ai, a call that is broken": (
        AIMessage(
            "Wait",
            invalid_tool_calls=[{"name": "f", "args": '{"a', "id": "1", "error": "eof", "type": "invalid_tool_call"}],
        ),
        AiMessage("Wait", [ToolExecutionRequest("1", "f", '{"a')]),
    ),
    "ai, a function's call": (
        AIMessage("", additional_kwargs={"function_call": {"name": "f", "arguments": "{}"}}),
        AiMessage(None, [ToolExecutionRequest(None, "f", "{}")]),
    ),
    "ai, refused": (AIMessage("", additional_kwargs={"refusal": "I cannot"}), AiMessage("I cannot")),
    "ai, Anthropic's blocks": (
        AIMessage(
            [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "redacted_thinking", "data": "d"},
                {"type": "text", "text": "Let me "},
                {"type": "text", "text": "look"},
                {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Bern", "day": 1}},
            ],
            tool_calls=[CALL],
            response_metadata={"model_provider": "anthropic"},
        ),
        AiMessage(
            "Let me look",
            [ToolExecutionRequest("call_1", "weather", '{"city":"Bern","day":1}')],
            thinking="hm",
            attributes={"thinking_signature": "sig"},
        ),
    ),
    "ai, thinking of nobody's": (
        AIMessage([{"type": "thinking", "thinking": "hm", "signature": "sig"}, "Hi"]),
        AiMessage("Hi", thinking="hm", attributes={"thinking_signature": "sig"}),
    ),
    "ai, reasoning": (
        AIMessage("Hi", additional_kwargs={"reasoning_content": "hm"}),
        AiMessage("Hi", thinking="hm"),
    ),
    "ai, OpenAI's reasoning": (
        AIMessage(
            [
                {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
                {"type": "text", "text": "Hi", "annotations": []},
            ],
            response_metadata={"model_provider": "openai"},
        ),
        AiMessage("Hi", thinking="hm"),
    ),
    "ai, a picture": (
        AIMessage([{"type": "image", "base64": DATA, "mime_type": "image/png"}, {"type": "text", "text": " here"}]),
        AiMessage("[image] here"),
    ),
    "ai, a chunk": (AIMessageChunk("Hel", id="run-1"), AiMessage("Hel")),
    "tool": (
        ToolMessage("sunny", tool_call_id="call_1", name="weather"),
        ToolExecutionResultMessage("call_1", "weather", "sunny"),
    ),
    "tool, failed, with artifact": (
        ToolMessage("no", tool_call_id="c", status="error", artifact={"rows": [1, None, {"é": 2.5}]}, id="t"),
        ToolExecutionResultMessage("c", None, "no", is_error=True),
    ),
    "tool, a picture": (
        ToolMessage([{"type": "image", "url": "https://x.example/a.png"}], tool_call_id="c"),
        ToolExecutionResultMessage("c", None, contents=[ImageContent("https://x.example/a.png", detail_level="AUTO")]),
    ),
    "function": (FunctionMessage("4", name="add"), ToolExecutionResultMessage(None, "add", "4")),
    "role, user": (RoleMessage("Hi", role="user"), UserMessage("Hi")),
    "role, assistant": (RoleMessage("Hi", role="assistant"), AiMessage("Hi")),
    "role, developer": (RoleMessage("Hi", role="developer"), System("Hi")),
    "role, another": (
        RoleMessage("Hm", role="critic"),
        CustomMessage({"framework": "langchain", "type": "chat", "role": "critic", "text": "Hm"}),
    ),
    "remove": (
        RemoveMessage("h1"),
        CustomMessage({"framework": "langchain", "type": "remove", "text": ""}),
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_what_a_message_says(name: str) -> None:
    message, said = SAID[name]
    assert to_chat_message(message) == said


@pytest.mark.parametrize("name", SAID)
def test_form_or_message_gives_back_an_equal_one(name: str) -> None:
    message, said = SAID[name]
    form = form_of(message)
    back = from_chat_message(said) if form is None else messages_from_dict([form])[0]
    assert (back, type(back)) == (message, type(message))


def test_a_form_is_kept_only_where_it_says_more() -> None:
    plain = {"human", "system", "ai", "ai, nothing", "ai, calls", "ai, reasoning", "tool", "tool, a picture"}
    assert {name for name, (message, _) in SAID.items() if form_of(message) is None} == plain


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (ToolMessage("x", tool_call_id="c", artifact={1, 2}, id="t1"), TypeError),
        (AIMessage("x", response_metadata={"logprob": float("nan")}, id="t1"), ValueError),
    ],
)
def test_what_is_no_json_is_an_error_that_names_the_message(message: BaseMessage, error: type[Exception]) -> None:
    with pytest.raises(error, match="Message t1 cannot be kept as JSON"):
        form_of(message)


def test_only_langchains_messages_are_taken() -> None:
    with pytest.raises(TypeError, match="message of LangChain's, but is: str"):
        to_chat_message("Hi")  # type: ignore[arg-type]


@given(messages())
def test_whatever_was_said_can_be_read_and_says_the_same(message: ChatMessage) -> None:
    read = from_chat_message(message)
    again = to_chat_message(read)
    if not isinstance(message, CustomMessage):
        assert again.type == message.type
    assert from_chat_message(again) == read or isinstance(message, CustomMessage)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_KINDS = ["text", "image", "image_url", "audio", "input_audio", "file", "video", "document", "thinking", "reasoning"]
_BLOCK = st.text() | st.fixed_dictionaries(
    {"type": st.sampled_from([*_KINDS, "tool_use", "tool_call", "media", "refusal", "server_tool_call"])},
    optional={
        **dict.fromkeys(("text", "url", "base64", "mime_type", "source", "image_url"), _JSON),
        **dict.fromkeys(("file", "extras", "reasoning", "id"), _JSON),
    },
)


@given(
    content=st.text() | st.lists(_BLOCK, max_size=4),
    kind=st.sampled_from(["human", "ai", "system", "tool"]),
    provider=st.sampled_from([None, "anthropic", "openai", "google_genai", "bedrock_converse", "groq"]),
    extra=st.dictionaries(st.text(min_size=1), _JSON, max_size=2),
    args=st.dictionaries(st.text(), _JSON, max_size=3),
)
def test_any_content_says_something_and_comes_back(
    content: Any, kind: str, provider: str | None, extra: dict[str, Any], args: dict[str, Any]
) -> None:
    more: dict[str, Any] = {"additional_kwargs": extra}
    if kind == "tool":
        more |= {"tool_call_id": "1", "artifact": args}
    if kind == "ai":
        more |= {"tool_calls": [{"name": "f", "args": args, "id": "1"}]}
    if provider is not None:
        more["response_metadata"] = {"model_provider": provider}
    (message,) = messages_from_dict([{"type": kind, "data": {"content": content, **more}}])
    said = to_chat_message(message)
    form = form_of(message)
    assert (from_chat_message(said) if form is None else messages_from_dict([form])[0]) == message
