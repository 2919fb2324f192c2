"""Gemini's contents: what is written is what its SDK takes, what is read is what its SDK gives, or a clear error."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from google.genai.types import GenerateContentResponse
from hypothesis import given, settings
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    Audio,
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
from chatmemory.formats.gemini import from_gemini, to_gemini
from chatmemory.formats.validity import Repair
from tests.support import budget
from tests.support.any_json import changed
from tests.support.provider_rules import assert_gemini_accepts
from tests.support.strategies import json_values, texts

HI = UserMessage("Hi")
CALL = AiMessage(None, [ToolExecutionRequest("c1", "now", '{"zone":"UTC"}')])
RESULT = ToolExecutionResultMessage("c1", "now", "noon")
PNG = ImageContent(base64_data="aGk=", mime_type="image/png", detail_level="AUTO")
PNG_PART = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
UNSIGNED = "skip_thought_signature_validator"


def _content(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def _said(text: str, role: str = "user", **fields: Any) -> dict[str, Any]:
    return _content(role, {"text": text, **fields})


def _call_part(name: str = "now", args: Any = None, signature: str | None = UNSIGNED, **id: Any) -> dict[str, Any]:
    signed = {"thoughtSignature": signature} if signature else {}
    return {"functionCall": {**id, "name": name, "args": {"zone": "UTC"} if args is None else args}} | signed


def _response_part(response: Any, name: str = "now", **fields: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": response, **fields}}


def _user(*contents: Content) -> UserMessage:
    return UserMessage(contents=contents)


SAME_BOTH_WAYS: dict[str, tuple[list[ChatMessage], dict[str, Any]]] = {
    "system": (
        [SystemMessage("Be brief."), HI],
        {"system_instruction": {"parts": [{"text": "Be brief."}]}, "contents": [_said("Hi")]},
    ),
    "texts": (
        [_user(TextContent("a"), TextContent("b"))],
        {"contents": [_content("user", {"text": "a"}, {"text": "b"})]},
    ),
    "media as data": (
        [
            _user(
                PNG,
                AudioContent(base64_data="aGk=", mime_type="audio/mp3"),
                VideoContent(base64_data="aGk=", mime_type="video/mp4"),
                PdfFileContent(base64_data="aGk="),
            )
        ],
        {
            "contents": [
                _content(
                    "user",
                    PNG_PART,
                    {"inlineData": {"mimeType": "audio/mp3", "data": "aGk="}},
                    {"inlineData": {"mimeType": "video/mp4", "data": "aGk="}},
                    {"inlineData": {"mimeType": "application/pdf", "data": "aGk="}},
                )
            ]
        },
    ),
    "media elsewhere": (
        [
            _user(
                ImageContent("https://x/1", mime_type="image/png", detail_level="AUTO"),
                AudioContent("gs://x/1", mime_type="audio/mp3"),
                PdfFileContent("https://x/a.pdf"),
                VideoContent("https://www.youtube.com/watch?v=1"),
            )
        ],
        {
            "contents": [
                _content(
                    "user",
                    {"fileData": {"fileUri": "https://x/1", "mimeType": "image/png"}},
                    {"fileData": {"fileUri": "gs://x/1", "mimeType": "audio/mp3"}},
                    {"fileData": {"fileUri": "https://x/a.pdf", "mimeType": "application/pdf"}},
                    {"fileData": {"fileUri": "https://www.youtube.com/watch?v=1"}},
                )
            ]
        },
    ),
    "answer": ([HI, AiMessage("Hello")], {"contents": [_said("Hi"), _said("Hello", "model")]}),
    "call": (
        [HI, CALL, RESULT, AiMessage("Noon.")],
        {
            "contents": [
                _said("Hi"),
                _content("model", _call_part(id="c1")),
                _content("user", _response_part({"output": "noon"}, id="c1")),
                _said("Noon.", "model"),
            ]
        },
    ),
    "calls without IDs, and what the user says after the results": (
        [
            HI,
            AiMessage("Hm.", [ToolExecutionRequest(None, "now", "{}"), ToolExecutionRequest(None, "then", "{}")]),
            ToolExecutionResultMessage(None, "now", "noon"),
            ToolExecutionResultMessage(None, "then", "broken", is_error=True),
            HI,
        ],
        {
            "contents": [
                _said("Hi"),
                _content("model", {"text": "Hm."}, _call_part(args={}), _call_part("then", {}, None)),
                _content("user", _response_part({"output": "noon"}), _response_part({"error": "broken"}, "then")),
                _said("Hi"),
            ]
        },
    ),
    "results of several parts": (
        [
            HI,
            AiMessage(None, [ToolExecutionRequest(id, "now", "{}") for id in "abc"]),
            ToolExecutionResultMessage("b", "now", contents=[TextContent("x"), TextContent("y")]),
            ToolExecutionResultMessage("a", "now", contents=[TextContent("x"), PNG]),
            ToolExecutionResultMessage("c", "now", contents=[PNG]),
        ],
        {
            "contents": [
                _said("Hi"),
                _content(
                    "model", *(_call_part(args={}, id=id, signature=UNSIGNED if id == "a" else None) for id in "abc")
                ),
                _content(
                    "user",
                    _response_part({"output": ["x", "y"]}, id="b"),
                    _response_part({"output": "x"}, id="a", parts=[PNG_PART]),
                    _response_part({"output": []}, id="c", parts=[PNG_PART]),
                ),
            ]
        },
    ),
    "no output": (
        [HI, CALL, ToolExecutionResultMessage("c1", "now", "")],
        {
            "contents": [
                _said("Hi"),
                _content("model", _call_part(id="c1")),
                _content("user", _response_part({"output": ""}, id="c1")),
            ]
        },
    ),
}


@pytest.mark.parametrize(("messages", "data"), SAME_BOTH_WAYS.values(), ids=SAME_BOTH_WAYS.keys())
class TestBothWays:
    def test_written(self, messages: list[ChatMessage], data: dict[str, Any]) -> None:
        assert to_gemini((message for message in messages), pytest.fail) == data
        assert_gemini_accepts(data)

    def test_read(self, messages: list[ChatMessage], data: dict[str, Any]) -> None:
        assert from_gemini(data) == messages


KEPT: dict[str, dict[str, Any]] = {
    "thoughts": _content("model", {"text": "hm", "thought": True}, {"text": "x", "thoughtSignature": "cw=="}),
    "several texts": _content("model", {"text": "a"}, {"text": "b"}),
    "a signature alone": _content("model", {"text": "x"}, {"text": "", "thoughtSignature": "c18t"}),
    "what ran at Gemini": _content(
        "model",
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"text": "x"},
    ),
    "an image that was made": _content("model", {"text": "x"}, PNG_PART),
    "the name and resolution of media": _content(
        "user",
        {
            "inlineData": {"mimeType": "image/png", "data": "aGk=", "displayName": "x"},
            "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"},
        },
        {"text": "x"},
    ),
    "a clip": _content("user", {"fileData": {"fileUri": "https://youtu.be/1"}, "videoMetadata": {"startOffset": "1s"}}),
}


class TestKeptAside:
    @pytest.mark.parametrize("content", KEPT.values(), ids=KEPT.keys())
    def test_what_has_no_place_comes_back(self, content: dict[str, Any]) -> None:
        before = [_said("Hi")] if content["role"] == "model" else [_said("Hi"), _said("x", "model")]
        data = {"contents": [*before, content]}
        read = messages_from_json(messages_to_json(from_gemini(data)))
        assert to_gemini(read, pytest.fail) == data
        assert_gemini_accepts(data)

    def test_what_it_says_is_there(self) -> None:
        (answer,) = from_gemini(KEPT["thoughts"])
        assert isinstance(answer, AiMessage)
        assert (answer.text, answer.thinking) == ("x", "hm")

    def test_signatures_of_calls(self) -> None:
        data = {
            "contents": [
                _said("Hi"),
                _content("model", _call_part(signature="c18t"), _call_part("then", signature=None)),
                _content("user", _response_part({"output": "a"}), _response_part({"output": "b"}, "then")),
            ]
        }
        assert to_gemini(from_gemini(data), pytest.fail) == data
        assert_gemini_accepts(data)

    @pytest.mark.parametrize(
        ("response", "text", "is_error"),
        [
            ({"time": "noon"}, '{"time":"noon"}', None),
            ({"output": {"time": 12}}, '{"output":{"time":12}}', None),
            ({"error": {"code": 1}}, '{"error":{"code":1}}', True),
            ({}, "", None),
        ],
        ids=str,
    )
    def test_responses_of_other_keys(self, response: dict[str, Any], text: str, is_error: bool | None) -> None:
        data = {
            "contents": [
                _said("Hi"),
                _content("model", _call_part(id="c1")),
                _content("user", _response_part(response, id="c1")),
            ]
        }
        read = from_gemini(data)
        assert isinstance(read[2], ToolExecutionResultMessage)
        assert (read[2].text, read[2].is_error) == (text, is_error)
        assert to_gemini(messages_from_json(messages_to_json(read)), pytest.fail) == data
        assert_gemini_accepts(data)

    def test_thoughts_that_are_given_up_with_a_call_are_told(self) -> None:
        calls = [_call_part(id="c1", signature="c18t"), _call_part(id="c1", signature="c18u")]
        said = from_gemini([_content("model", {"text": "hm", "thought": True}, *calls)])
        found: list[Repair] = []
        results = [ToolExecutionResultMessage("c1", "now", "x")] * 2
        written = to_gemini([UserMessage("Hi"), *said, *results], found.append)
        assert_gemini_accepts(written)
        assert [list(part) for part in written["contents"][1]["parts"]] == [
            ["functionCall", "thoughtSignature"],
            ["functionCall"],
        ]
        assert [(repair.position, repair.reason) for repair in found] == [(1, "tool_call_id"), (1, "reasoning")]

    def test_not_for_a_message_that_says_something_else(self) -> None:
        (answer,) = from_gemini(KEPT["several texts"])
        (picture,) = from_gemini(KEPT["the name and resolution of media"])
        assert to_gemini(
            [UserMessage("y", attributes=picture.attributes), AiMessage("y", attributes=answer.attributes)]
        ) == {"contents": [_said("y"), _said("y", "model")]}

    @pytest.mark.parametrize(
        "kept",
        [
            "x",
            {"parts": "x"},
            {"parts": ["x"]},
            {"parts": [{}]},
            {"parts": [{"text": 1}]},
            {"parts": [{"text": "x", "thoughtSignature": "?"}]},
            {"parts": [{"text": "x"}, {"executableCode": "x"}]},
        ],
        ids=str,
    )
    def test_attributes_of_somebody_else_are_left_out(self, kept: Any) -> None:
        attributes = {"gemini": kept}
        said = [
            UserMessage("x", attributes=attributes),
            AiMessage("x", CALL.tool_execution_requests, attributes=attributes),
            ToolExecutionResultMessage("c1", "now", "x", attributes=attributes),
        ]
        assert to_gemini(said)["contents"] == [
            _said("x"),
            _content("model", {"text": "x"}, _call_part(id="c1")),
            _content("user", _response_part({"output": "x"}, id="c1")),
        ]

    def test_what_is_written_can_be_changed(self) -> None:
        read = from_gemini(KEPT["the name and resolution of media"])
        to_gemini(read)["contents"][0]["parts"][0]["inlineData"]["data"] = "x"
        assert to_gemini(read)["contents"] == [KEPT["the name and resolution of media"]]


class TestWritten:
    def _repaired(self, messages: list[ChatMessage]) -> tuple[dict[str, Any], list[tuple[int, str]]]:
        found: list[Repair] = []
        written = to_gemini(messages, found.append)
        assert_gemini_accepts(written)
        return written, [(repair.position, repair.reason) for repair in found]

    def test_neighbours_become_one_content_but_results_stay_apart(self) -> None:
        written, repairs = self._repaired(
            [HI, UserMessage("there"), AiMessage("a"), CALL, RESULT, UserMessage("b"), UserMessage("c")]
        )
        assert written == {
            "contents": [
                _content("user", {"text": "Hi"}, {"text": "there"}),
                _content("model", {"text": "a"}, _call_part(id="c1")),
                _content("user", _response_part({"output": "noon"}, id="c1")),
                _content("user", {"text": "b"}, {"text": "c"}),
            ]
        }
        assert repairs == []

    def test_system_messages_are_apart(self) -> None:
        assert to_gemini([SystemMessage("a"), HI, SystemMessage("b")]) == {
            "system_instruction": {"parts": [{"text": "a"}, {"text": "b"}]},
            "contents": [_said("Hi")],
        }

    def test_a_result_has_the_name_of_its_call(self) -> None:
        written, repairs = self._repaired(
            [HI, AiMessage(None, [ToolExecutionRequest("c1", "1 now")]), ToolExecutionResultMessage("c1", None, "x")]
        )
        assert written["contents"][1:] == [
            _content("model", _call_part("__now", {}, id="c1")),
            _content("user", _response_part({"output": "x"}, "__now", id="c1")),
        ]
        assert repairs == [(1, "name")]

    def test_repairs(self) -> None:
        written, repairs = self._repaired([AiMessage("x"), AiMessage(thinking="hm"), UserMessage(""), CALL])
        assert written["contents"][0] == _said("(The beginning of this conversation is not included.)")
        assert repairs == [(0, "first_turn"), (1, "blank"), (2, "blank"), (3, "call_without_result")]

    @pytest.mark.parametrize("answer", [KEPT["thoughts"]["parts"][:1], [{"text": "", "thoughtSignature": "cw=="}]])
    def test_an_answer_that_says_nothing_is_left_out(self, answer: list[Any]) -> None:
        (message,) = from_gemini(_content("model", *answer))
        assert self._repaired([HI, message]) == ({"contents": [_said("Hi")]}, [(1, "blank")])

    @pytest.mark.parametrize(
        ("content", "part"),
        [
            (ImageContent("data:image/png;base64,aGk="), PNG_PART),
            (ImageContent(image=Image("http://x", "aGk=", "image/png")), PNG_PART),
            (
                ImageContent("http://x/a.PNG?b=c.gif#d.gif"),
                {"fileData": {"fileUri": "http://x/a.PNG?b=c.gif#d.gif", "mimeType": "image/png"}},
            ),
            (
                AudioContent(audio=Audio(binary_data=b"hi", mime_type="audio/wav")),
                {"inlineData": {"mimeType": "audio/wav", "data": "aGk="}},
            ),
            (
                AudioContent(base64_data="aGk=", mime_type="audio/L16;rate=24000"),
                {"inlineData": {"mimeType": "audio/L16;rate=24000", "data": "aGk="}},
            ),
        ],
        ids=["data URI", "data before URL", "ending", "bytes", "type with a parameter"],
    )
    def test_media(self, content: Content, part: dict[str, Any]) -> None:
        assert to_gemini([_user(content)])["contents"] == [_content("user", part)]

    @pytest.mark.parametrize(
        ("message", "error"),
        [
            (CustomMessage({"k": 1}), "message 1 (CUSTOM): Gemini has no such messages"),
            (_user(VideoContent()), "message 1 (USER): Gemini needs the URL or the data of a video"),
            (
                _user(ImageContent("http://x/a")),
                "message 1 (USER): Gemini needs the MIME type of an image, and the ending of its URL names none",
            ),
            (
                _user(ImageContent(image=Image(base64_data="aGk="))),
                "message 1 (USER): Gemini needs the MIME type of an image that is given as data",
            ),
            (
                _user(ImageContent(base64_data="aGk=", mime_type="x/y")),
                "message 1 (USER): Gemini takes images of image/*, but the MIME type is 'x/y'",
            ),
            (
                _user(ImageContent(image=Image("gs://x/a", mime_type="text/plain"))),
                "message 1 (USER): Gemini takes images of image/*, but the MIME type is 'text/plain'",
            ),
            (
                _user(ImageContent(base64_data="aGk", mime_type="image/png")),
                "message 1 (USER): Gemini takes the data of an image as Base64 only",
            ),
            (
                _user(PdfFileContent("ftp://x/a.pdf")),
                "message 1 (USER): Gemini takes a PDF file from http, https and gs only, "
                "but the URL is 'ftp://x/a.pdf'",
            ),
            (
                AiMessage(None, [ToolExecutionRequest("1")]),
                "message 1 (AI): Gemini needs the name of the tool that is called",
            ),
        ],
        ids=lambda value: value[:60] if isinstance(value, str) else "",
    )
    def test_unsupported(self, message: ChatMessage, error: str) -> None:
        with pytest.raises(UnsupportedContentError) as caught:
            to_gemini([HI, message, HI])
        assert str(caught.value) == error
        assert caught.value.index == 1


class TestRead:
    def test_what_the_sdk_dumps(self) -> None:
        content = _content(
            "model",
            {"text": "hm", "thought": True},
            {"text": "Let me see."},
            _call_part(signature="c18t", id="c1"),
            {"executableCode": {"language": "PYTHON", "code": "1"}},
            PNG_PART,
        )
        response = GenerateContentResponse.model_validate(
            {
                "candidates": [{"content": content, "finishReason": "STOP"}],
                "usageMetadata": {"totalTokenCount": 3},
                "modelVersion": "gemini-3",
            }
        )
        dumps = [response.model_dump(), response.model_dump(mode="json", by_alias=True)]
        assert isinstance(dumps[0]["candidates"][0]["content"]["parts"][4]["inline_data"]["data"], bytes)
        for dump in dumps:
            (answer,) = from_gemini(dump)
            assert from_gemini(dump["candidates"][0]["content"]) == [answer]
            assert isinstance(answer, AiMessage)
            assert (answer.text, answer.thinking) == ("Let me see.", "hm")
            assert answer.tool_execution_requests == CALL.tool_execution_requests
            assert to_gemini([HI, answer, RESULT], pytest.fail)["contents"][1] == content

    def test_a_response_of_nothing(self) -> None:
        assert from_gemini({"candidates": [{"finish_reason": "SAFETY", "content": None}]}) == [AiMessage()]
        assert from_gemini({"candidates": [{"finishReason": "RECITATION", "content": {}}]}) == [AiMessage()]

    def test_a_candidate_without_a_role_is_the_models(self) -> None:
        assert from_gemini({"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}) == [AiMessage("Hi")]
        assert from_gemini(_content("model")) == [AiMessage()]

    def test_names_with_underscores(self) -> None:
        data = {
            "systemInstruction": "S",
            "contents": [
                {"parts": [{"file_data": {"file_uri": "http://x/a", "mime_type": "image/png"}, "text": None}]},
                {"role": "model", "parts": [{"function_call": {"name": "now", "args": {"a_b": None}}}]},
                {"role": "function", "parts": [{"function_response": {"name": "now", "response": {"output": "x"}}}]},
            ],
        }
        assert from_gemini(data) == [
            SystemMessage("S"),
            _user(ImageContent("http://x/a", mime_type="image/png", detail_level="AUTO")),
            AiMessage(None, [ToolExecutionRequest(None, "now", '{"a_b":null}')]),
            ToolExecutionResultMessage(None, "now", "x"),
        ]

    def test_responses_belong_to_calls_by_name_and_order(self) -> None:
        calls = [_call_part("a"), _call_part("b"), _call_part("b"), _call_part("c", id="1")]
        responses = [_response_part({"output": str(number)}, name) for number, name in enumerate("cbba")]
        _, *results = from_gemini([_content("model", *calls), _content("user", *responses)])
        assert results == [
            ToolExecutionResultMessage("1", "c", "0"),
            ToolExecutionResultMessage(None, "a", "3"),
            ToolExecutionResultMessage(None, "b", "1"),
            ToolExecutionResultMessage(None, "b", "2"),
        ]

    def test_what_is_mixed_is_told_apart(self) -> None:
        content = _content("user", {"text": "a"}, _response_part({"output": "x"}), {"text": "b"})
        assert from_gemini(content) == [
            UserMessage("a"),
            ToolExecutionResultMessage(None, "now", "x"),
            UserMessage("b"),
        ]

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (None, "m: expected an object or a list of contents, got null"),
            ({"system_instruction": "x"}, "m.contents: expected a list of contents, got null"),
            ({"contents": [], "model": "x"}, "m.model: unknown field; leave it out"),
            ({"contents": [], "system_instruction": "x", "systemInstruction": "x"}, "m.systemInstruction: given twice"),
            ({"contents": [], "system_instruction": " "}, "m.system_instruction.parts: text cannot be null or blank"),
            (
                {"contents": [], "system_instruction": _content("user", PNG_PART)},
                "m.system_instruction.parts[0]: expected",
            ),
            ({"candidates": []}, "m.candidates: expected one candidate, got 0; read the content of one"),
            ({"candidates": [1]}, "m.candidates[0]: expected an object, got a number"),
            (["x"], "m[0]: expected an object, got a string"),
            ([_said("x", "assistant")], "m[0].role: expected one of user, model, function, system, got 'assistant'"),
            ([{"role": "user"}], "m[0].parts: expected at least one part, got none"),
            ([{"role": "user", "parts": "x"}], "m[0].parts: expected a list of parts, got a string"),
            ([_content("user", "x")], "m[0].parts[0]: expected an object, got a string"),
            (
                [_content("user", {})],
                "m[0].parts[0]: expected one of text, inlineData, fileData, functionResponse",
            ),
            ([_content("user", {"text": "x", "inlineData": {}})], "m[0].parts[0].inlineData: unknown field"),
            (
                [_content("user", {"functionResponse": 1, "function_response": 1})],
                "m[0].parts[0].functionResponse: given twice",
            ),
            ([_said("x\0")], "m[0].parts[0].text: has U+0000 at index 1; take it out"),
            ([_said("x", thoughtSignature="?")], "m[0].parts[0].thoughtSignature: expected Base64"),
            ([_said("x", more=1)], "m[0].parts[0].more: unknown field; leave it out"),
            (
                [_content("user", {"inlineData": {"mimeType": "image/png", "data": "?"}})],
                "m[0].parts[0].inlineData.data: expected Base64",
            ),
            (
                [_content("user", {"inlineData": {"mimeType": "text/plain", "data": "aGk="}})],
                "m[0].parts[0].inlineData.mimeType: expected the type of an image, audio, a video or a PDF file",
            ),
            (
                [_content("user", {"fileData": {"fileUri": "x"}})],
                "m[0].parts[0].fileData.fileUri: expected a URL of http, https or gs",
            ),
            (
                [_content("model", {"functionCall": {"args": {}}})],
                "m[0].parts[0].functionCall.name: expected a string, got nothing",
            ),
            (
                [_content("model", {"functionCall": {"name": "x", "args": "{}"}})],
                "m[0].parts[0].functionCall.args: expected an object, got a string",
            ),
            (
                [_content("user", _response_part("x"))],
                "m[0].parts[0].functionResponse.response: expected an object, got a string",
            ),
            (
                [_content("user", _response_part({}, parts=[{"text": "x"}]))],
                "m[0].parts[0].functionResponse.parts[0]: expected one of inlineData, fileData",
            ),
        ],
        ids=lambda value: value[:60] if isinstance(value, str) else "",
    )
    def test_errors_name_the_place(self, data: Any, error: str) -> None:
        with pytest.raises(InvalidMessageError) as caught:
            from_gemini(data, "m")
        assert str(caught.value).startswith(error)


_CONTROLS = "".join(map(chr, range(0x21)))

# Blank is what Java trims or what is left out here, and they differ in control characters and odd spaces.
_some = texts(min_size=1, max_size=10).filter(lambda text: bool(text.strip(_CONTROLS).strip()))

# Made once: a strategy is examined before its first draw, which takes longer than the draw.
_media = st.sampled_from(
    [
        PNG,
        VideoContent("https://youtu.be/1"),
        PdfFileContent(base64_data="aGk="),
        AudioContent("gs://x/a", mime_type="audio/wav"),
    ]
)
_contents = st.lists(st.builds(TextContent, _some) | _media, min_size=1, max_size=3)
_arguments = st.dictionaries(texts(max_size=3), json_values())
_texts_of_results, _media_of_results = st.lists(_some, max_size=2), st.lists(_media, max_size=2)
_answers_with_calls = st.none() | _some


@st.composite
def _conversations(draw: st.DrawFn) -> list[ChatMessage]:
    """Turns that lose nothing in Gemini's format."""
    given: list[ChatMessage] = [SystemMessage(draw(_some))] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(1, 3))):
        if not isinstance(given[-1] if given else None, ToolExecutionResultMessage) or draw(st.booleans()):
            given.append(UserMessage(draw(_contents)))
        has_ids = draw(st.booleans())
        requests = [
            ToolExecutionRequest(
                f"{turn}_{index}" if has_ids else None,
                draw(st.sampled_from(["now", "then"])),
                dumps(draw(_arguments)),
            )
            for index in range(draw(st.integers(0, 2)))
        ]
        given.append(AiMessage(draw(_answers_with_calls if requests else _some), requests))
        for request in requests:
            said = [*map(TextContent, draw(_texts_of_results)), *draw(_media_of_results)]
            given.append(
                ToolExecutionResultMessage(
                    request.id,
                    request.name,
                    contents=said or [TextContent("")],
                    is_error=draw(st.sampled_from([None, True])) if said else None,
                )
            )
    return given


def _read_or_error(data: Any) -> list[ChatMessage] | InvalidMessageError:
    try:
        return from_gemini(data, "m")
    except InvalidMessageError as error:
        return error


class TestAny:
    @pytest.mark.slow
    @settings(max_examples=budget.examples(150))
    @given(_conversations())
    def test_what_can_be_written_comes_back(self, given: list[ChatMessage]) -> None:
        written = to_gemini(given, pytest.fail)
        assert_gemini_accepts(written)
        assert from_gemini(written) == given

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
            to_gemini(read)
