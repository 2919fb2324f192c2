"""Anthropic's messages: what is written is what its SDK takes, what is read is what its SDK gives, or a clear error."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from anthropic.types import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    AudioContent,
    ChatMessage,
    Content,
    CustomMessage,
    Image,
    ImageContent,
    InvalidMessageError,
    PdfFileContent,
    SystemMessage,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
    VideoContent,
    messages_from_json,
    messages_to_json,
)
from chatmemory.core.json_text import dumps
from chatmemory.formats import UnsupportedContentError
from chatmemory.formats.anthropic import from_anthropic, to_anthropic
from tests.support import budget
from tests.support.any_json import changed
from tests.support.provider_rules import assert_anthropic_accepts
from tests.support.strategies import json_values, texts

HI = UserMessage("Hi")
PNG = ImageContent(base64_data="aGk=", mime_type="image/png", detail_level="AUTO")
WEB_IMAGE = ImageContent("https://x/a.png", detail_level="AUTO")
PDF = PdfFileContent(base64_data="aGk=")
PDF_SOURCE = {"type": "base64", "media_type": "application/pdf", "data": "aGk="}
PNG_BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
CALL = AiMessage(None, [ToolExecutionRequest("t1", "now", '{"zone":"UTC"}')])
USE = {"type": "tool_use", "id": "t1", "name": "now", "input": {"zone": "UTC"}}
RESULT = ToolExecutionResultMessage("t1", "now", "noon")
RESULT_BLOCK = {"type": "tool_result", "tool_use_id": "t1", "content": "noon"}


def _turn(content: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": content}


def _answer(*blocks: Any) -> dict[str, Any]:
    return _turn(list(blocks), "assistant")


def _text(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **fields}


def _user(*contents: Content) -> UserMessage:
    return UserMessage(contents=contents)


SAME_BOTH_WAYS: dict[str, tuple[list[ChatMessage], dict[str, Any]]] = {
    "system": ([SystemMessage("Be brief."), HI], {"system": "Be brief.", "messages": [_turn("Hi")]}),
    "texts": ([_user(TextContent("a"), TextContent("b"))], {"messages": [_turn([_text("a"), _text("b")])]}),
    "image": (
        [_user(WEB_IMAGE)],
        {"messages": [_turn([{"type": "image", "source": {"type": "url", "url": "https://x/a.png"}}])]},
    ),
    "image as data": ([_user(PNG)], {"messages": [_turn([PNG_BLOCK])]}),
    "PDF": (
        [_user(PdfFileContent("https://x/a.pdf"))],
        {"messages": [_turn([{"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}}])]},
    ),
    "PDF as data": ([_user(PDF)], {"messages": [_turn([{"type": "document", "source": PDF_SOURCE}])]}),
    "answer": ([HI, AiMessage("Hello")], {"messages": [_turn("Hi"), _turn("Hello", "assistant")]}),
    "call": (
        [HI, CALL, RESULT, AiMessage("Noon.")],
        {"messages": [_turn("Hi"), _answer(USE), _turn([RESULT_BLOCK]), _turn("Noon.", "assistant")]},
    ),
    "call with text and thinking": (
        [
            HI,
            AiMessage(
                "Let me see.",
                CALL.tool_execution_requests,
                thinking="hm",
                attributes={"thinking_signature": "s", "redacted_thinking": ["x", "y"]},
            ),
            RESULT,
        ],
        {
            "messages": [
                _turn("Hi"),
                _answer(
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "redacted_thinking", "data": "x"},
                    {"type": "redacted_thinking", "data": "y"},
                    _text("Let me see."),
                    USE,
                ),
                _turn([RESULT_BLOCK]),
            ]
        },
    ),
    "thinking that is not shown": (
        [HI, AiMessage("x", thinking="", attributes={"thinking_signature": "s"})],
        {"messages": [_turn("Hi"), _answer({"type": "thinking", "thinking": "", "signature": "s"}, _text("x"))]},
    ),
    "results and what the user says": (
        [
            HI,
            AiMessage(None, [ToolExecutionRequest("a", "now", "{}"), ToolExecutionRequest("b", "now", "{}")]),
            ToolExecutionResultMessage("b", "now", "x", is_error=True),
            ToolExecutionResultMessage("a", "now", contents=[TextContent("x"), PNG, PDF], is_error=False),
            HI,
        ],
        {
            "messages": [
                _turn("Hi"),
                _answer(
                    {"type": "tool_use", "id": "a", "name": "now", "input": {}},
                    {"type": "tool_use", "id": "b", "name": "now", "input": {}},
                ),
                _turn(
                    [
                        {"type": "tool_result", "tool_use_id": "b", "content": "x", "is_error": True},
                        {
                            "type": "tool_result",
                            "tool_use_id": "a",
                            "content": [_text("x"), PNG_BLOCK, {"type": "document", "source": PDF_SOURCE}],
                            "is_error": False,
                        },
                        _text("Hi"),
                    ]
                ),
            ]
        },
    ),
    "no output": (
        [HI, CALL, ToolExecutionResultMessage("t1", "now", "")],
        {"messages": [_turn("Hi"), _answer(USE), _turn([{"type": "tool_result", "tool_use_id": "t1"}])]},
    ),
}


@pytest.mark.parametrize(("messages", "data"), SAME_BOTH_WAYS.values(), ids=SAME_BOTH_WAYS.keys())
class TestBothWays:
    def test_written(self, messages: list[ChatMessage], data: dict[str, Any]) -> None:
        assert to_anthropic((message for message in messages), pytest.fail) == data
        assert_anthropic_accepts(data)

    def test_read(self, messages: list[ChatMessage], data: dict[str, Any]) -> None:
        assert from_anthropic(data) == messages


KEPT: dict[str, dict[str, Any]] = {
    "several thoughts": _answer(
        {"type": "thinking", "thinking": "a", "signature": "s"},
        {"type": "thinking", "thinking": "b", "signature": "t"},
        _text("x"),
    ),
    "thinking between texts": _answer(
        _text("a"), {"type": "thinking", "thinking": "a", "signature": "s"}, _text("b"), _text("c")
    ),
    "citations": _answer(
        _text(
            "x",
            citations=[
                {
                    "type": "char_location",
                    "cited_text": "x",
                    "document_index": 0,
                    "document_title": None,
                    "start_char_index": 0,
                    "end_char_index": 1,
                }
            ],
        )
    ),
    "a tool that ran at Anthropic": _answer(
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        _text("x"),
    ),
    "a tool of an MCP server": _answer(
        {"type": "mcp_tool_listing", "mcp_server_name": "maps", "tools": []},
        {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "route", "server_name": "maps", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False, "content": "left"},
        _text("x"),
    ),
    "an advisor": _answer(
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "advisor", "input": {}},
        {
            "type": "advisor_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": {"type": "advisor_result", "text": "Be brief."},
        },
        _text("x"),
    ),
    "a summary of what was said before": _answer(
        {"type": "compaction", "content": "They said hello.", "encrypted_content": "e"}, _text("x")
    ),
    "a summary that failed": _answer({"type": "compaction"}, _text("x")),
    "title of a document": _turn(
        [{"type": "document", "source": PDF_SOURCE, "title": "x", "context": "y"}, _text("x")]
    ),
    "document of text": _turn(
        [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}]
    ),
}


class TestKeptAside:
    @pytest.mark.parametrize("turn", KEPT.values(), ids=KEPT.keys())
    def test_what_has_no_place_comes_back(self, turn: dict[str, Any]) -> None:
        data = {"messages": [_turn("Hi"), _turn("x", "assistant"), turn]}
        if turn["role"] == "assistant":
            data["messages"][1:2] = []
        read = messages_from_json(messages_to_json(from_anthropic(data)))
        assert to_anthropic(read, pytest.fail) == data
        assert_anthropic_accepts(data)

    def test_what_it_says_is_there(self) -> None:
        (answer,) = from_anthropic([KEPT["thinking between texts"]])
        assert isinstance(answer, AiMessage)
        assert (answer.text, answer.thinking) == ("abc", "a")
        (document,) = from_anthropic([KEPT["document of text"]])
        assert isinstance(document, UserMessage)
        assert document.single_text() == "x"

    def test_not_for_a_message_that_says_something_else(self) -> None:
        (answer,) = from_anthropic([KEPT["several thoughts"]])
        (document,) = from_anthropic([KEPT["title of a document"]])
        assert to_anthropic(
            [UserMessage("y", attributes=document.attributes), AiMessage("y", attributes=answer.attributes)]
        ) == {"messages": [_turn("y"), _turn("y", "assistant")]}

    @pytest.mark.parametrize(
        "kept",
        [
            "x",
            {"content": "x"},
            {"content": ["x"]},
            {"content": [{"type": "text"}]},
            {"content": [{"type": ["text"], "text": "x"}]},
            {"content": [{**USE, "input": {"x": object()}}]},
        ],
    )
    def test_attributes_of_somebody_else_are_left_out(self, kept: Any) -> None:
        attributes = {"anthropic": kept, "thinking_signature": 1, "redacted_thinking": [1, ""]}
        assert to_anthropic(
            [UserMessage("x", attributes=attributes), AiMessage("x", thinking="hm", attributes=attributes)]
        ) == {"messages": [_turn("x"), _turn("x", "assistant")]}

    def test_what_is_written_can_bechanged(self) -> None:
        read = from_anthropic([KEPT["title of a document"]])
        to_anthropic(read)["messages"][0]["content"][0]["source"]["data"] = "x"
        assert to_anthropic(read)["messages"] == [KEPT["title of a document"]]


class TestWritten:
    def test_neighbours_become_one_turn(self) -> None:
        assert to_anthropic([HI, UserMessage("there"), AiMessage("a"), CALL, RESULT, UserMessage("b")]) == {
            "messages": [
                _turn([_text("Hi"), _text("there")]),
                _answer(_text("a"), USE),
                _turn([RESULT_BLOCK, _text("b")]),
            ]
        }

    def test_system_messages_are_apart(self) -> None:
        assert to_anthropic([SystemMessage("a"), HI, SystemMessage("b")]) == {
            "system": [_text("a"), _text("b")],
            "messages": [_turn("Hi")],
        }

    def test_space_at_the_end_of_the_last_answer(self) -> None:
        found: list[Any] = []
        written = to_anthropic([HI, AiMessage("a "), HI, AiMessage("b \n")], found.append)
        assert [turn["content"] for turn in written["messages"]] == ["Hi", "a ", "Hi", "b"]
        assert [(repair.position, repair.reason) for repair in found] == [(3, "trailing_space")]

    @pytest.mark.parametrize(
        "answer",
        [
            AiMessage(thinking="hm"),
            AiMessage(" ", thinking="hm", attributes={"thinking_signature": "s"}),
            AiMessage(attributes={"redacted_thinking": ["x"]}),
        ],
        ids=["unsigned", "signed", "redacted"],
    )
    def test_an_answer_of_nothing_but_thinking_is_left_out(self, answer: AiMessage) -> None:
        found: list[Any] = []
        assert to_anthropic([HI, answer], found.append) == {"messages": [_turn("Hi")]}
        assert [(repair.position, repair.reason) for repair in found] == [(1, "blank")]

    @pytest.mark.parametrize("signature", ["", "s\nt"], ids=["empty", "joined"])
    def test_signatures_that_are_of_no_use(self, signature: str) -> None:
        answer = AiMessage("x", thinking="a\nb", attributes={"thinking_signature": signature})
        assert to_anthropic([HI, answer])["messages"][1] == _turn("x", "assistant")

    def test_thinking_without_a_signature_is_read_and_not_sent(self) -> None:
        (answer,) = from_anthropic(
            [
                _answer(
                    {"type": "thinking", "thinking": "a", "signature": ""},
                    {"type": "redacted_thinking", "data": ""},
                    {"type": "thinking", "thinking": "b", "signature": "s"},
                    _text("x"),
                )
            ]
        )
        assert isinstance(answer, AiMessage)
        assert answer.thinking == "a\nb"
        written = to_anthropic([HI, answer])
        assert written["messages"][1] == _answer({"type": "thinking", "thinking": "b", "signature": "s"}, _text("x"))
        (only,) = from_anthropic([_answer({"type": "redacted_thinking", "data": ""}, USE)])
        assert to_anthropic([HI, only, RESULT])["messages"][1] == _answer(USE)

    @pytest.mark.parametrize("name", ["a tool that ran at Anthropic", "a tool of an MCP server", "an advisor"])
    def test_what_ran_at_anthropic_is_sent_once(self, name: str) -> None:
        turn = KEPT[name]
        (answer,) = from_anthropic([turn])
        found: list[Any] = []
        written = to_anthropic([HI, answer, HI, answer], found.append)
        assert written == {"messages": [_turn("Hi"), turn, _turn("Hi"), _turn("x", "assistant")]}
        assert_anthropic_accepts(written)
        assert [(repair.position, repair.reason) for repair in found] == [(3, "reasoning")]

    def test_an_empty_summary_is_not_sent(self) -> None:
        (answer,) = from_anthropic([_answer({"type": "compaction", "content": ""}, _text("x"))])
        assert to_anthropic([HI, answer])["messages"][1] == _turn("x", "assistant")

    def test_what_is_kept_outlives_a_blank_text(self) -> None:
        document = KEPT["title of a document"]["content"][0]
        read = from_anthropic([_turn([document, _text(" ")])])
        assert to_anthropic(read)["messages"] == [_turn([document])]

    def test_an_answer_behind_another_one_in_its_turn_loses_its_thinking(self) -> None:
        thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
        call = AiMessage(None, CALL.tool_execution_requests, thinking="hm", attributes={"thinking_signature": "s"})
        found: list[Any] = []
        written = to_anthropic([HI, AiMessage("Let me see."), call, RESULT], found.append)
        assert_anthropic_accepts(written)
        assert written["messages"][1] == _answer(_text("Let me see."), USE)
        assert [(repair.position, repair.reason) for repair in found] == [(2, "reasoning")]
        summary = {"type": "compaction", "content": "They said hello."}
        (summarized,) = from_anthropic([_answer(summary, _text("Let me see."))])
        written = to_anthropic([HI, summarized, call, RESULT])
        assert written["messages"][1] == _answer(summary, _text("Let me see."), USE)
        (summarized,) = from_anthropic([_answer(summary, thinking, USE)])
        written = to_anthropic([HI, AiMessage("a"), summarized, RESULT], pytest.fail)
        assert written["messages"][1] == _answer(_text("a"), summary, thinking, USE)
        written = to_anthropic([HI, call, RESULT, AiMessage("a"), AiMessage("b")], pytest.fail)
        assert written["messages"][1] == _answer(thinking, USE)
        more = AiMessage("b", thinking="hm", attributes={"thinking_signature": "s"})
        written = to_anthropic([HI, AiMessage("a", thinking="hm", attributes=more.attributes), more, HI], pytest.fail)
        assert written["messages"][1] == _answer(thinking, _text("a"), thinking, _text("b"))

    def test_thinking_behind_thinking_that_is_left_out_of_its_turn_is_stale(self) -> None:
        thoughts = {"thinking": "hm", "attributes": {"thinking_signature": "s"}}
        call = AiMessage(None, CALL.tool_execution_requests, **thoughts)
        found: list[Any] = []
        said = [HI, AiMessage("a"), call, RESULT, AiMessage("b", **thoughts), HI]
        written = to_anthropic(said, found.append)
        assert [turn["content"] for turn in written["messages"]] == ["Hi", [_text("a"), USE], [RESULT_BLOCK], "b", "Hi"]
        assert [(repair.position, repair.reason) for repair in found] == [(2, "reasoning"), (4, "stale_thinking")]

    def test_thinking_at_the_end_of_an_answer_is_told(self) -> None:
        thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
        (answer,) = from_anthropic([_answer(thinking, _text("x"), thinking)])
        found: list[Any] = []
        written = to_anthropic([HI, answer, HI], found.append)
        assert written["messages"][1] == _answer(thinking, _text("x"))
        assert [(repair.position, repair.reason) for repair in found] == [(1, "reasoning")]

    def test_thoughts_that_are_given_up_with_a_call_are_told(self) -> None:
        thoughts = [{"type": "thinking", "thinking": text, "signature": "s"} for text in "ab"]
        said = from_anthropic([_answer(*thoughts, USE), _turn([RESULT_BLOCK])])
        found: list[Any] = []
        written = to_anthropic([HI, *said, *said], found.append)
        assert_anthropic_accepts(written)
        assert written["messages"][1] == _answer(*thoughts, USE)
        assert written["messages"][3] == _answer(USE | {"id": "call_0"})
        assert [(repair.position, repair.reason) for repair in found] == [(3, "tool_call_id"), (3, "reasoning")]

    @pytest.mark.parametrize(
        ("messages", "repairs"),
        [
            ([HI, AiMessage("b "), SystemMessage("S")], [(1, "trailing_space")]),
            (
                [HI, CALL, AiMessage("b "), RESULT],
                [(2, "trailing_space"), (3, "result_not_after_call")],
            ),
        ],
        ids=["a system message last", "a result last"],
    )
    def test_the_repair_of_the_end_names_the_answer(
        self, messages: list[ChatMessage], repairs: list[tuple[int, str]]
    ) -> None:
        found: list[Any] = []
        to_anthropic(messages, found.append)
        assert [(repair.position, repair.reason) for repair in found] == repairs

    def test_a_blank_system_message_is_left_out(self) -> None:
        found: list[Any] = []
        assert to_anthropic([SystemMessage("\u00a0"), HI], found.append) == {"messages": [_turn("Hi")]}
        assert [(repair.position, repair.reason) for repair in found] == [(0, "blank")]

    def test_a_signed_summary_takes_the_place_of_what_it_stands_for(self) -> None:
        summary = _answer({"type": "compaction", "content": "They said hello.", "signature": "s"})
        (answer,) = from_anthropic([summary])
        assert to_anthropic([answer, HI], pytest.fail) == {"messages": [summary, _turn("Hi")]}
        found: list[Any] = []
        written = to_anthropic([SystemMessage("S"), HI, AiMessage("Hello"), answer, HI], found.append)
        assert written == {"system": "S", "messages": [summary, _turn("Hi")]}
        assert_anthropic_accepts(written)
        assert [(repair.position, repair.reason) for repair in found] == [(1, "summarized"), (2, "summarized")]

    @pytest.mark.parametrize(
        "content",
        [
            ImageContent("data:image/png;base64,aGk="),
            ImageContent(image=Image("", "aGk=", "IMAGE/PNG")),
            ImageContent(image=Image("file:///a.png", "aGk=", "image/png")),
        ],
    )
    def test_data_of_images(self, content: ImageContent) -> None:
        assert to_anthropic([_user(content)]) == {"messages": [_turn([PNG_BLOCK])]}

    def test_jpg_is_jpeg(self) -> None:
        written = to_anthropic([_user(ImageContent(base64_data="aGk=", mime_type="image/jpg"))])
        assert written["messages"][0]["content"][0]["source"]["media_type"] == "image/jpeg"

    def test_data_of_a_pdf(self) -> None:
        written = to_anthropic([_user(PdfFileContent("data:application/pdf;base64,aGk="))])
        assert written["messages"][0]["content"] == [{"type": "document", "source": PDF_SOURCE}]

    @pytest.mark.parametrize(
        ("message", "error"),
        [
            (CustomMessage({"k": 1}), "message 1 (CUSTOM): Anthropic has no such messages"),
            (_user(VideoContent("http://x")), "message 1 (USER): Anthropic takes no VIDEO"),
            (_user(AudioContent("http://x")), "message 1 (USER): Anthropic takes no AUDIO"),
            (_user(PdfFileContent()), "message 1 (USER): Anthropic needs the URL or the data of a PDF file"),
            (_user(ImageContent(image=Image())), "message 1 (USER): Anthropic needs the URL or the data of an image"),
            (
                _user(ImageContent(base64_data="aGk=", mime_type="image/bmp")),
                "message 1 (USER): Anthropic takes images of image/jpeg, image/png, image/gif, image/webp, "
                "but the MIME type is 'image/bmp'",
            ),
            (
                _user(ImageContent("ftp://x/a.png")),
                "message 1 (USER): Anthropic takes an image from https only, but the URL is 'ftp://x/a.png'",
            ),
            (
                _user(PdfFileContent(base64_data="aGk=", mime_type="text/plain")),
                "message 1 (USER): Anthropic takes PDF files of application/pdf, but the MIME type is 'text/plain'",
            ),
            (
                _user(PdfFileContent("a/b.pdf")),
                "message 1 (USER): Anthropic takes a PDF file from https only, but the URL is 'a/b.pdf'",
            ),
            (
                _user(ImageContent("https:///a.png")),
                "message 1 (USER): Anthropic takes an image from https only, but the URL is 'https:///a.png'",
            ),
            (
                _user(ImageContent("http://x/a.png")),
                "message 1 (USER): Anthropic takes an image from https only, but the URL is 'http://x/a.png'",
            ),
            (
                _user(ImageContent(base64_data="not Base64", mime_type="image/png")),
                "message 1 (USER): Anthropic takes the data of an image as Base64 only",
            ),
            (
                _user(PdfFileContent("data:application/pdf;base64,aGk")),
                "message 1 (USER): Anthropic takes the data of a PDF file as Base64 only",
            ),
            (
                AiMessage(None, [ToolExecutionRequest("1")]),
                "message 1 (AI): Anthropic needs the name of the tool that is called",
            ),
        ],
        ids=lambda value: value[:60] if isinstance(value, str) else "",
    )
    def test_unsupported(self, message: ChatMessage, error: str) -> None:
        with pytest.raises(UnsupportedContentError) as caught:
            to_anthropic([HI, message, HI])
        assert str(caught.value) == error
        assert caught.value.index == 1


class TestRead:
    def test_what_the_sdk_dumps(self) -> None:
        answer = Message.model_validate(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "claude",
                "stop_reason": "tool_use",
                "usage": {"input_tokens": 1, "output_tokens": 2},
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    _text("Let me see."),
                    {**USE, "caller": {"type": "direct"}},
                ],
            }
        ).model_dump()
        assert {"container", "stop_sequence", "usage"} <= answer.keys()
        message = AiMessage(
            "Let me see.",
            CALL.tool_execution_requests,
            thinking="hm",
            attributes={"thinking_signature": "s"},
        )
        assert from_anthropic(answer) == from_anthropic([answer]) == [message]

    def test_an_answer_of_nothing(self) -> None:
        assert from_anthropic([_answer()]) == [AiMessage()]

    def test_system_blocks_are_joined(self) -> None:
        system = [_text("a", cache_control={"type": "ephemeral"}), _text("b")]
        assert from_anthropic({"system": system, "messages": []}) == [SystemMessage("a\n\nb")]

    def test_system_messages_in_between(self) -> None:
        assert from_anthropic([_turn("a", "system"), _turn("Hi")]) == [SystemMessage("a"), HI]

    @pytest.mark.parametrize("system", [None, "", []])
    def test_no_system_text(self, system: Any) -> None:
        assert from_anthropic({"system": system, "messages": [_turn("Hi")]}) == [HI]

    def test_cache_control_is_left_out(self) -> None:
        block = RESULT_BLOCK | {"cache_control": {"type": "ephemeral"}}
        assert from_anthropic([_turn([block, _text("Hi", cache_control={"type": "ephemeral"})])]) == [
            ToolExecutionResultMessage("t1", None, "noon"),
            HI,
        ]

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (None, "m: expected an object or a list of messages, got null"),
            ({"system": "x"}, "m.messages: expected a list of messages, got null"),
            ({"messages": [], "model": "x"}, "m.model: unknown field; leave it out"),
            ({"messages": [], "system": 1}, "m.system: expected a string or a list of blocks, got a number"),
            ({"messages": [], "system": " "}, "m.system: text cannot be null or blank"),
            ({"messages": [], "system": [PNG_BLOCK]}, "m.system[0].type: expected one of text, got 'image'"),
            ([_turn("x", "tool")], "m[0].role: expected one of user, assistant, system, got 'tool'"),
            ([_turn(None)], "m[0].content: expected a string or a list of blocks, got null"),
            ([_turn([])], "m[0].content: expected at least one block, got none"),
            ([_turn("x\0")], "m[0].content: has U+0000 at index 1; take it out"),
            ([_turn("x") | {"id": "1"}], "m[0].id: unknown field; leave it out"),
            ([_turn(["x"])], "m[0].content[0]: expected an object, got a string"),
            ([_turn([USE])], "m[0].content[0].type: expected one of text, image, document, got 'tool_use'"),
            (
                [_turn([{"type": "search_result"}])],
                "m[0].content[0].type: search results cannot be kept; give them as text",
            ),
            (
                [_turn([{"type": "image", "source": {"type": "file", "file_id": "x"}}])],
                "m[0].content[0].source.type: a file that Anthropic holds cannot be kept; give its data",
            ),
            (
                [_turn([{"type": "image", "source": {"type": "url", "url": "data:,"}}])],
                "m[0].content[0].source.url: expected a URL of https",
            ),
            (
                [_turn([{"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": "x"}}])],
                "m[0].content[0].source.media_type: expected one of image/jpeg, image/png, image/gif, image/webp, "
                "got 'image/bmp'",
            ),
            ([_turn([_text("x"), RESULT_BLOCK | {"tool_use_id": 1}])], "m[0].content[1].tool_use_id: "),
            (
                [_turn([RESULT_BLOCK | {"is_error": 1}])],
                "m[0].content[0].is_error: expected true or false, got a number",
            ),
            ([_turn([RESULT_BLOCK | {"content": [USE]}])], "m[0].content[0].content[0].type: expected one of text"),
            ([_answer(USE | {"input": "{}"})], "m[0].content[0].input: expected an object, got a string"),
            ([_answer(USE | {"id": None})], "m[0].content[0].id: expected a string, got null"),
            ([_answer({"type": "thinking", "thinking": "x"})], "m[0].content[0].signature: expected a string, got"),
            (
                [_answer({"type": "compaction", "content": 1})],
                "m[0].content[0].content: expected a string, got a number",
            ),
            ([_answer({"type": "compaction", "content": "x", "signature": []})], "m[0].content[0].signature: expected"),
            ([_answer(_text("x", more=1))], "m[0].content[0].more: unknown field; leave it out"),
        ],
        ids=lambda value: value[:60] if isinstance(value, str) else "",
    )
    def test_errors_name_the_place(self, data: Any, error: str) -> None:
        with pytest.raises(InvalidMessageError) as caught:
            from_anthropic(data, "m")
        assert str(caught.value).startswith(error)

    def test_the_place_starts_with_the_index_unless_it_is_given(self) -> None:
        for data, place in [
            ([_turn(1)], "[0].content"),
            ({"messages": [_turn(1)]}, "messages[0].content"),
            (_turn(1), "content"),
        ]:
            with pytest.raises(InvalidMessageError) as caught:
                from_anthropic(data)
            assert caught.value.place == place


_CONTROLS = "".join(map(chr, range(0x21)))

# Blank is what Java trims or what Anthropic does, and they differ in control characters and odd spaces.
_some = texts(min_size=1, max_size=10).filter(lambda text: bool(text.strip(_CONTROLS).strip()))

# Made once: a strategy is examined before its first draw, which takes longer than the draw.
_contents = st.builds(TextContent, _some) | st.sampled_from([PNG, WEB_IMAGE, PDF, PdfFileContent("https://x/a")])
_users = st.builds(UserMessage, _some) | st.builds(UserMessage, st.lists(_contents, min_size=1, max_size=3))
_results = st.lists(_contents, min_size=1, max_size=2)
_thinking = st.none() | texts(max_size=5)
_redacted = st.lists(_some, min_size=1, max_size=2)
_arguments = st.dictionaries(texts(max_size=3), json_values())
_answers, _answers_with_calls = _some.map(str.rstrip), st.none() | _some


@st.composite
def _conversations(draw: st.DrawFn) -> list[ChatMessage]:
    """Turns that lose nothing in Anthropic's format."""
    given: list[ChatMessage] = [SystemMessage(draw(_some))] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(1, 3))):
        if not isinstance(given[-1] if given else None, ToolExecutionResultMessage) or draw(st.booleans()):
            given.append(draw(_users))
        attributes: dict[str, Any] = {}
        thinking = draw(_thinking)
        if thinking is not None:
            attributes["thinking_signature"] = draw(st.sampled_from(["s", "YQ=="]))
        if draw(st.booleans()):
            attributes["redacted_thinking"] = draw(_redacted)
        requests = [
            ToolExecutionRequest(f"{turn}_{index}", "now", dumps(draw(_arguments)))
            for index in range(draw(st.integers(0, 2)))
        ]
        text = draw(_answers_with_calls if requests else _answers)
        given.append(AiMessage(text, requests, thinking=thinking, attributes=attributes))
        for request in requests:
            error = draw(st.sampled_from([None, False]))
            given.append(
                ToolExecutionResultMessage(request.id, "now", contents=draw(_results), is_error=error),
            )
    return given


class TestAny:
    @pytest.mark.slow
    @settings(max_examples=budget.examples(150))
    @given(_conversations())
    def test_what_can_be_written_comes_back(self, given: list[ChatMessage]) -> None:
        written = to_anthropic(given, pytest.fail)
        assert_anthropic_accepts(written)
        assert from_anthropic(written) == given


def _read_or_error(data: Any) -> list[ChatMessage] | InvalidMessageError:
    try:
        return from_anthropic(data, "m")
    except InvalidMessageError as error:
        return error


class TestAnyJson:
    @pytest.mark.slow
    @settings(max_examples=budget.examples(300))
    @given(st.sampled_from([data for _, data in SAME_BOTH_WAYS.values()] + list(KEPT.values())), st.data())
    def test_what_has_one_thing_changed_is_read_or_refused(self, whole: dict[str, Any], data: st.DataObject) -> None:
        read = _read_or_error(changed(whole, data))
        if isinstance(read, InvalidMessageError):
            assert read.place.startswith("m")
            str(read).encode()
            return
        messages_to_json(read).encode()
        with contextlib.suppress(UnsupportedContentError):
            to_anthropic(read)
