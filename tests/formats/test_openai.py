"""OpenAI's messages: what is written is what its SDK takes, what is read is what its SDK gives, or a clear error."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageParam
from pydantic import TypeAdapter

from chatmemory import (
    AiMessage,
    Audio,
    AudioContent,
    ChatMessage,
    Content,
    CustomMessage,
    DetailLevel,
    Image,
    ImageContent,
    InvalidMessageError,
    PdfFile,
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
from chatmemory.formats import UnsupportedContentError
from chatmemory.formats.openai import from_openai, to_openai
from chatmemory.formats.validity import Repair
from tests.support import budget
from tests.support.any_json import any_json, any_text, changed
from tests.support.refused_media import OPENAI_REFUSES
from tests.support.strategies import json_values, messages, texts, tool_groups

WEATHER = ToolExecutionRequest("c1", "weather", '{"city": "Munich"}')
WEATHER_CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Munich"}'},
}
PNG = ImageContent(base64_data="aGk=", mime_type="image/png")
WAV = AudioContent(base64_data="aGk=", mime_type="audio/wav")
PDF = PdfFileContent(base64_data="aGk=")
PARAMS = TypeAdapter(list[ChatCompletionMessageParam])


def _accepted_by_the_sdk(data: Any) -> None:
    """Raise unless the SDK's types take it; pydantic validates an ``Iterable`` only when it is iterated over."""

    def exhaust(value: Any) -> None:
        if isinstance(value, dict):
            exhaust(list(value.values()))
        elif isinstance(value, Iterable) and not isinstance(value, str):
            for item in value:
                exhaust(item)

    exhaust(PARAMS.validate_python(data, strict=True))


def _user(*contents: Content) -> UserMessage:
    return UserMessage(contents=contents)


def _parts(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def _image(url: str, detail: str = "auto") -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, "detail": detail}}


def _assistant(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "x", **fields}


def _call(*ids: str | None) -> AiMessage:
    return AiMessage(None, [ToolExecutionRequest(id, "now", "{}") for id in ids])


def _result(id: str | None) -> ToolExecutionResultMessage:
    return ToolExecutionResultMessage(id, "now", "noon")


