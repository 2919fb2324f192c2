"""The AI SDK's UI messages: all that messages here have survives, and what comes from outside is read or refused.

Whether the AI SDK takes them is asked in ``tests/ai_sdk``.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    Audio,
    AudioContent,
    ChatMessage,
    CustomMessage,
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
from chatmemory.formats.ai_sdk import each_to_ai_sdk, from_ai_sdk, to_ai_sdk
from tests.support import budget
from tests.support.any_json import changed
from tests.support.strategies import messages, tool_groups

HI = UserMessage("Hi")
CALL = AiMessage(None, [ToolExecutionRequest("c1", "now", '{"zone":"UTC"}')])
NOON = ToolExecutionResultMessage("c1", "now", "noon")
STEP = {"type": "step-start"}

groups = st.lists(messages().map(lambda message: [message]) | tool_groups(), max_size=6)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _done(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text, "state": "done"}


def _said(role: str, *parts: Any, **fields: Any) -> dict[str, Any]:
    return {"id": "0", "role": role, **fields, "parts": list(parts)}


def _call(**fields: Any) -> dict[str, Any]:
    call = {"type": "dynamic-tool", "toolName": "now", "toolCallId": "c1", "input": {"zone": "UTC"}}
    return {**call, "state": "output-available" if "output" in fields else "input-available", **fields}


def _file(media_type: str, url: str) -> dict[str, Any]:
    return {"type": "file", "mediaType": media_type, "url": url}


def _answer(*parts: Any, **fields: Any) -> dict[str, Any]:
    return {**_said("assistant", *parts, **fields), "id": "answer"}


class TestWritten:
    @pytest.mark.parametrize(
        ("message", "written"),
        [
            (SystemMessage("S"), _said("system", _text("S"))),
            (HI, _said("user", _text("Hi"))),
            (UserMessage("Hi", name="Ann"), _said("user", _text("Hi"), metadata={"chatmemory": {"name": "Ann"}})),
            (
                UserMessage([ImageContent("https://x/a", mime_type="image/png", detail_level="AUTO")]),
                _said("user", _file("image/png", "https://x/a")),
            ),
            (
                UserMessage([ImageContent(base64_data="aGk=", mime_type="image/png", detail_level="AUTO")]),
                _said("user", _file("image/png", "data:image/png;base64,aGk=")),
            ),
            (UserMessage([AudioContent("https://x/a")]), _said("user", _file("audio", "https://x/a"))),
            (UserMessage([VideoContent("https://x/a")]), _said("user", _file("video", "https://x/a"))),
            (
                UserMessage([TextContent("Look"), PdfFileContent(base64_data="aGk=")]),
                _said("user", _text("Look"), _file("application/pdf", "data:application/pdf;base64,aGk=")),
            ),
            (AiMessage("Hello"), _answer(STEP, _done("Hello"))),
            (
                AiMessage("Hello", thinking="m"),
                _answer(STEP, {"type": "reasoning", "id": "reasoning-0", "text": "m", "state": "done"}, _done("Hello")),
            ),
            (CALL, _answer(STEP, _call())),
            (
                CustomMessage({"a": 1}),
                _said(
                    "assistant", {"type": "data-custom", "data": {"a": 1}}, metadata={"chatmemory": {"type": "CUSTOM"}}
                ),
            ),
        ],
    )
    def test_plainly(self, message: ChatMessage, written: dict[str, Any]) -> None:
        assert to_ai_sdk([message]) == [written]
        assert from_ai_sdk([written]) == [message]

    def test_a_turn_is_one_assistant_message(self) -> None:
        assert to_ai_sdk([HI, CALL, NOON, AiMessage("It is noon.")], ids=["7", "8", "9", "10"]) == [
            {**_said("user", _text("Hi")), "id": "7"},
            {**_answer(STEP, _call(output="noon"), STEP, _done("It is noon.")), "id": "answer-7"},
        ]

    def test_each_message_is_one_of_its_own(self) -> None:
        written = each_to_ai_sdk([HI, CALL, NOON])
        assert [message["id"] for message in written] == ["0", "1", "2"]
        [part] = written[2]["parts"]
        assert part == _call(input=None, output="noon", callProviderMetadata={"chatmemory": {"call": False}})

    @pytest.mark.parametrize(
        ("result", "shown"),
        [
            (ToolExecutionResultMessage("c1", "now", '{"a": [1]}'), {"output": {"a": [1]}}),
            (ToolExecutionResultMessage("c1", "now", "12"), {"output": "12"}),
            (ToolExecutionResultMessage("c1", "now", '{"a":'), {"output": '{"a":'}),
            (ToolExecutionResultMessage("c1", "now", r'["\u0000"]'), {"output": r'["\u0000"]'}),
            (ToolExecutionResultMessage("c1", "now", '{"a":1e999}'), {"output": '{"a":1e999}'}),
            (ToolExecutionResultMessage("c1", "now", "No.", is_error=True), {"errorText": "No."}),
            (
                ToolExecutionResultMessage("c1", "now", contents=[TextContent("a"), ImageContent("https://x/a")]),
                {"output": {"type": "content"}},
            ),
        ],
    )
    def test_a_result_is_shown_as_what_it_is(self, result: ToolExecutionResultMessage, shown: dict[str, Any]) -> None:
        [message] = to_ai_sdk([CALL, result])
        part = message["parts"][1]
        assert part["state"] == ("output-error" if result.is_error else "output-available")
        if isinstance(shown.get("output"), dict) and shown["output"].get("type") == "content":
            assert [each["type"] for each in part["output"]["value"]] == ["text", "file"]
        else:
            assert {key: part.get(key) for key in shown} == shown

    def test_data_is_written_once(self) -> None:
        data = "aGk=" * 1000
        contents = [
            ImageContent(base64_data=data, mime_type="image/png"),
            ImageContent(f"data:image/png;base64,{data}"),
            AudioContent(audio=Audio(binary_data=b"hi" * 1000)),
        ]
        for content in contents:
            for message in (UserMessage([content]), ToolExecutionResultMessage("1", "f", contents=[content])):
                written = to_ai_sdk([message])
                assert len(json.dumps(written)) < len(data) + 1000
                assert from_ai_sdk(written) == [message]

    def test_calls_of_one_id_are_told_apart(self) -> None:
        calls = AiMessage(None, [ToolExecutionRequest(id, "f", "{}") for id in ("a", "a", None, "")])
        results = [ToolExecutionResultMessage(id, "f", text) for id, text in (("a", "1"), ("a", "2"), (None, "3"))]
        [message] = to_ai_sdk([calls, *results])
        parts = message["parts"][1:]
        assert len({part["toolCallId"] for part in parts}) == 4
        assert [part.get("output") for part in parts] == ["1", "2", "3", None]
        assert from_ai_sdk([message]) == [calls, *results]

    def test_results_in_another_order(self) -> None:
        calls = AiMessage(None, [ToolExecutionRequest("a", "f", "{}"), ToolExecutionRequest("b", "f", "{}")])
        a, b = ToolExecutionResultMessage("a", "f", "1"), ToolExecutionResultMessage("b", "f", "2")
        for said in ([calls, b, a], [calls, b, AiMessage("Wait"), a], [a, calls, b], [calls, a, b, a]):
            assert from_ai_sdk(to_ai_sdk(said)) == said

    def test_ids_are_one_for_each(self) -> None:
        with pytest.raises(ValueError, match="one for each of the 2 messages, but has 1"):
            to_ai_sdk([HI, HI], ids=["1"])


@pytest.mark.slow
@settings(max_examples=budget.examples(150))
@given(groups)
def test_nothing_is_lost(groups: list[list[ChatMessage]]) -> None:
    said = [message for group in groups for message in group]
    for write in (to_ai_sdk, each_to_ai_sdk):
        assert from_ai_sdk(json.loads(json.dumps(write(said)))) == said
    assert len(each_to_ai_sdk(said)) == len(said)
    ids = [message["id"] for message in to_ai_sdk(said)]
    assert len(set(ids)) == len(ids)


DONE = "Tool call execution denied."


class TestRead:
    """What the AI SDK's own servers and pages make."""

    @pytest.mark.parametrize(
        ("message", "read"),
        [
            (_said("user", _text("a"), _text("b")), [UserMessage([TextContent("a"), TextContent("b")])]),
            (
                _said("user", {**_file("image/*", "data:image/png;base64,aGk="), "filename": "a.png"}),
                [UserMessage([ImageContent(base64_data="aGk=", mime_type="image/png", detail_level="AUTO")])],
            ),
            (
                _said("user", {"type": "data-x", "data": 1}, _text("a"), metadata={"x": 1}, x=1),
                [UserMessage("a")],
            ),
            (_said("system", _text("a"), _text("b")), [SystemMessage("ab")]),
            (_said("assistant"), []),
            (_said("assistant", STEP), []),
            (_said("assistant", _text("a"), {"type": "source-url", "sourceId": "1", "url": "x"}), [AiMessage("a")]),
            (
                _said("assistant", STEP, _call(type="tool-now", toolName=None, output={"a": 1}), STEP, _text("b")),
                [CALL, ToolExecutionResultMessage("c1", "now", '{"a":1}'), AiMessage("b")],
            ),
            (
                _said("assistant", _text("a"), _call(output="noon", providerExecuted=True), _text("b")),
                [AiMessage("a", CALL.tool_execution_requests), NOON, AiMessage("b")],
            ),
            (_said("assistant", _call(state="input-streaming")), []),
            (_said("assistant", _call(state="approval-requested", approval={"id": "1"})), [CALL]),
            (_said("assistant", _call(output="no", preliminary=True)), [CALL]),
            (
                _said("assistant", _call(state="output-denied", approval={"id": "1", "approved": False})),
                [CALL, ToolExecutionResultMessage("c1", "now", DONE, is_error=True)],
            ),
            (
                _said("assistant", _call(state="output-error", input=None, rawInput="no JSON", errorText="No.")),
                [
                    AiMessage(None, [ToolExecutionRequest("c1", "now", "no JSON")]),
                    ToolExecutionResultMessage("c1", "now", "No.", is_error=True),
                ],
            ),
            (_said("assistant", _call(output=None)), [CALL, ToolExecutionResultMessage("c1", "now", "null")]),
            (
                _said(
                    "assistant",
                    {"type": "reasoning", "text": "Hm", "providerMetadata": {"anthropic": {"signature": "s"}}},
                    {"type": "reasoning", "text": "", "providerMetadata": {"anthropic": {"redactedData": "r"}}},
                    _text("a"),
                ),
                [AiMessage("a", thinking="Hm", attributes={"thinking_signature": "s", "redacted_thinking": ["r"]})],
            ),
        ],
    )
    def test_as_it_is_meant(self, message: dict[str, Any], read: list[ChatMessage]) -> None:
        assert from_ai_sdk([message]) == read

    @pytest.mark.parametrize(
        ("message", "problem"),
        [
            ("x", "m[0]: expected an object, got a string"),
            ({"role": "user", "content": "Hi"}, "m[0].parts: expected a list of parts, got nothing"),
            (_said("tool", _text("x")), "m[0].role: expected one of system, user, assistant, got 'tool'"),
            (_said("user"), "m[0].parts: expected at least one part of the type text or file, got none"),
            (_said("system", _text(" ")), "m[0]: text cannot be null or blank"),
            (_said("user", _text("a\x00")), "m[0].parts[0].text: has U+0000 at index 1; take it out"),
            (_said("user", _text("\ud83d")), "m[0].parts[0].text: has a lone surrogate (U+D83D) at index 0"),
            (_said("user", {"type": "txt"}), "m[0].parts[0].type: expected one of text, file, got 'txt'"),
            (
                _said("user", _file("image/png", "data:image/png;base64,x")),
                "m[0].parts[0].url: expected data:…;base",
            ),
            (
                _said("user", _file("image/png", "data:image/png,x")),
                "m[0].parts[0].url: expected a URL of http or",
            ),
            (_said("user", _file("image/png", "javascript:x")), "m[0].parts[0].url: expected a URL of http or"),
            (_said("user", _file("text/plain", "https://x/a")), "m[0].parts[0].mediaType: a file of the type 'text/"),
            (_said("user", _file("image/png", "https://x/ a")), "m[0].parts[0]: Illegal character in url at index 10"),
            (
                _said("assistant", _file("image/png", "https://x/a")),
                "m[0].parts[0].type: a file in an answer",
            ),
            (
                _said("assistant", {"type": "nothing"}),
                "m[0].parts[0].type: expected one of text, reasoning,",
            ),
            (_said("assistant", _call(state="done")), "m[0].parts[0].state: expected one of input-streaming, "),
            (_said("assistant", _call(toolCallId=1)), "m[0].parts[0].toolCallId: expected a string, got a number"),
            (_said("assistant", _call(input={"a": "\x00"})), "m[0].parts[0].input.a: has U+0000"),
            (_said("assistant", _call(output=["\ud800"])), "m[0].parts[0].output[0]: has a lone surrogate"),
            (
                _said("assistant", _call(state="output-error")),
                "m[0].parts[0].errorText: expected a string, got",
            ),
            (
                _said("user", _text("a"), metadata={"chatmemory": {"attributes": 1}}),
                "m[0].metadata.chatmemory.attributes: expected an object, got a number",
            ),
            (
                _said("assistant", _call(output="", resultProviderMetadata={"chatmemory": {"at": -1}})),
                "m[0].parts[0].resultProviderMetadata.chatmemory.at: expected a number from 0 on, got a number",
            ),
        ],
    )
    def test_or_refused_with_its_place(self, message: Any, problem: str) -> None:
        with pytest.raises(InvalidMessageError) as error:
            from_ai_sdk([message], "m")
        assert str(error.value).startswith(problem)

    @pytest.mark.parametrize("place", ["input", "output"])
    def test_what_is_nested_too_deep_is_refused(self, place: str) -> None:
        deep: Any = []
        for _ in range(5_000):
            deep = [deep]
        with pytest.raises(InvalidMessageError, match="nested more than 500 levels deep"):
            from_ai_sdk([_said("assistant", _call(**{"output": "", place: deep}))])

    def test_a_list_is_needed(self) -> None:
        with pytest.raises(InvalidMessageError, match="expected a list of messages, got an object"):
            from_ai_sdk({"messages": []})

    def test_metadata_that_say_something_else_are_not_believed(self) -> None:
        lies = {"chatmemory": {"text": '{"a":2}'}}
        message = _said("assistant", _call(output={"a": 1}, resultProviderMetadata=lies))
        assert from_ai_sdk([message])[1] == ToolExecutionResultMessage("c1", "now", '{"a":1}')

    @pytest.mark.slow
    @settings(max_examples=budget.examples(250))
    @given(groups, st.data())
    def test_what_has_one_thing_changed_is_read_or_refused(
        self, groups: list[list[ChatMessage]], data: st.DataObject
    ) -> None:
        said = [message for group in groups for message in group]
        with contextlib.suppress(InvalidMessageError):
            read = from_ai_sdk(changed(to_ai_sdk(said), data))
            assert messages_from_json(messages_to_json(read)) == read
            assert from_ai_sdk(to_ai_sdk(read)) == read
