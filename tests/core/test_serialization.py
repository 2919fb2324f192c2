"""The JSON of messages: what the real LangChain4j wrote, read and refused."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    message_from_json,
    message_to_json,
    messages_from_json,
    messages_to_json,
)
from chatmemory.core.json_text import MAX_DOCUMENT_CHARS, MAX_NESTING
from tests.support.strategies import messages
from tests.vectors import load, snake_case

VECTORS = load("serialization")


class Color(Enum):
    RED = 1


HELLO = TextContent("hello")
MUNICH = '{"city": "Munich"}'
WEATHER = ToolExecutionRequest(name="weather", arguments=MUNICH)
URL = "http://image.url"


def _user(content: Content) -> UserMessage:
    return UserMessage(contents=[content])


MESSAGES: dict[str, ChatMessage] = {
    "system": SystemMessage("hello"),
    "system_unicode": SystemMessage("café 你好 😀 / \\ \" <b>&amp;'"),
    "system_control_characters": SystemMessage("x\0\b\t\n\f\r\x1f\x7f\x85\u2028\u2029y"),
    "system_lone_surrogate": SystemMessage("x\ud83d y"),
    "user_text": UserMessage("hello"),
    "user_empty_text": UserMessage(""),
    "user_name": UserMessage("hello", name="Klaus"),
    "user_empty_name": UserMessage("hello", name=""),
    "user_attributes": UserMessage("hello", attributes={"name": "Klaus", "age": 42, "extra": ["one", "two"]}),
    "user_attributes_order": UserMessage(
        "hello", attributes={"zulu": 1, "alpha": 2, "mike": 3, "bravo": 4, "k10": 5, "k2": 6, "k1": 7}
    ),
    "user_attributes_empty": UserMessage("hello", attributes={}),
    "user_attributes_null_value": UserMessage("hello", attributes={"k": None, "e": "", "l": [], "m": {}}),
    "user_name_attributes": UserMessage("hello", name="Bob", attributes={"k": "v"}),
    "user_multi": UserMessage(
        contents=[
            TextContent("look"),
            ImageContent("http://image.url/a.png"),
            AudioContent("http://x/a.mp3"),
            VideoContent("http://x/a.mp4"),
            PdfFileContent("http://x/a.pdf"),
        ]
    ),
    "user_two_texts": UserMessage(contents=[TextContent("a"), TextContent("b")]),
    "image_url": _user(ImageContent(URL)),
    "image_url_detail_low": _user(ImageContent(URL, detail_level=DetailLevel.LOW)),
    "image_url_detail_medium": _user(ImageContent(URL, detail_level=DetailLevel.MEDIUM)),
    "image_url_detail_high": _user(ImageContent(URL, detail_level="HIGH")),
    "image_url_detail_ultra_high": _user(ImageContent(URL, detail_level=DetailLevel.ULTRA_HIGH)),
    "image_url_detail_auto": _user(ImageContent(URL, detail_level=DetailLevel.AUTO)),
    "image_base64": _user(ImageContent(base64_data="aGVsbG8=", mime_type="image/png")),
    "image_base64_detail": _user(
        ImageContent(base64_data="aGVsbG8=", mime_type="image/jpeg", detail_level=DetailLevel.HIGH)
    ),
    "image_all_fields": _user(
        ImageContent(image=Image("http://x/i.png", "aGk=", "image/png", "a cat"), detail_level=DetailLevel.AUTO)
    ),
    "image_url_with_mime": _user(ImageContent("http://x/i.png?a=b&c=%20d#f", mime_type="image/png")),
    "image_empty": _user(ImageContent(image=Image())),
    "image_data_url": _user(ImageContent("data:image/png;base64,aGk=")),
    "audio_url": _user(AudioContent("http://x/a.mp3")),
    "audio_base64": _user(AudioContent(base64_data="bXAz", mime_type="audio/mp3")),
    "audio_binary": _user(AudioContent(audio=Audio(binary_data=b"\x01\x02\xff\x00", mime_type="audio/wav"))),
    "audio_null": _user(AudioContent(audio=None)),
    "video_url": _user(VideoContent("http://x/v.mp4")),
    "video_base64": _user(VideoContent(base64_data="bXA0", mime_type="video/mp4")),
    "video_null": _user(VideoContent(video=None)),
    "pdf_url": _user(PdfFileContent("http://x/a.pdf")),
    "pdf_base64": _user(PdfFileContent(base64_data="cGRm", mime_type="application/pdf")),
    "pdf_other_mime": _user(PdfFileContent(pdf_file=PdfFile(base64_data="cGRm", mime_type="application/x-pdf"))),
    "pdf_null": _user(PdfFileContent(pdf_file=None)),
    "ai_text": AiMessage("hello"),
    "ai_empty_text": AiMessage(""),
    "ai_empty": AiMessage(),
    "ai_thinking": AiMessage("t", thinking="th"),
    "ai_thinking_only": AiMessage(thinking="th"),
    "ai_tool_request": AiMessage(tool_execution_requests=[ToolExecutionRequest("1", "weather", MUNICH)]),
    "ai_tool_request_no_id": AiMessage(tool_execution_requests=[WEATHER]),
    "ai_tool_request_empty": AiMessage(tool_execution_requests=[ToolExecutionRequest()]),
    "ai_tool_request_empty_strings": AiMessage(tool_execution_requests=[ToolExecutionRequest("", "", "")]),
    "ai_tool_requests_text": AiMessage(
        "let me see", [ToolExecutionRequest("1", "a", "{}"), ToolExecutionRequest("2", "b", '{"x":1}')]
    ),
    "ai_attributes": AiMessage("t", attributes={"zulu": 1, "alpha": [1, 2.5, "x", True], "nested": {"n": None}}),
    "ai_all": AiMessage("test-text", [WEATHER], thinking="test-thinking", attributes={"name": "Klaus", "age": 42}),
    "ai_images": AiMessage(
        "here",
        attributes={
            "generated_images": [
                Image(base64_data="aGk=", mime_type="image/png"),
                Image("http://x/i.png", revised_prompt="p"),
            ]
        },
    ),
    "tool_result": ToolExecutionResultMessage("12345", "weather", "sunny"),
    "tool_result_empty_text": ToolExecutionResultMessage("1", "t", ""),
    "tool_result_null_id_name": ToolExecutionResultMessage(None, None, "sunny"),
    "tool_result_empty_id_name": ToolExecutionResultMessage("", "", "sunny"),
    "tool_result_error_true": ToolExecutionResultMessage("1", "t", "boom", is_error=True),
    "tool_result_error_false": ToolExecutionResultMessage("1", "t", "ok", is_error=False),
    "tool_result_contents": ToolExecutionResultMessage(
        "1", "t", contents=[TextContent("see"), ImageContent(base64_data="aGk=", mime_type="image/png")]
    ),
    "tool_result_attributes": ToolExecutionResultMessage(
        "67890", "tool_search_tool", "Tools found: weather, time", attributes={"found_tools": ["weather", "time"]}
    ),
    "tool_result_all": ToolExecutionResultMessage(
        "1", "t", contents=[TextContent("x")], is_error=True, attributes={"k": "v"}
    ),
    "custom": CustomMessage({"k1": "v1", "k2": "v2"}),
    "custom_empty": CustomMessage({}),
    "custom_type_key": CustomMessage({"type": "USER"}),
    "custom_numbers": CustomMessage(
        {
            "int": 1,
            "long": 3_000_000_000,
            "double": 1.0,
            "small": 1e-7,
            "big": 1e21,
            "bd": Decimal("1.10"),
            "bi": 123456789012345678901234567890,
            "nan": float("nan"),
        }
    ),
    "custom_float_bool_null": CustomMessage({"a": 0.1, "b": -0.0, "c": True, "d": None, "e": [], "f": {}}),
    # Python has no objects that are nothing but their fields: a dict stands for one.
    "custom_pojo_enum_uuid_bytes": CustomMessage(
        {"pojo": {"a": "x", "hidden": 3}, "enum": Color.RED, "uuid": UUID(int=1), "bytes": b"\x01\x02"}
    ),
    "custom_nested_message": CustomMessage({"m": UserMessage("x")}),
}
# LangChain4j has no JSON form for it either: test_a_date_has_no_json_form.
NOT_SERIALIZABLE = {"custom_java_time"}

# No database holds these, so the reader of outside input refuses what the writer writes.
UNSTORABLE = {"system_control_characters": "U+0000", "system_lone_surrogate": "a lone surrogate"}


def vectors(part: str, *, without: Any = ()) -> list[Any]:
    return [pytest.param(vector, id=vector["name"]) for vector in VECTORS[part] if vector["name"] not in without]


class TestSerialize:
    def test_every_vector_is_covered(self) -> None:
        assert {vector["name"] for vector in VECTORS["serialize"]} == MESSAGES.keys() | NOT_SERIALIZABLE

    @pytest.mark.parametrize("vector", vectors("serialize", without=NOT_SERIALIZABLE))
    def test_writes_the_same_text(self, vector: dict[str, Any]) -> None:
        assert message_to_json(MESSAGES[vector["name"]]) == vector["json"]

    @pytest.mark.parametrize("vector", vectors("serialize", without=NOT_SERIALIZABLE | UNSTORABLE.keys()))
    def test_reads_it_back(self, vector: dict[str, Any]) -> None:
        message = message_from_json(vector["json"])
        assert (message == MESSAGES[vector["name"]]) is vector["round_trip_equal"]
        assert message_to_json(message) == vector.get("round_trip_json", vector["json"])

    @pytest.mark.parametrize("name", UNSTORABLE)
    def test_refuses_to_read_what_no_database_holds(self, name: str) -> None:
        with pytest.raises(InvalidMessageError, match=rf"^text: has {re.escape(UNSTORABLE[name])}.* at index 1"):
            message_from_json(message_to_json(MESSAGES[name]))

    def test_a_date_has_no_json_form(self) -> None:
        with pytest.raises(TypeError, match="a date has no JSON form"):
            message_to_json(CustomMessage({"d": date(2026, 1, 2)}))

    @pytest.mark.parametrize(
        "vector", VECTORS["serialize_lists"], ids=["empty", "three", "null in it", "null", "one null"]
    )
    def test_lists(self, vector: dict[str, str]) -> None:
        given: dict[str, Callable[[], str]] = {
            "[]": lambda: messages_to_json([]),
            "null": lambda: messages_to_json(None),
            "messageToJson(null)": lambda: message_to_json(None),
        }
        three = [SystemMessage("s"), UserMessage("u"), AiMessage("a")]
        with_null = [UserMessage("u"), None]
        written = given.get(vector["java"], lambda: messages_to_json(with_null if "null]" in vector["java"] else three))
        assert written() == vector["json"]

    def test_what_is_no_message_is_refused(self) -> None:
        with pytest.raises(TypeError, match="expected a message, got str"):
            message_to_json("hello")  # type: ignore[arg-type]

    @pytest.mark.slow
    @given(st.lists(messages(), max_size=3))
    def test_any_messages_come_back_equal(self, given: list[ChatMessage]) -> None:
        assert messages_from_json(messages_to_json(given)) == given


COERCED = "a scalar is no string: LangChain4j turns it into one"
NO_BOOLEAN = "isError is true or false: LangChain4j turns texts and numbers into one"
NULL = "null is no message, content or request here, as in memory.add"
GARBAGE = "one document, and nothing after it"

# Accepted by LangChain4j, refused here.
DEVIATIONS = {
    "system_text_number": COERCED,
    "system_text_float": COERCED,
    "system_text_boolean": COERCED,
    "user_name_number": COERCED,
    "content_text_number": COERCED,
    "content_image_detail_number": "a number is no detail level: LangChain4j takes it as an index",
    "content_image_url_number": COERCED,
    "ai_request_arguments_number": COERCED,
    "ai_request_id_number": COERCED,
    "tool_text_number": COERCED,
    "tool_id_number": COERCED,
    "tool_isError_string_true": NO_BOOLEAN,
    "tool_isError_string_True": NO_BOOLEAN,
    "tool_isError_string_empty": NO_BOOLEAN,
    "tool_isError_one": NO_BOOLEAN,
    "tool_isError_zero": NO_BOOLEAN,
    "tool_isError_two": NO_BOOLEAN,
    "json_null": NULL,
    "list_of_null": NULL,
    "list_with_null": NULL,
    "user_contents_with_null": NULL,
    "ai_requests_with_null": NULL,
    "array_type_wrapper": "a message is an object, not a list of its type and its fields",
    "trailing_garbage_accepted": GARBAGE,
    "two_documents_first_wins": GARBAGE,
    "list_trailing_garbage": GARBAGE,
    "nul_escape": "no database holds U+0000",
    "lone_surrogate_escape": "a lone surrogate has no UTF-8",
}


def input_of(vector: dict[str, Any]) -> str | None:
    if "repeat" not in vector:
        text: str | None = vector["input"]
        return text
    prefix, opening, count, middle, closing, suffix = vector["repeat"]
    return f"{prefix}{opening * count}{middle}{closing * count}{suffix}"


class TestDeserialize:
    def test_deviations_are_vectors_that_langchain4j_accepts(self) -> None:
        assert DEVIATIONS.keys() <= {vector["name"] for vector in VECTORS["deserialize"] if vector["ok"]}

    @pytest.mark.parametrize("vector", vectors("deserialize"))
    def test_reads_or_refuses(self, vector: dict[str, Any]) -> None:
        text = input_of(vector)
        if not vector["ok"] or vector["name"] in DEVIATIONS:
            with pytest.raises(InvalidMessageError):
                self.read(vector["target"], text)
            return
        written = self.read(vector["target"], text)
        assert written == (text if vector["result"] == "(large)" else vector["result"]) or (
            # Only the order of the fields differs from the input.
            vector["result"] == "(large)" and json.loads(written) == json.loads(text or "")
        )

    @staticmethod
    def read(target: str, text: str | None) -> str:
        if target == "message":
            return message_to_json(message_from_json(text))  # type: ignore[arg-type]
        return messages_to_json(messages_from_json(text))


IMAGE = ImageContent("http://x/i.png")
TWO_CONTENTS = [TextContent("a"), TextContent("b")]

# The Python for each Java expression.
CONSTRUCTORS: dict[str, Callable[[], Any]] = {
    "new SystemMessage(null)": lambda: SystemMessage(None),  # type: ignore[arg-type]
    'new SystemMessage("")': lambda: SystemMessage(""),
    'new SystemMessage(" \\t\\n")': lambda: SystemMessage(" \t\n"),
    'new SystemMessage("\\u00a0")  // NBSP is not blank for String.trim()': lambda: SystemMessage("\xa0"),
    'new SystemMessage("\\u2003")': lambda: SystemMessage("\u2003"),
    'new SystemMessage("\\u0001")  // <= U+0020 is trimmed': lambda: SystemMessage("\x01"),
    'new SystemMessage(" x ")': lambda: SystemMessage(" x "),
    "UserMessage.from((String) null)": lambda: UserMessage(None),
    'UserMessage.from("")': lambda: UserMessage(""),
    'UserMessage.from("  ")': lambda: UserMessage("  "),
    'UserMessage.from((String) null, "text")': lambda: UserMessage("text", name=None),
    'UserMessage.from("", "text")': lambda: UserMessage("text", name=""),
    'UserMessage.from("bob", (String) null)': lambda: UserMessage(None, name="bob"),
    "UserMessage.from(List.of())": lambda: UserMessage([]),
    "UserMessage.from((List<Content>) null)": lambda: UserMessage(contents=None),
    "UserMessage.from(new Content[0])": lambda: UserMessage(contents=()),
    "UserMessage.builder().build()": lambda: UserMessage(),
    "UserMessage.builder().contents(List.of(TextContent)).attributes(null).build()": lambda: UserMessage(
        contents=[TextContent("x")], attributes=None
    ),
    "UserMessage.from(image).singleText()": lambda: UserMessage([IMAGE]).single_text(),
    "AiMessage.from((String) null)": lambda: AiMessage(None),
    'AiMessage.from("")': lambda: AiMessage(""),
    "AiMessage.from(List.of())": lambda: AiMessage(tool_execution_requests=[]),
    "AiMessage.from((List) null)": lambda: AiMessage(tool_execution_requests=None),
    "AiMessage.from((String) null, List.of())": lambda: AiMessage(None, []),
    'AiMessage.from("x", (List) null)': lambda: AiMessage("x", None),
    "AiMessage.builder().build()": lambda: AiMessage(),
    "ToolExecutionRequest.builder().build()": lambda: AiMessage(tool_execution_requests=[ToolExecutionRequest()]),
    'ToolExecutionResultMessage.from("1", "t", null)': lambda: ToolExecutionResultMessage("1", "t", None),
    'ToolExecutionResultMessage.from(null, null, "")': lambda: ToolExecutionResultMessage(None, None, ""),
    "ToolExecutionResultMessage.builder().build()": lambda: ToolExecutionResultMessage(),
    'ToolExecutionResultMessage.builder().text("a").contents(TextContent.from("b")).build()': lambda: (
        ToolExecutionResultMessage(text="a", contents=[TextContent("b")])
    ),
    "ToolExecutionResultMessage.builder().contents(List.of()).build()": lambda: ToolExecutionResultMessage(contents=[]),
    'ToolExecutionResultMessage.builder().text("a").contents(List.of()).build()': lambda: ToolExecutionResultMessage(
        text="a", contents=[]
    ),
    "ToolExecutionResultMessage(two contents).text()": lambda: ToolExecutionResultMessage(
        contents=TWO_CONTENTS
    ).single_text(),
    "CustomMessage.from(null)": lambda: CustomMessage(None),
    "CustomMessage.from(Map.of())": lambda: CustomMessage({}),
    "new TextContent(null)": lambda: TextContent(None),  # type: ignore[arg-type]
    'new TextContent("")': lambda: TextContent(""),
    "ImageContent.from((String) null)": lambda: ImageContent(None),
    "ImageContent.from((URI) null)": lambda: ImageContent(url=None),
    'ImageContent.from("http://a b")': lambda: ImageContent("http://a b"),
    'ImageContent.from("")': lambda: ImageContent(""),
    'ImageContent.from("", "image/png")': lambda: ImageContent(base64_data="", mime_type="image/png"),
    'ImageContent.from("aGk=", " ")': lambda: ImageContent(base64_data="aGk=", mime_type=" "),
    'ImageContent.from("not base64!", "image/png")  // not validated': lambda: ImageContent(
        base64_data="not base64!", mime_type="image/png"
    ),
    "new ImageContent((Image) null)": lambda: ImageContent(image=None),
    "new ImageContent(image, null)": lambda: ImageContent(image=Image(), detail_level=None),  # type: ignore[arg-type]
    "ImageContent.from(Image.builder().build())": lambda: ImageContent(image=Image()),
    "AudioContent.from((Audio) null)  // not validated": lambda: AudioContent(audio=None),
    'AudioContent.from("", "audio/mp3")': lambda: AudioContent(base64_data="", mime_type="audio/mp3"),
    'AudioContent.from("bXAz", null)': lambda: AudioContent(base64_data="bXAz", mime_type=None),
    "VideoContent.from((Video) null)  // not validated": lambda: VideoContent(video=None),
    'VideoContent.from(" ", "video/mp4")': lambda: VideoContent(base64_data=" ", mime_type="video/mp4"),
    "PdfFileContent.from((PdfFile) null)  // not validated": lambda: PdfFileContent(pdf_file=None),
    'PdfFileContent.from("", "application/pdf")': lambda: PdfFileContent(base64_data="", mime_type="application/pdf"),
    'PdfFileContent.from("cGRm", null)': lambda: PdfFileContent(base64_data="cGRm", mime_type=None),
    'PdfFileContent.from("http://x/a.pdf")': lambda: PdfFileContent("http://x/a.pdf"),
}

# LangChain4j's factories refuse what its builder takes; the one constructor here serves as the builder.
AS_THE_BUILDER = {"AiMessage.from((String) null)", "AiMessage.from(List.of())", "AiMessage.from((List) null)"}

# One constructor stands for several factories, so some errors name another argument than LangChain4j's.
OTHER_WORDING = {
    "UserMessage.from((String) null)": "contents cannot be null or empty",
    'UserMessage.from("bob", (String) null)': "contents cannot be null or empty",
    "UserMessage.from(image).singleText()": (
        "Expecting single text content, but got: [ImageContent(image=Image(url='http://x/i.png'), "
        "detail_level=<DetailLevel.LOW: 'LOW'>)]"
    ),
    'ToolExecutionResultMessage.from("1", "t", null)': "Either text or contents must be provided",
    "ToolExecutionResultMessage(two contents).text()": (
        "Expecting single text content, but got: [TextContent(text='a'), TextContent(text='b')]"
    ),
    "ImageContent.from((String) null)": "image cannot be null",
    "ImageContent.from((URI) null)": "image cannot be null",
    'ImageContent.from("http://a b")': "Illegal character in url at index 8: http://a b",
    'ImageContent.from("", "image/png")': "base64_data cannot be null or blank",
    'AudioContent.from("", "audio/mp3")': "base64_data cannot be null or blank",
    'VideoContent.from(" ", "video/mp4")': "base64_data cannot be null or blank",
    'PdfFileContent.from("", "application/pdf")': "base64_data cannot be null or blank",
}


class TestConstructors:
    def test_every_vector_is_covered(self) -> None:
        assert [vector["java"] for vector in VECTORS["constructors"]] == list(CONSTRUCTORS)

    @pytest.mark.parametrize("vector", [pytest.param(vector, id=vector["java"]) for vector in VECTORS["constructors"]])
    def test_constructor(self, vector: dict[str, Any]) -> None:
        java, expected = vector["java"], vector["exception"]
        if java in AS_THE_BUILDER:
            assert CONSTRUCTORS[java]() == AiMessage()
        elif expected is None:
            built = CONSTRUCTORS[java]()
            written = json.loads(message_to_json(_user(built) if isinstance(built, Content) else built))
            assert (written["contents"][0] if isinstance(built, Content) else written) == vector["json"]
        else:
            with pytest.raises(ValueError) as raised:  # noqa: PT011 - compared as a whole
                CONSTRUCTORS[java]()
            assert str(raised.value) == OTHER_WORDING.get(java, snake_case(expected["message"]))


def nested(depth: int) -> str:
    return '{"type":"CUSTOM","attributes":{"a":' + "[" * depth + "]" * depth + "}}"


class TestErrorsNameThePlace:
    @pytest.mark.parametrize(
        ("text", "error"),
        [
            pytest.param(
                '[{"type":"AI"},{"type":"AI"},{"type":"AI"},{"type":"AI","toolExecutionRequests":[{"name":1}]}]',
                "[3].toolExecutionRequests[0].name: expected a string, got a number",
                id="deep in a list",
            ),
            pytest.param(
                '[{"type":"FOO"}]',
                "[0].type: expected one of SYSTEM, USER, AI, TOOL_EXECUTION_RESULT, CUSTOM, got 'FOO'",
                id="unknown type",
            ),
            pytest.param(
                "[{}]",
                "[0].type: expected one of SYSTEM, USER, AI, TOOL_EXECUTION_RESULT, CUSTOM, got nothing",
                id="no type",
            ),
            pytest.param('[{"type":"AI","type":"AI"}]', "[0].type: given twice", id="type twice"),
            pytest.param('[{"type":"AI","txt":"x"}]', "[0].txt: unknown field; leave it out", id="unknown field"),
            pytest.param('[{"type":"SYSTEM","text":" "}]', "[0]: text cannot be null or blank", id="blank text"),
            pytest.param(
                '[{"type":"USER","contents":[{"type":"IMAGE","image":{"url":"a b"},"detailLevel":"LOW"}]}]',
                "[0].contents[0].image: Illegal character in url at index 1: a b",
                id="no URL",
            ),
            pytest.param(
                '[{"type":"USER","contents":[{"type":"IMAGE","image":{},"detailLevel":"BIG"}]}]',
                "[0].contents[0].detailLevel: expected one of LOW, MEDIUM, HIGH, ULTRA_HIGH, AUTO",
                id="unknown detail level",
            ),
            pytest.param(
                '[{"type":"CUSTOM","attributes":{"a":[1,{"b":"x\\u0000"}]}}]',
                "[0].attributes.a[1].b: has U+0000 at index 1; take it out",
                id="NUL in attributes",
            ),
            pytest.param(
                '[{"type":"CUSTOM","attributes":{"a\\ud800":1}}]',
                "[0].attributes: has a lone surrogate (U+D800) at index 1; take it out",
                id="surrogate in a key",
            ),
            pytest.param('{"type":"AI"}', "expected a list of messages, got an object", id="no list"),
        ],
    )
    def test_place(self, text: str, error: str) -> None:
        with pytest.raises(InvalidMessageError) as raised:
            messages_from_json(text)
        assert str(raised.value) == error

    def test_place_and_problem_can_be_read_apart(self) -> None:
        with pytest.raises(InvalidMessageError) as raised:
            messages_from_json('[{"type":"AI","text":1}]')
        assert (raised.value.place, raised.value.problem) == ("[0].text", "expected a string, got a number")


class TestHugeInput:
    """It ends in an error that can be caught, never in a crash and never in minutes of work."""

    @pytest.mark.parametrize("depth", [MAX_NESTING + 1, 950, 5_000, 100_000])
    def test_deep_json(self, depth: int) -> None:
        with pytest.raises(InvalidMessageError, match=f"nested more than {MAX_NESTING} levels deep"):
            message_from_json(nested(depth))

    @pytest.mark.parametrize("depth", [100, 400, MAX_NESTING - 10])
    def test_what_is_read_can_be_written_compared_and_copied(self, depth: int) -> None:
        message = message_from_json(nested(depth))
        assert json.loads(message_to_json(message)) == json.loads(nested(depth))
        assert message == message_from_json(nested(depth))

    @pytest.mark.slow
    @pytest.mark.parametrize("depth", [MAX_NESTING - 50, MAX_NESTING + 50, 5_000, 100_000])
    @pytest.mark.parametrize("kind", ["dicts", "lists"])
    def test_deep_attributes_built_in_python(self, depth: int, kind: str) -> None:
        deep: Any = 1
        for _ in range(depth):
            deep = {"a": deep} if kind == "dicts" else [deep]
        try:
            written = message_to_json(CustomMessage({"deep": deep}))
        except ValueError as error:
            assert f"nested more than {MAX_NESTING} levels deep" in str(error)  # noqa: PT017 - an error is one of two good ends
            assert depth > MAX_NESTING
        else:
            assert depth < MAX_NESTING
            assert written.count("[" if kind == "lists" else '{"a"') == depth

    @pytest.mark.parametrize(
        "number", ["9" * 1_000_000, "-" + "9" * 1001, "0." + "1" * 1_000_000], ids=["int", "negative", "fraction"]
    )
    def test_long_numbers(self, number: str) -> None:
        with pytest.raises(InvalidMessageError, match=r"a number of 1\d+ characters; at most 1000 are read"):
            message_from_json('{"type":"CUSTOM","attributes":{"a":' + number + "}}")

    def test_long_documents(self) -> None:
        with pytest.raises(InvalidMessageError, match=f"at most {MAX_DOCUMENT_CHARS} are read"):
            message_from_json('{"type":"AI","text":"' + "x" * 25_000_000 + '"}')

    @pytest.mark.slow
    def test_a_long_key_is_not_copied_for_every_value_below_it(self) -> None:
        data = {"type": "CUSTOM", "attributes": {"k" * 2_000_000: [0] * 200_000}}
        begin = time.process_time()
        assert message_from_json(json.dumps(data)) == CustomMessage(data["attributes"])  # type: ignore[arg-type]
        assert time.process_time() - begin < 3, "copies of the key are 400 GB"