SAME_BOTH_WAYS: dict[str, tuple[ChatMessage, dict[str, Any]]] = {
    "system": (SystemMessage("Be brief."), {"role": "system", "content": "Be brief."}),
    "user": (UserMessage("Hi"), {"role": "user", "content": "Hi"}),
    "empty text": (UserMessage(""), {"role": "user", "content": ""}),
    "name": (UserMessage("Hi", name="Ann"), {"role": "user", "content": "Hi", "name": "Ann"}),
    "texts": (
        _user(TextContent("a"), TextContent("b")),
        _parts({"type": "text", "text": "a"}, {"type": "text", "text": "b"}),
    ),
    "image": (
        _user(ImageContent("https://x/a.png", detail_level="HIGH")),
        _parts(_image("https://x/a.png", "high")),
    ),
    "image of low detail": (_user(ImageContent("https://x/a.png")), _parts(_image("https://x/a.png", "low"))),
    "image as data": (_user(PNG), _parts(_image("data:image/png;base64,aGk=", "low"))),
    "image, percent-encoded": (
        _user(ImageContent("data:image/svg+xml,%3Csvg/%3E", detail_level="AUTO")),
        _parts(_image("data:image/svg+xml,%3Csvg/%3E")),
    ),
    "WAV": (_user(WAV), _parts({"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}})),
    "MP3": (
        _user(AudioContent(base64_data="aGk=", mime_type="audio/mp3")),
        _parts({"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}}),
    ),
    "PDF": (
        _user(PDF),
        _parts(
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "file.pdf"}},
        ),
    ),
    "answer": (AiMessage("Hello"), {"role": "assistant", "content": "Hello"}),
    "call": (
        AiMessage(None, [WEATHER]),
        {"role": "assistant", "content": None, "tool_calls": [WEATHER_CALL]},
    ),
    "call with text": (
        AiMessage("Let me see.", [WEATHER]),
        {"role": "assistant", "content": "Let me see.", "tool_calls": [WEATHER_CALL]},
    ),
    "call with empty text": (AiMessage("", [WEATHER]), _assistant(content="", tool_calls=[WEATHER_CALL])),
    "empty arguments": (
        AiMessage(None, [ToolExecutionRequest("1", "now", "")]),
        _assistant(
            content=None,
            tool_calls=[{"id": "1", "type": "function", "function": {"name": "now", "arguments": ""}}],
        ),
    ),
    "result": (
        ToolExecutionResultMessage("c0", None, "sunny"),
        {"role": "tool", "tool_call_id": "c0", "content": "sunny"},
    ),
    "result of several texts": (
        ToolExecutionResultMessage("c0", contents=[TextContent("a"), TextContent("b")]),
        {
            "role": "tool",
            "tool_call_id": "c0",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        },
    ),
    "refusal": (
        AiMessage("No.", attributes={"openai": {"refusal": "No."}}),
        _assistant(content=None, refusal="No."),
    ),
    "refusal and text": (
        AiMessage("x", attributes={"openai": {"refusal": "No."}}),
        _assistant(refusal="No."),
    ),
    "spoken answer": (
        AiMessage(attributes={"openai": {"audio": {"id": "a1"}}}),
        _assistant(content=None, audio={"id": "a1"}),
    ),
    "assistant with a name": (AiMessage("x", attributes={"openai": {"name": "Bob"}}), _assistant(name="Bob")),
}


@pytest.mark.parametrize(("message", "data"), SAME_BOTH_WAYS.values(), ids=SAME_BOTH_WAYS.keys())
class TestBothWays:
    def test_written(self, message: ChatMessage, data: dict[str, Any]) -> None:
        assert to_openai([message], repair=False) == [data]
        _accepted_by_the_sdk([data])

    def test_read(self, message: ChatMessage, data: dict[str, Any]) -> None:
        assert from_openai([data]) == [message]


def test_a_conversation() -> None:
    conversation = [
        SystemMessage("Be brief."),
        UserMessage("The weather and the time?"),
        AiMessage(None, [WEATHER, ToolExecutionRequest("c2", "now", "{}")]),
        ToolExecutionResultMessage("c1", "weather", "sunny"),
        ToolExecutionResultMessage("c2", "now", "noon"),
        AiMessage("Sunny, noon."),
    ]
    assert from_openai(to_openai(message for message in conversation)) == conversation


class TestWritten:
    @pytest.mark.parametrize(
        ("level", "detail"),
        [("LOW", "low"), ("MEDIUM", "auto"), ("HIGH", "high"), ("ULTRA_HIGH", "high"), ("AUTO", "auto")],
    )
    def test_detail_levels(self, level: str, detail: str) -> None:
        (data,) = to_openai([_user(ImageContent("http://x", detail_level=level))])
        assert data["content"][0]["image_url"]["detail"] == detail

    def test_there_is_a_detail_for_every_level(self) -> None:
        for level in DetailLevel:
            to_openai([_user(ImageContent("http://x", detail_level=level))])

    def test_the_url_of_an_image_comes_before_its_data(self) -> None:
        (data,) = to_openai([_user(ImageContent(image=Image("http://x", "aGk=", "image/png", "a cat")))])
        assert data["content"] == [_image("http://x", "low")]

    @pytest.mark.parametrize(
        ("mime_type", "format"),
        [
            ("audio/wav", "wav"),
            ("audio/x-wav", "wav"),
            ("audio/wave", "wav"),
            ("audio/vnd.wave", "wav"),
            ("audio/mp3", "mp3"),
            ("audio/mpeg", "mp3"),
            ("AUDIO/MPEG", "mp3"),
        ],
    )
    def test_audio_formats(self, mime_type: str, format: str) -> None:
        (data,) = to_openai([_user(AudioContent(base64_data="aGk=", mime_type=mime_type))])
        assert data["content"][0]["input_audio"]["format"] == format

    def test_audio_of_bytes(self) -> None:
        (data,) = to_openai([_user(AudioContent(audio=Audio(binary_data=b"hi", mime_type="audio/wav")))])
        assert data["content"][0]["input_audio"] == {"data": "aGk=", "format": "wav"}

    @pytest.mark.parametrize(
        "content",
        [
            PdfFileContent("data:application/pdf;base64,aGk="),
            PdfFileContent(pdf_file=PdfFile("gs://x/a.pdf", "aGk=")),
            AudioContent("data:audio/wav;base64,aGk="),
            ImageContent("data:image/png;base64,aGk="),
            ImageContent(image=Image("file:///a.png", "aGk=", "IMAGE/PNG")),
        ],
    )
    def test_data_wherever_they_are(self, content: Content) -> None:
        (data,) = to_openai([_user(content)])
        (message,) = from_openai([data])
        assert isinstance(message, UserMessage)
        (read,) = message.contents
        assert read in (PDF, WAV, PNG)

    def test_jpg_is_jpeg(self) -> None:
        (data,) = to_openai([_user(ImageContent(base64_data="aGk=", mime_type="image/jpg"))])
        assert data["content"][0]["image_url"]["url"] == "data:image/jpeg;base64,aGk="

    @pytest.mark.parametrize("url", ["gs://x/a.png", "a/b.png", "data:image/bmp;base64,aGk="])
    def test_a_record_has_any_image(self, url: str) -> None:
        (data,) = to_openai([_user(ImageContent(url))], repair=False)
        assert data == _parts(_image(url, "low"))

    def test_names_of_answers_are_repaired_as_those_of_users(self) -> None:
        answer = AiMessage("x", attributes={"openai": {"name": "My <Bot>"}})
        found: list[Repair] = []
        assert to_openai([UserMessage("x", name="My <Bot>"), answer], found.append) == [
            {"role": "user", "content": "x", "name": "My__Bot_"},
            _assistant(name="My__Bot_"),
        ]
        assert [(repair.position, repair.reason) for repair in found] == [(0, "name"), (1, "name")]
        assert to_openai([answer], repair=False) == [_assistant(name="My <Bot>")]

    def test_an_empty_audio_id_is_not_sent(self) -> None:
        assert to_openai([AiMessage("x", attributes={"openai": {"audio": {"id": ""}}})]) == [_assistant()]

    @pytest.mark.parametrize("arguments", ["", " "])
    def test_blank_arguments_are_an_empty_object(self, arguments: str) -> None:
        call, result = AiMessage(None, [ToolExecutionRequest("1", "now", arguments)]), _result("1")
        assert to_openai([call, result], pytest.fail)[0]["tool_calls"][0]["function"]["arguments"] == "{}"
        assert from_openai(to_openai([call, result], repair=False)) == [call, result]

    def test_an_empty_answer_is_empty_text(self) -> None:
        assert to_openai([AiMessage(), AiMessage(thinking="hm")]) == [{"role": "assistant", "content": ""}] * 2

    def test_missing_arguments_are_an_empty_object(self) -> None:
        (data,) = to_openai([AiMessage(None, [ToolExecutionRequest("1", "now")])], repair=False)
        assert data["tool_calls"][0]["function"] == {"name": "now", "arguments": "{}"}

    def test_what_has_no_place_and_does_no_harm_is_left_out(self) -> None:
        assert to_openai(
            [
                UserMessage("x", name="", attributes={"k": 1}),
                AiMessage("x", thinking="hm", attributes={"k": 1}),
                ToolExecutionResultMessage("1", "now", "x", is_error=True, attributes={"k": 1}),
            ],
            repair=False,
        ) == [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": "x"},
            {"role": "tool", "tool_call_id": "1", "content": "x"},
        ]

    @pytest.mark.parametrize(
        "kept",
        [
            pytest.param("No.", id="text"),
            pytest.param({"refusal": 1, "name": ["x"], "audio": "a1"}, id="other types"),
            pytest.param({"refusal": "", "name": "", "audio": {"id": None}}, id="nothing"),
            pytest.param({"annotations": [{"type": "url_citation"}], "tool_calls": [], "role": "user"}, id="others"),
        ],
    )
    def test_attributes_of_somebody_else_are_left_out(self, kept: Any) -> None:
        assert to_openai([AiMessage("x", attributes={"openai": kept})]) == [{"role": "assistant", "content": "x"}]

    @pytest.mark.parametrize(
        "kept",
        [
            pytest.param({"extra": {"role": "user", "content": "y", "x": None}}, id="of the answer"),
            pytest.param({"extra": ["x"], "calls": "x"}, id="other types"),
            pytest.param({"calls": [{"id": "z", "type": "x", "function": {}, "index": 1}]}, id="of the call"),
            pytest.param({"calls": [{"x": 1}, {"x": 2}]}, id="of more calls"),
            pytest.param({"calls": [None]}, id="of no call"),
        ],
    )
    def test_what_another_server_put_there_replaces_nothing(self, kept: Any) -> None:
        called = [ToolExecutionRequest("1", "now", "{}")]
        assert to_openai([AiMessage("x", called, attributes={"openai": kept})], repair=False) == [
            _assistant(tool_calls=[{"id": "1", "type": "function", "function": {"name": "now", "arguments": "{}"}}])
        ]

    def test_what_another_server_put_there_is_written_as_it_was_read(self) -> None:
        signed = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
        function = {"name": "now", "arguments": "{}"}
        said = [
            {"role": "user", "content": "And now?"},
            {
                "role": "assistant",
                "content": None,
                "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}],
                "tool_calls": [
                    {"id": "1", "type": "function", "function": function, **signed},
                    {"id": "2", "type": "function", "function": function},
                ],
            },
            {"role": "tool", "tool_call_id": "1", "content": "noon"},
            {"role": "tool", "tool_call_id": "2", "content": "noon"},
            {"role": "assistant", "content": "Noon.", **signed},
        ]
        messages = from_openai(said)
        assert to_openai(messages) == said
        assert messages_from_json(messages_to_json(messages)) == messages
        plain = to_openai(messages, extras=False)
        assert "extra_content" not in repr(plain)
        assert "reasoning_details" not in repr(plain)

    def test_nothing(self) -> None:
        assert to_openai([]) == []

    @pytest.mark.parametrize("wrong", [{"role": "user"}, None, "x"])
    def test_no_message(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match=r"messages\[1\] has the wrong type"):
            to_openai([UserMessage("x"), wrong])


class TestMissingIds:
    def _ids(self, messages: list[ChatMessage]) -> Iterator[str]:
        data = to_openai(messages, repair=False)
        _accepted_by_the_sdk(data)
        for item in data:
            yield from (call["id"] for call in item.get("tool_calls", []))
            if item["role"] == "tool":
                yield item["tool_call_id"]

    @pytest.mark.parametrize("missing", [None, ""])
    def test_results_answer_the_calls_in_order(self, missing: str | None) -> None:
        turn = [_call(missing, missing), _result(missing), _result(missing)]
        ids = ["call_0", "call_1", "call_0", "call_1", "call_2", "call_3", "call_2", "call_3"]
        assert list(self._ids([*turn, UserMessage("x"), *turn])) == ids

    def test_ids_that_are_there_are_kept(self) -> None:
        turn = [_call("a", None, "b"), _result("b"), _result(None), _result("a")]
        assert list(self._ids(turn)) == ["a", "call_0", "b", "b", "call_0", "a"]

    def test_ids_that_are_there_are_not_used_again(self) -> None:
        turn = [_call(None, "call_1"), _result("call_0"), _result(None)]
        assert list(self._ids(turn)) == ["call_2", "call_1", "call_0", "call_2"]

    @pytest.mark.parametrize(
        "before",
        [
            pytest.param([], id="no call"),
            pytest.param([_call("a")], id="a call with an ID"),
            pytest.param([_call(None), _result(None)], id="an answered call"),
            pytest.param([_call(None), AiMessage("x")], id="a call of an earlier answer"),
        ],
    )
    def test_a_result_that_answers_no_call(self, before: list[ChatMessage]) -> None:
        with pytest.raises(UnsupportedContentError, match="needs the ID of the call"):
            to_openai([*before, _result(None)], repair=False)


class TestUnsupported:
    @pytest.mark.parametrize(
        ("message", "error"),
        [
            (CustomMessage({"k": 1}), "message 1 (CUSTOM): OpenAI has no such messages"),
            (_user(TextContent("x"), VideoContent("http://x")), "message 1 (USER): OpenAI takes no VIDEO"),
            (
                _user(AudioContent("http://x")),
                "message 1 (USER): OpenAI needs the data of audio; a URL is not enough",
            ),
            (_user(AudioContent()), "message 1 (USER): OpenAI needs the data of audio; a URL is not enough"),
            (
                _user(AudioContent(base64_data="aGk=", mime_type="audio/ogg")),
                "message 1 (USER): OpenAI takes audio/wav and audio/mp3, but the MIME type is 'audio/ogg'",
            ),
            (
                _user(AudioContent(audio=Audio(binary_data=b"hi"))),
                "message 1 (USER): OpenAI takes audio/wav and audio/mp3, but the MIME type is None",
            ),
            (
                _user(PdfFileContent("http://x/a.pdf")),
                "message 1 (USER): OpenAI needs the data of a PDF file; a URL is not enough",
            ),
            (_user(PdfFileContent()), "message 1 (USER): OpenAI needs the data of a PDF file; a URL is not enough"),
            (_user(ImageContent(image=Image())), "message 1 (USER): OpenAI needs the URL or the data of an image"),
            (
                _user(ImageContent("data:image/png;base64,")),
                "message 1 (USER): OpenAI needs the URL or the data of an image",
            ),
            (
                _user(ImageContent(image=Image(base64_data="aGk="))),
                "message 1 (USER): OpenAI needs the MIME type of an image that is given as data",
            ),
            (
                AiMessage(None, [ToolExecutionRequest("1")]),
                "message 1 (AI): OpenAI needs the name of the tool that is called",
            ),
            (
                ToolExecutionResultMessage("1", contents=[TextContent("x"), PNG]),
                "message 1 (TOOL_EXECUTION_RESULT): OpenAI takes only text in a tool result, but it has IMAGE",
            ),
        ],
    )
    def test_errors(self, message: ChatMessage, error: str) -> None:
        with pytest.raises(UnsupportedContentError) as caught:
            to_openai([UserMessage("x"), message, UserMessage("y")], repair=False)
        assert str(caught.value) == error
        assert caught.value.index == 1
        assert isinstance(caught.value, ValueError)

    @pytest.mark.parametrize(
        "content",
        [
            ImageContent(base64_data="a!", mime_type="image/png"),
            AudioContent(base64_data="a!", mime_type="audio/wav"),
            PdfFileContent(base64_data="a!"),
        ],
        ids=lambda content: content.type,
    )
    def test_a_record_has_any_data(self, content: Content) -> None:
        assert "a!" in str(to_openai([_user(content)], repair=False))

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            *OPENAI_REFUSES,
            (
                AudioContent(base64_data="a!", mime_type="audio/wav"),
                "OpenAI takes the data of audio as Base64 only",
            ),
        ],
    )
    def test_media_that_are_not_sent(self, content: Content, problem: str) -> None:
        with pytest.raises(UnsupportedContentError) as caught:
            to_openai([UserMessage("Hi"), _user(content)])
        assert caught.value.problem == problem

    def test_errors_can_be_pickled(self) -> None:
        error = UnsupportedContentError("no such messages", 3, CustomMessage())
        twin = pickle.loads(pickle.dumps(error))
        assert (str(twin), twin.index, twin.problem) == (str(error), 3, "no such messages")


class TestRead:
    def test_nothing(self) -> None:
        assert from_openai([]) == []

    def test_developer_messages_are_system_messages(self) -> None:
        assert from_openai([{"role": "developer", "content": "Be brief."}]) == [SystemMessage("Be brief.")]

    @pytest.mark.parametrize(
        ("role", "message"), [("system", SystemMessage("ab")), ("assistant", AiMessage("ab"))], ids=str
    )
    def test_parts_are_joined(self, role: str, message: ChatMessage) -> None:
        parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        assert from_openai([{"role": role, "content": parts}]) == [message]

    def test_one_part_is_text(self) -> None:
        parts = [{"type": "text", "text": "a"}]
        data = [{"role": "user", "content": parts}, {"role": "tool", "tool_call_id": "1", "content": parts}]
        assert from_openai(data) == [UserMessage("a"), ToolExecutionResultMessage("1", None, "a")]

    @pytest.mark.parametrize(
        ("fields", "level"),
        [
            ({}, "AUTO"),
            ({"detail": None}, "AUTO"),
            ({"detail": "auto"}, "AUTO"),
            ({"detail": "low"}, "LOW"),
            ({"detail": "high"}, "HIGH"),
            ({"detail": "original"}, "ULTRA_HIGH"),
        ],
        ids=str,
    )
    def test_details(self, fields: dict[str, Any], level: str) -> None:
        part = {"type": "image_url", "image_url": {"url": "http://x", **fields}}
        assert from_openai([_parts(part)]) == [_user(ImageContent("http://x", detail_level=level))]

    def test_the_scheme_of_data_may_be_in_capitals(self) -> None:
        assert from_openai([_parts(_image("DATA:image/png;BASE64,aGk=", "low"))]) == [_user(PNG)]

    def test_a_file_needs_no_name(self) -> None:
        part = {"type": "file", "file": {"file_data": "data:Application/PDF;base64,aGk=", "file_id": None}}
        assert from_openai([_parts(part)]) == [_user(PDF)]

    def test_the_name_of_a_tool_is_that_of_the_latest_call_before(self) -> None:
        def call(name: str) -> dict[str, Any]:
            return _assistant(
                tool_calls=[{"id": "1", "type": "function", "function": {"name": name, "arguments": "{}"}}]
            )

        result = {"role": "tool", "tool_call_id": "1", "content": "x"}
        read = from_openai([result, call("a"), result, result, call("b"), result])
        names = [m.tool_name for m in read if isinstance(m, ToolExecutionResultMessage)]
        assert names == [None, "a", "a", "b"]

    @pytest.mark.parametrize("content", [{}, {"content": None}], ids=["none", "null"])
    def test_an_answer_may_have_no_content(self, content: dict[str, Any]) -> None:
        assert from_openai([{"role": "assistant", **content}]) == [AiMessage()]

    @pytest.mark.parametrize(
        ("fields", "text", "kept"),
        [
            ({"refusal": "No."}, "x", {"refusal": "No."}),
            ({"content": None, "refusal": "No."}, "No.", {"refusal": "No."}),
            ({"content": "", "refusal": "No."}, "", {"refusal": "No."}),
            ({"content": None, "refusal": ""}, None, None),
            ({"content": [{"type": "refusal", "refusal": "No."}]}, "No.", {"refusal": "No."}),
            (
                {"content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "No."}]},
                "a",
                {"refusal": "No."},
            ),
            ({"name": "Bob"}, "x", {"name": "Bob"}),
            ({"name": ""}, "x", None),
            ({"annotations": []}, "x", None),
            ({"annotations": [{"type": "url_citation"}]}, "x", {"annotations": [{"type": "url_citation"}]}),
            (
                {"content": None, "audio": {"id": "a", "data": "aGk=", "expires_at": 1, "transcript": "hi"}},
                None,
                {"audio": {"id": "a", "data": "aGk=", "expires_at": 1, "transcript": "hi"}},
            ),
        ],
        ids=str,
    )
    def test_what_only_openai_has_is_kept(
        self, fields: dict[str, Any], text: str | None, kept: dict[str, Any] | None
    ) -> None:
        read = from_openai([_assistant(**fields)])
        assert read == [AiMessage(text, attributes={"openai": kept} if kept else {})]
        assert messages_from_json(messages_to_json(read)) == read
        _accepted_by_the_sdk(to_openai(read))

    @pytest.mark.parametrize(
        ("answer", "message", "sent"),
        [
            ({"content": "Hi"}, AiMessage("Hi"), {"role": "assistant", "content": "Hi"}),
            (
                {"content": None, "tool_calls": [WEATHER_CALL]},
                AiMessage(None, [WEATHER]),
                {"role": "assistant", "content": None, "tool_calls": [WEATHER_CALL]},
            ),
            (
                {"content": None, "refusal": "No.", "annotations": []},
                AiMessage("No.", attributes={"openai": {"refusal": "No."}}),
                {"role": "assistant", "content": None, "refusal": "No."},
            ),
            (
                {"content": None, "audio": {"id": "a", "data": "aGk=", "expires_at": 1, "transcript": "hi"}},
                AiMessage(
                    attributes={"openai": {"audio": {"id": "a", "data": "aGk=", "expires_at": 1, "transcript": "hi"}}}
                ),
                {"role": "assistant", "content": None, "audio": {"id": "a"}},
            ),
        ],
        ids=["text", "call", "refusal", "audio"],
    )
    def test_what_the_sdk_dumps(self, answer: dict[str, Any], message: ChatMessage, sent: dict[str, Any]) -> None:
        dumped = ChatCompletionMessage.model_validate({"role": "assistant", **answer}).model_dump()
        assert {"refusal", "annotations", "audio", "function_call", "tool_calls"} <= dumped.keys()
        assert from_openai([dumped]) == [message]
        assert to_openai([message], repair=False) == [sent]


class TestOtherServers:
    """What servers add that speak OpenAI's format."""

    DEEPSEEK = {
        "role": "assistant",
        "content": "",
        "reasoning_content": "hm",
        "tool_calls": [{**WEATHER_CALL, "index": 0}],
    }

    @pytest.mark.parametrize(
        "fields",
        [
            {"reasoning_content": "hm"},
            {"reasoning": "hm"},
            {"reasoning": "hm", "reasoning_content": None},
            {"reasoning": "hm", "reasoning_content": "hm"},
        ],
        ids=str,
    )
    def test_thinking_is_read(self, fields: dict[str, Any]) -> None:
        assert from_openai([_assistant(**fields)]) == [AiMessage("x", thinking="hm")]

    def test_no_thinking(self) -> None:
        assert from_openai([_assistant(reasoning=None, reasoning_content="")]) == [AiMessage("x")]

    def test_calls_are_read(self) -> None:
        assert from_openai([self.DEEPSEEK]) == [AiMessage("", [WEATHER], thinking="hm")]

    def test_the_name_of_a_tool_is_read(self) -> None:
        result = {"role": "tool", "tool_call_id": "c1", "content": "x", "name": "forecast"}
        *_, named = from_openai([self.DEEPSEEK, result])
        assert named == ToolExecutionResultMessage("c1", "forecast", "x")

    def test_openai_does_not_get_it(self) -> None:
        read = from_openai([self.DEEPSEEK])
        (data,) = to_openai(read, repair=False)
        assert data == {"role": "assistant", "content": "", "tool_calls": [WEATHER_CALL]}

    @pytest.mark.parametrize("repair", [True, False])
    def test_servers_that_want_thinking_back_get_it(self, repair: bool) -> None:
        said = [UserMessage("Hi"), AiMessage("x", thinking="hm"), AiMessage("y")]
        assert to_openai(said, repair=repair, thinking_as="reasoning_content") == [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "x", "reasoning_content": "hm"},
            {"role": "assistant", "content": "y"},
        ]


FUNCTION = {"name": "now", "arguments": "{}"}
CUSTOM_CALL = {"id": "1", "type": "custom", "custom": {"name": "now", "input": "x"}}


def _called(**fields: Any) -> dict[str, Any]:
    return _assistant(tool_calls=[{"id": "1", "type": "function", "function": FUNCTION, **fields}])


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


class TestRefused:
    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (None, "m: expected a list of messages, got null"),
            ({"role": "user"}, "m: expected a list of messages, got an object"),
            (["Hi"], "m[0]: expected an object, got a string"),
            ([{"role": "user", "content": "x"}, None], "m[1]: expected an object, got null"),
            ([{"content": "x"}], "m[0].role: expected one of system, developer, user, assistant, tool, got nothing"),
            (
                [{"role": "User", "content": "x"}],
                "m[0].role: expected one of system, developer, user, assistant, tool, got 'User'",
            ),
            (
                [{"role": ["user"]}],
                "m[0].role: expected one of system, developer, user, assistant, tool, got a list",
            ),
            (
                [{"role": "function", "name": "now", "content": "noon"}],
                "m[0].role: the role function is deprecated; use tool, with a tool_call_id",
            ),
            ([{"role": "system"}], "m[0].content: expected a string or a list of parts, got nothing"),
            ([{"role": "system", "content": " "}], "m[0]: text cannot be null or blank"),
            ([{"role": "system", "content": []}], "m[0].content: expected at least one part, got none"),
            (
                [{"role": "system", "content": [_image("http://x")]}],
                "m[0].content[0].type: expected one of text, got 'image_url'",
            ),
            (
                [{"role": "system", "content": "x", "name": "Bob"}],
                "m[0].name: the name of a system message cannot be kept; leave it out",
            ),
            ([{"role": "user", "content": None}], "m[0].content: expected a string or a list of parts, got null"),
            ([{"role": "user", "content": 1}], "m[0].content: expected a string or a list of parts, got a number"),
            ([{"role": "user", "content": []}], "m[0].content: expected at least one part, got none"),
            ([{"role": "user", "content": "x", "name": 1}], "m[0].name: expected a string, got a number"),
            ([{"role": "user", "content": "x", "id": "1"}], "m[0].id: unknown field; leave it out"),
            ([{"role": "user", "content": "x\0"}], "m[0].content: has U+0000 at index 1; take it out"),
            (
                [{"role": "user", "content": "x", "name": "\ud83d"}],
                "m[0].name: has a lone surrogate (U+D83D) at index 0; take it out",
            ),
            ([_parts("x")], "m[0].content[0]: expected an object, got a string"),
            (
                [_parts({"text": "x"})],
                "m[0].content[0].type: expected one of text, image_url, input_audio, file, got nothing",
            ),
            (
                [_parts({"type": "video_url"})],
                "m[0].content[0].type: expected one of text, image_url, input_audio, file, got 'video_url'",
            ),
            ([_parts({"type": "text"})], "m[0].content[0].text: expected a string, got nothing"),
            (
                [_parts({"type": "text", "text": "x"}, {"type": "text", "text": False})],
                "m[0].content[1].text: expected a string, got true or false",
            ),
            (
                [_parts({"type": "text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit"}})],
                "m[0].content[0].prompt_cache_breakpoint: unknown field; leave it out",
            ),
            (
                [_parts({"type": "image_url", "image_url": "http://x"})],
                "m[0].content[0].image_url: expected an object, got a string",
            ),
            (
                [_parts({"type": "image_url", "image_url": {}})],
                "m[0].content[0].image_url.url: expected a string, got nothing",
            ),
            (
                [_parts({"type": "image_url", "image_url": {"url": "http://x", "size": 1}})],
                "m[0].content[0].image_url.size: unknown field; leave it out",
            ),
            (
                [_parts(_image("http://x", "big"))],
                "m[0].content[0].image_url.detail: expected one of auto, low, high, original, got 'big'",
            ),
            ([_parts(_image("a b"))], "m[0].content[0].image_url: Illegal character in url at index 1: a b"),
            (
                [_parts(_image("data:;base64,aGk="))],
                "m[0].content[0].image_url: mime_type cannot be null or blank",
            ),
            (
                [_parts(_image("data:image/png;base64,"))],
                "m[0].content[0].image_url: base64_data cannot be null or blank",
            ),
            (
                [_parts({"type": "input_audio", "input_audio": {"data": "aGk=", "format": "ogg"}})],
                "m[0].content[0].input_audio.format: expected one of wav, mp3, got 'ogg'",
            ),
            (
                [_parts({"type": "input_audio", "input_audio": {"format": "wav"}})],
                "m[0].content[0].input_audio.data: expected a string, got nothing",
            ),
            (
                [_parts({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}})],
                "m[0].content[0].input_audio: base64_data cannot be null or blank",
            ),
            (
                [_parts({"type": "file", "file": {"file_id": "file-1"}})],
                "m[0].content[0].file.file_id: a file that OpenAI holds cannot be kept; give its file_data",
            ),
            (
                [_parts({"type": "file", "file": {"filename": "a.pdf"}})],
                "m[0].content[0].file.file_data: expected a string, got nothing",
            ),
            (
                [_parts({"type": "file", "file": {"file_data": "data:text/plain;base64,aGk="}})],
                "m[0].content[0].file.file_data: expected data:application/pdf;base64,…",
            ),
            (
                [_parts({"type": "file", "file": {"file_data": "aGk="}})],
                "m[0].content[0].file.file_data: expected data:application/pdf;base64,…",
            ),
            (
                [_assistant(function_call=FUNCTION)],
                "m[0].function_call: function_call is deprecated; use tool_calls",
            ),
            ([_assistant(content=1)], "m[0].content: expected a string or a list of parts, got a number"),
            ([_assistant(content=[])], "m[0].content: expected at least one part, got none"),
            (
                [_assistant(content=[_image("http://x")])],
                "m[0].content[0].type: expected one of text, refusal, got 'image_url'",
            ),
            ([_assistant(refusal=1)], "m[0].refusal: expected a string, got a number"),
            (
                [_assistant(content=[{"type": "refusal", "refusal": "No."}], refusal="No.")],
                "m[0].refusal: given twice, there is one in the content",
            ),
            ([_assistant(reasoning_content=1)], "m[0].reasoning_content: expected a string, got a number"),
            (
                [_assistant(reasoning_content="a", reasoning="b")],
                "m[0].reasoning: given twice, there is a reasoning_content",
            ),
            ([_assistant(tool_call=[])], "m[0].tool_call: unknown field; did you mean tool_calls?"),
            ([_assistant(extra_content={"a": "\0"})], "m[0].extra_content.a: has U+0000 at index 0; take it out"),
            ([_assistant(annotations={})], "m[0].annotations: expected a list, got an object"),
            ([_assistant(annotations=["\0"])], "m[0].annotations[0]: has U+0000 at index 0; take it out"),
            ([_assistant(audio="a1")], "m[0].audio: expected an object, got a string"),
            ([_assistant(audio={})], "m[0].audio.id: expected a string, got nothing"),
            (
                [_assistant(audio={"id": "a", "transcript": "\0"})],
                "m[0].audio.transcript: has U+0000 at index 0; take it out",
            ),
            ([_assistant(tool_calls={})], "m[0].tool_calls: expected a list, got an object"),
            ([_assistant(tool_calls=[None])], "m[0].tool_calls[0]: expected an object, got null"),
            (
                [_assistant(tool_calls=[WEATHER_CALL, CUSTOM_CALL])],
                "m[0].tool_calls[1].type: a call of a custom tool cannot be kept, only one of a function",
            ),
            ([_called(type=None)], "m[0].tool_calls[0].type: expected one of function, got null"),
            ([_called(id=None)], "m[0].tool_calls[0].id: expected a string, got null"),
            ([_called(functions=0)], "m[0].tool_calls[0].functions: unknown field; did you mean function?"),
            ([_called(extra_content="\0")], "m[0].tool_calls[0].extra_content: has U+0000 at index 0; take it out"),
            ([_called(function=None)], "m[0].tool_calls[0].function: expected an object, got null"),
            (
                [_called(function={"arguments": "{}"})],
                "m[0].tool_calls[0].function.name: expected a string, got nothing",
            ),
            (
                [_called(function={"name": "now", "arguments": {}})],
                "m[0].tool_calls[0].function.arguments: expected a string, got an object",
            ),
            (
                [_called(function={**FUNCTION, "strict": True})],
                "m[0].tool_calls[0].function.strict: unknown field; leave it out",
            ),
            ([{"role": "tool", "content": "x"}], "m[0].tool_call_id: expected a string, got nothing"),
            (
                [{"role": "tool", "tool_call_id": "1"}],
                "m[0].content: expected a string or a list of parts, got nothing",
            ),
            (
                [{"role": "tool", "tool_call_id": "1", "content": [_image("http://x")]}],
                "m[0].content[0].type: expected one of text, got 'image_url'",
            ),
            (
                [{"role": "tool", "tool_call_id": "1", "content": "x", "name": 1}],
                "m[0].name: expected a string, got a number",
            ),
        ],
        ids=lambda value: value[:60] if isinstance(value, str) else "",
    )
    def test_errors_name_the_place(self, data: Any, error: str) -> None:
        with pytest.raises(InvalidMessageError) as caught:
            from_openai(data, "m")
        assert str(caught.value) == error
        assert error == f"{caught.value.place}: {caught.value.problem}"

    def test_the_place_starts_with_the_index_unless_it_is_given(self) -> None:
        with pytest.raises(InvalidMessageError) as caught:
            from_openai([_called(id=1)])
        assert caught.value.place == "[0].tool_calls[0].id"

    def test_what_could_not_be_written_again_is_refused(self) -> None:
        deepest = from_openai([_assistant(annotations=_nested(497))])
        assert messages_from_json(messages_to_json(deepest)) == deepest
        with pytest.raises(InvalidMessageError, match="nested more than 500 levels deep"):
            from_openai([_assistant(annotations=_nested(498))])

    def test_a_long_value_is_not_repeated_in_full(self) -> None:
        with pytest.raises(InvalidMessageError) as caught:
            from_openai([{"role": "x" * 1_000_000}])
        assert len(str(caught.value)) < 300


