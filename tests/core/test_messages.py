"""Messages are values: immutable, equal by what they say, easy to look at."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given

from chatmemory import (
    AiMessage,
    Audio,
    AudioContent,
    ChatMessage,
    CustomMessage,
    DetailLevel,
    Image,
    ImageContent,
    PdfFileContent,
    SystemMessage,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from tests.support.strategies import messages

ATTRIBUTES = {"a": {"b": [1, {"c": 2}]}}


class TestImmutable:
    @pytest.mark.parametrize(
        ("value", "field"),
        [
            pytest.param(SystemMessage("x"), "text", id="system"),
            pytest.param(UserMessage("x"), "contents", id="user"),
            pytest.param(AiMessage("x"), "text", id="ai"),
            pytest.param(ToolExecutionResultMessage("1", "t", "x"), "is_error", id="tool result"),
            pytest.param(CustomMessage({}), "attributes", id="custom"),
            pytest.param(ToolExecutionRequest("1"), "arguments", id="request"),
            pytest.param(TextContent("x"), "text", id="text"),
            pytest.param(ImageContent("http://x"), "detail_level", id="image content"),
            pytest.param(AudioContent("http://x"), "audio", id="audio content"),
            pytest.param(Image("http://x"), "url", id="image"),
        ],
    )
    def test_fields(self, value: Any, field: str) -> None:
        before = repr(value)
        with pytest.raises(FrozenInstanceError):
            setattr(value, field, None)
        with pytest.raises(FrozenInstanceError):
            delattr(value, field)
        assert repr(value) == before

    @pytest.mark.parametrize(
        "message",
        [
            pytest.param(UserMessage("x", attributes=ATTRIBUTES), id="user"),
            pytest.param(AiMessage("x", attributes=ATTRIBUTES), id="ai"),
            pytest.param(ToolExecutionResultMessage(text="x", attributes=ATTRIBUTES), id="tool result"),
            pytest.param(CustomMessage(ATTRIBUTES), id="custom"),
        ],
    )
    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(lambda a: a.update(x=1), id="update"),
            pytest.param(lambda a: a.__setitem__("a", 1), id="set"),
            pytest.param(lambda a: a.__delitem__("a"), id="delete"),
            pytest.param(lambda a: a.setdefault("x", 1), id="setdefault"),
            pytest.param(lambda a: a.pop("a"), id="pop"),
            pytest.param(lambda a: a.popitem(), id="popitem"),
            pytest.param(lambda a: a.clear(), id="clear"),
            pytest.param(lambda a: a.__ior__({"x": 1}), id="|="),
            pytest.param(lambda a: a["a"].clear(), id="nested dict"),
            pytest.param(lambda a: a["a"]["b"].append(1), id="append"),
            pytest.param(lambda a: a["a"]["b"].extend([1]), id="extend"),
            pytest.param(lambda a: a["a"]["b"].insert(0, 1), id="insert"),
            pytest.param(lambda a: a["a"]["b"].remove(1), id="remove"),
            pytest.param(lambda a: a["a"]["b"].reverse(), id="reverse"),
            pytest.param(lambda a: a["a"]["b"].sort(key=str), id="sort"),
            pytest.param(lambda a: a["a"]["b"].__iadd__([1]), id="+="),
            pytest.param(lambda a: a["a"]["b"].__imul__(2), id="*="),
            pytest.param(lambda a: a["a"]["b"].__setitem__(0, 2), id="list set"),
            pytest.param(lambda a: a["a"]["b"].__delitem__(0), id="list delete"),
            pytest.param(lambda a: a["a"]["b"][1].pop("c"), id="dict in a list"),
        ],
    )
    def test_attributes(self, message: Any, change: Callable[[Any], Any]) -> None:
        with pytest.raises(TypeError, match="a message is immutable: build a new one instead"):
            change(message.attributes)
        assert message.attributes == ATTRIBUTES

    def test_what_it_was_made_of_may_change(self) -> None:
        contents, requests = [TextContent("x")], [ToolExecutionRequest("1")]
        attributes: dict[str, Any] = {"a": {"b": [1]}}
        made = [UserMessage(contents, attributes=attributes), AiMessage(None, requests), CustomMessage(attributes)]
        before = copy.deepcopy(made)
        contents.clear()
        requests.clear()
        attributes["a"]["b"].append(2)
        assert made == before
        assert made[0].attributes == {"a": {"b": [1]}}  # type: ignore[attr-defined]

    @pytest.mark.slow
    @given(messages())
    def test_copies_are_equal(self, message: ChatMessage) -> None:
        for twin in (copy.copy(message), copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
            assert twin == message
            assert hash(twin) == hash(message)

    @pytest.mark.parametrize(
        "duplicate",
        [copy.copy, copy.deepcopy, lambda message: pickle.loads(pickle.dumps(message))],
        ids=["copy", "deepcopy", "pickle"],
    )
    def test_copies_are_immutable_too(self, duplicate: Callable[[Any], Any]) -> None:
        twin = duplicate(CustomMessage(ATTRIBUTES))
        with pytest.raises(TypeError, match="immutable"):
            twin.attributes["a"]["b"][1]["c"] = 3

    def test_attributes_are_plain_data_to_everything_else(self) -> None:
        attributes = CustomMessage(ATTRIBUTES).attributes
        assert attributes == ATTRIBUTES
        assert isinstance(attributes, dict)
        assert isinstance(attributes["a"]["b"], list)
        changeable = attributes.copy()
        changeable["a"] = 1
        assert attributes == ATTRIBUTES


class TestEqual:
    @pytest.mark.parametrize(
        "build",
        [
            pytest.param(lambda: SystemMessage("x"), id="system"),
            pytest.param(lambda: UserMessage("x", name="n", attributes={"k": [1]}), id="user"),
            pytest.param(lambda: AiMessage("x", [ToolExecutionRequest("1", "t", "{}")], thinking="y"), id="ai"),
            pytest.param(lambda: ToolExecutionResultMessage("1", "t", "x", is_error=False), id="tool result"),
            pytest.param(lambda: CustomMessage({"k": {"l": []}}), id="custom"),
            pytest.param(lambda: UserMessage([ImageContent("http://x", detail_level="HIGH")]), id="image"),
        ],
    )
    def test_by_value(self, build: Callable[[], ChatMessage]) -> None:
        assert build() == build()
        assert len({build(), build()}) == 1

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            pytest.param(SystemMessage("x"), UserMessage("x"), id="type"),
            pytest.param(UserMessage("x"), UserMessage("y"), id="text"),
            pytest.param(UserMessage("x"), UserMessage("x", name=""), id="name"),
            pytest.param(UserMessage("x"), UserMessage("x", attributes={"k": 1}), id="attributes"),
            pytest.param(AiMessage(""), AiMessage(), id="empty and no text"),
            pytest.param(AiMessage(), AiMessage(thinking=""), id="thinking"),
            pytest.param(AiMessage(), AiMessage(None, [ToolExecutionRequest()]), id="requests"),
            pytest.param(
                ToolExecutionResultMessage("1", "t", "x"), ToolExecutionResultMessage("2", "t", "x"), id="request ID"
            ),
            pytest.param(
                ToolExecutionResultMessage("1", "t", "x"),
                ToolExecutionResultMessage("1", "t", "x", is_error=False),
                id="no error and unknown",
            ),
            pytest.param(ImageContent("http://x"), ImageContent("http://x", detail_level="HIGH"), id="detail level"),
            pytest.param(CustomMessage({}), {}, id="no message"),
        ],
    )
    def test_not_equal(self, one: Any, other: Any) -> None:
        assert one != other

    def test_text_is_short_for_one_text_content(self) -> None:
        assert UserMessage("x") == UserMessage([TextContent("x")]) == UserMessage(contents=(TextContent("x"),))
        assert ToolExecutionResultMessage(text="x") == ToolExecutionResultMessage(contents=[TextContent("x")])

    def test_text_can_be_read_back(self) -> None:
        assert UserMessage("x").single_text() == "x"
        assert ToolExecutionResultMessage(text="x").text == "x"


class TestRepr:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (SystemMessage("Be brief."), "SystemMessage(text='Be brief.')"),
            (UserMessage("Hi"), "UserMessage(contents=[TextContent(text='Hi')])"),
            (
                UserMessage("Hi", name="Ann", attributes={"k": 1}),
                "UserMessage(contents=[TextContent(text='Hi')], name='Ann', attributes={'k': 1})",
            ),
            (AiMessage(), "AiMessage()"),
            (AiMessage("", thinking="hm"), "AiMessage(text='', thinking='hm')"),
            (
                AiMessage(None, [ToolExecutionRequest(name="now")]),
                "AiMessage(tool_execution_requests=[ToolExecutionRequest(name='now')])",
            ),
            (
                ToolExecutionResultMessage("1", None, "x", is_error=False),
                "ToolExecutionResultMessage(id='1', contents=[TextContent(text='x')], is_error=False)",
            ),
            (CustomMessage(), "CustomMessage()"),
            (Image("http://x"), "Image(url='http://x')"),
        ],
    )
    def test_shows_what_is_there_and_nothing_else(self, value: Any, expected: str) -> None:
        assert repr(value) == expected

    @pytest.mark.parametrize(
        "value",
        [
            pytest.param(SystemMessage("x" * 1_000_000), id="text"),
            pytest.param(UserMessage("x" * 1_000_000), id="contents"),
            pytest.param(AiMessage(None, [ToolExecutionRequest("1", "t", "x" * 1_000_000)]), id="arguments"),
            pytest.param(UserMessage([ImageContent(base64_data="x" * 1_000_000, mime_type="image/png")]), id="base64"),
            pytest.param(UserMessage([AudioContent(audio=Audio(binary_data=b"x" * 1_000_000))]), id="bytes"),
        ],
    )
    def test_shortens_what_is_long(self, value: Any) -> None:
        assert len(repr(value)) < 300
        assert "(1000000 characters)" in repr(value)

    @pytest.mark.slow
    @pytest.mark.parametrize("value", [{"k": "x" * 1_000_000}, {"k": [0] * 1_000_000}], ids=["text", "list"])
    def test_shortens_long_attributes(self, value: dict[str, Any]) -> None:
        assert len(repr(CustomMessage(value))) < 1000


class TestArguments:
    @pytest.mark.parametrize(
        ("build", "error"),
        [
            pytest.param(lambda: SystemMessage(1), "text must be a string, but is: int", id="system text"),
            pytest.param(lambda: UserMessage(1), "contents must be a list, but is: int", id="user text"),
            pytest.param(lambda: UserMessage(b"x"), "contents must be a list, but is: bytes", id="bytes"),
            pytest.param(lambda: UserMessage(["x"]), r"contents\[0\] has the wrong type: str", id="contents"),
            pytest.param(lambda: UserMessage(contents="x"), "contents must be a list, but is: str", id="contents text"),
            pytest.param(lambda: UserMessage("x", name=1), "name must be a string, but is: int", id="name"),
            pytest.param(
                lambda: UserMessage("x", attributes=[]), "attributes must be a dict, but is: list", id="attributes"
            ),
            pytest.param(lambda: CustomMessage({1: 2}), "keys of attributes must be strings, but one is: 1", id="key"),
            pytest.param(
                lambda: CustomMessage({"a": [{None: 2}]}),
                "keys of attributes must be strings, but one is: None",
                id="nested key",
            ),
            pytest.param(lambda: AiMessage(1), "text must be a string, but is: int", id="ai text"),
            pytest.param(lambda: AiMessage(thinking=1), "thinking must be a string, but is: int", id="thinking"),
            pytest.param(
                lambda: AiMessage(None, [ToolExecutionRequest(), {}]),
                r"tool_execution_requests\[1\] has the wrong type: dict",
                id="requests",
            ),
            pytest.param(lambda: ToolExecutionRequest(1), "id must be a string, but is: int", id="request ID"),
            pytest.param(
                lambda: ToolExecutionRequest("1", "t", {}), "arguments must be a string, but is: dict", id="arguments"
            ),
            pytest.param(
                lambda: ToolExecutionResultMessage("1", "t", 4), "text must be a string, but is: int", id="result text"
            ),
            pytest.param(
                lambda: ToolExecutionResultMessage(text="x", is_error=1),
                "is_error must be True, False or None, but is: 1",
                id="is_error",
            ),
            pytest.param(lambda: TextContent(1), "text must be a string, but is: int", id="text content"),
            pytest.param(lambda: ImageContent(1), "url must be a string, but is: int", id="url"),
            pytest.param(lambda: ImageContent(image="x"), "expected Image, but is: str", id="image"),
            pytest.param(lambda: AudioContent(video=None), "unexpected keyword argument 'video'", id="keyword"),
            pytest.param(lambda: Audio(binary_data="x"), "binary_data must be bytes, but is: str", id="bytes of audio"),
        ],
    )
    def test_wrong_types(self, build: Callable[[], Any], error: str) -> None:
        with pytest.raises(TypeError, match=error):
            build()

    @pytest.mark.parametrize(
        ("build", "error"),
        [
            pytest.param(lambda: UserMessage("x", contents=[TextContent("x")]), "not both", id="text and contents"),
            pytest.param(lambda: ImageContent("http://x", image=Image()), "not both", id="URL and image"),
            pytest.param(lambda: ImageContent("http://x", detail_level="BIG"), "'BIG' is not a valid", id="detail"),
            pytest.param(
                lambda: PdfFileContent("http://x/%zz"), "Malformed escape pair in url at index 9", id="escape"
            ),
            pytest.param(lambda: Image("http://x/#a#b"), "Illegal character in url at index 11", id="fragments"),
        ],
    )
    def test_wrong_values(self, build: Callable[[], Any], error: str) -> None:
        with pytest.raises(ValueError, match=error):
            build()

    def test_a_detail_level_may_be_given_by_name(self) -> None:
        assert ImageContent("http://x", detail_level="HIGH").detail_level is DetailLevel.HIGH