# Of OpenAI's own fields, so that something is often answered back.
_kept = st.fixed_dictionaries(
    {},
    optional={
        "name": texts(max_size=3) | json_values(),
        "refusal": texts(max_size=3) | json_values(),
        "audio": st.fixed_dictionaries({}, optional={"id": texts(max_size=3) | json_values()}) | json_values(),
        "annotations": json_values(),
    },
)
_answers_with_kept = st.builds(
    AiMessage,
    st.none() | texts(max_size=3),
    st.lists(st.builds(ToolExecutionRequest, st.none() | texts(max_size=3), texts(max_size=3)), max_size=2),
    attributes=st.builds(lambda kept: {"openai": kept}, _kept | json_values()),
)
_written_media: st.SearchStrategy[Content] = st.one_of(
    st.builds(TextContent, texts(max_size=20)),
    st.sampled_from([PNG, WAV, PDF, ImageContent("http://x/a.png", detail_level="HIGH")]),
    st.builds(PdfFileContent, pdf_file=st.just(PdfFile(base64_data="aGk=", mime_type="application/x-pdf"))),
)


class TestAnyMessages:
    @pytest.mark.slow
    @settings(max_examples=budget.examples(150))
    @given(
        st.lists(
            st.one_of(
                messages(),
                _answers_with_kept,
                st.builds(UserMessage, contents=st.lists(_written_media, min_size=1, max_size=3)),
            ),
            max_size=3,
        )
        | tool_groups()
    )
    def test_the_sdk_accepts_what_is_written(self, given: list[ChatMessage]) -> None:
        try:
            data = to_openai(given, repair=False)
        except UnsupportedContentError:
            return
        assert len(data) == len(given)
        _accepted_by_the_sdk(data)
        from_openai(data)

    @pytest.mark.slow
    @settings(max_examples=budget.examples(150))
    @given(st.data())
    def test_what_can_be_written_comes_back(self, data: st.DataObject) -> None:
        given = [message for group in data.draw(st.lists(_expressible(), max_size=3)) for message in group]
        assert from_openai(to_openai(given, repair=False)) == given


def _expressible() -> st.SearchStrategy[list[ChatMessage]]:
    """Messages that lose nothing in OpenAI's format."""
    media = st.one_of(
        st.builds(TextContent, texts(max_size=20)),
        st.builds(
            ImageContent,
            st.sampled_from(["http://x/a.png", "https://example.com/a?b=c&d=%20#f", "a", "data:image/png,%20"]),
            detail_level=st.sampled_from(["LOW", "HIGH", "AUTO"]),
        ),
        st.builds(
            ImageContent,
            base64_data=st.sampled_from(["aGk=", "no base64, at all!"]),
            mime_type=st.sampled_from(["image/png", "x/y", "image/svg+xml;charset=utf-8"]),
            detail_level=st.sampled_from(["LOW", "HIGH", "AUTO"]),
        ),
        st.builds(AudioContent, base64_data=st.just("aGk="), mime_type=st.sampled_from(["audio/wav", "audio/mp3"])),
        st.builds(PdfFileContent, base64_data=st.sampled_from(["aGk=", "no base64!"])),
    )
    some = texts(min_size=1, max_size=10)
    kept = st.fixed_dictionaries(
        {}, optional={"name": some, "refusal": some, "audio": st.fixed_dictionaries({"id": texts(max_size=5)})}
    )
    kept = kept.filter(bool).map(lambda kept: {"openai": kept})
    alone = st.one_of(
        texts(max_size=20).map(lambda text: SystemMessage(text + ".")),
        st.builds(UserMessage, texts(max_size=20), name=st.none() | some),
        st.builds(UserMessage, contents=st.lists(media, min_size=1, max_size=3), name=st.none() | some),
        st.builds(AiMessage, texts(max_size=20), attributes=st.just({}) | kept),
    )
    requests = st.builds(ToolExecutionRequest, some, texts(max_size=10), texts(max_size=10))
    calls = st.builds(AiMessage, st.none() | texts(max_size=20), st.lists(requests, min_size=1, max_size=2))
    return st.one_of(alone.map(lambda message: [message]), calls.map(lambda message: [message]), tool_groups())


def _mostly(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 11).flatmap(lambda number: strategy if number else any_json)


def _object(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects that have mostly the right fields with mostly the right values."""
    return _mostly(st.fixed_dictionaries({}, optional={key: _mostly(value) for key, value in fields.items()}))


_urls = st.sampled_from(["http://x", "a b", "data:image/png;base64,aGk=", "data:application/pdf;base64,aGk=", "data:,"])
_part_types = st.sampled_from(["text", "image_url", "input_audio", "file", "refusal"])
_part_objects = _object(
    type=_part_types,
    text=any_text,
    refusal=any_text,
    image_url=_object(url=_urls, detail=st.sampled_from(["auto", "original", "big"])),
    input_audio=_object(data=any_text, format=st.sampled_from(["wav", "ogg"])),
    file=_object(file_data=_urls, file_id=st.none(), filename=any_text),
)
_message_objects = _object(
    role=st.sampled_from(["system", "developer", "user", "assistant", "tool", "function"]),
    content=any_text | st.lists(_part_objects, max_size=2) | st.none(),
    name=any_text,
    tool_call_id=any_text,
    refusal=any_text,
    annotations=st.lists(any_json, max_size=1),
    audio=_object(id=any_text, data=any_text),
    function_call=st.none(),
    tool_calls=st.lists(
        _object(
            id=any_text,
            type=st.just("function"),
            function=_object(name=any_text, arguments=any_text),
        ),
        max_size=2,
    ),
)


def _read_or_error(data: Any) -> list[ChatMessage] | InvalidMessageError:
    try:
        return from_openai(data, "m")
    except InvalidMessageError as error:
        return error


class TestAnyJson:
    @pytest.mark.slow
    @settings(max_examples=budget.examples(300))
    @given(any_json | st.lists(_message_objects, max_size=3))
    def test_is_read_or_refused(self, data: Any) -> None:
        outcome = _read_or_error(data)
        if isinstance(outcome, InvalidMessageError):
            assert outcome.place.startswith("m")
            str(outcome).encode()
        else:
            messages_to_json(outcome).encode()
            with contextlib.suppress(UnsupportedContentError):  # a result with an empty ID
                _accepted_by_the_sdk(to_openai(outcome))

    @pytest.mark.slow
    @settings(max_examples=budget.examples(150))
    @given(st.sampled_from([data for _, data in SAME_BOTH_WAYS.values()]), st.data())
    def test_so_is_a_message_with_one_thingchanged(self, whole: dict[str, Any], data: st.DataObject) -> None:
        outcome = _read_or_error([changed(whole, data)])
        assert isinstance(outcome, list) or outcome.place.startswith("m[0]")
