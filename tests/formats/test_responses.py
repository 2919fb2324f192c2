"""OpenAI's Responses: what is written is what its SDK takes, what is read is what its SDK gives, or a clear error."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response

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
from chatmemory.formats import UnsupportedContentError
from chatmemory.formats.responses import from_responses, to_responses
from chatmemory.formats.validity import Repair
from tests.support import budget
from tests.support.any_json import changed
from tests.support.provider_rules import assert_responses_accept
from tests.support.refused_media import OPENAI_REFUSES
from tests.support.strategies import texts

HI = UserMessage("Hi")
HI_ITEM = {"role": "user", "content": "Hi"}
NOW = ToolExecutionRequest("c1", "now", "{}")
CALL = AiMessage(None, [NOW])
CALL_ITEM = {"type": "function_call", "call_id": "c1", "name": "now", "arguments": "{}"}
RESULT = ToolExecutionResultMessage("c1", "now", "noon")
RESULT_ITEM = {"type": "function_call_output", "call_id": "c1", "output": "noon"}
PNG = ImageContent(base64_data="aGk=", mime_type="image/png", detail_level="AUTO")
PNG_PART = {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"}
PDF_PART = {"type": "input_file", "filename": "file.pdf", "file_data": "data:application/pdf;base64,aGk="}


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _user(*contents: Content) -> UserMessage:
    return UserMessage(contents=contents)


def _user_item(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def _said(text: str, **fields: Any) -> dict[str, Any]:
    """A message of an answer, as OpenAI gives it."""
    part = {"type": "output_text", "text": text, "annotations": [], **fields}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def _reasoning(*summary: str, **fields: Any) -> dict[str, Any]:
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": parts, "encrypted_content": "e", **fields}


SAME_BOTH_WAYS: dict[str, tuple[list[ChatMessage], list[dict[str, Any]]]] = {
    "nothing": ([], []),
    "system": ([SystemMessage("Be brief."), HI], [{"role": "system", "content": "Be brief."}, HI_ITEM]),
    "empty text": ([UserMessage("")], [{"role": "user", "content": ""}]),
    "texts": ([_user(TextContent("a"), TextContent("b"))], [_user_item(_text("a"), _text("b"))]),
    "image": (
        [_user(ImageContent("https://x/a.png", detail_level="HIGH"))],
        [_user_item({"type": "input_image", "image_url": "https://x/a.png", "detail": "high"})],
    ),
    "image of its own detail": (
        [_user(ImageContent("https://x/a.png", detail_level="ULTRA_HIGH"))],
        [_user_item({"type": "input_image", "image_url": "https://x/a.png", "detail": "original"})],
    ),
    "image as data": ([_user(PNG)], [_user_item(PNG_PART)]),
    "PDF": (
        [_user(PdfFileContent("https://x/a.pdf"))],
        [_user_item({"type": "input_file", "file_url": "https://x/a.pdf"})],
    ),
    "PDF as data": ([_user(PdfFileContent(base64_data="aGk="))], [_user_item(PDF_PART)]),
    "answer": ([HI, AiMessage("Hello")], [HI_ITEM, {"role": "assistant", "content": "Hello"}]),
    "two answers": (
        [AiMessage("a"), AiMessage("b")],
        [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}],
    ),
    "call": (
        [HI, CALL, RESULT, AiMessage("Noon.")],
        [HI_ITEM, CALL_ITEM, RESULT_ITEM, {"role": "assistant", "content": "Noon."}],
    ),
    "calls with text": (
        [
            AiMessage("Let me see.", [NOW, ToolExecutionRequest("c2", "now", "x")]),
            ToolExecutionResultMessage("c2", "now", ""),
            ToolExecutionResultMessage("c1", "now", contents=[TextContent("x"), PNG, PdfFileContent("http://x")]),
        ],
        [
            {"role": "assistant", "content": "Let me see."},
            CALL_ITEM,
            CALL_ITEM | {"call_id": "c2", "arguments": "x"},
            {"type": "function_call_output", "call_id": "c2", "output": ""},
            {
                "type": "function_call_output",
                "call_id": "c1",
                "output": [_text("x"), PNG_PART, {"type": "input_file", "file_url": "http://x"}],
            },
        ],
    ),
}


@pytest.mark.parametrize(("messages", "items"), SAME_BOTH_WAYS.values(), ids=SAME_BOTH_WAYS.keys())
class TestBothWays:
    def test_written(self, messages: list[ChatMessage], items: list[dict[str, Any]]) -> None:
        assert to_responses((message for message in messages), pytest.fail) == items
        assert to_responses(messages, repair=False) == items
        assert_responses_accept(items)

    def test_read(self, messages: list[ChatMessage], items: list[dict[str, Any]]) -> None:
        assert from_responses(items) == messages


KEPT: dict[str, tuple[list[dict[str, Any]], AiMessage]] = {
    "an answer with an ID": ([_said("x")], AiMessage("x")),
    "reasoning": ([_reasoning(), _said("x")], AiMessage("x")),
    "reasoning with a summary": ([_reasoning("a", "b"), _said("x")], AiMessage("x", thinking="a\nb")),
    "reasoning with its text": (
        [_reasoning("a", content=[{"type": "reasoning_text", "text": "b"}]), _said("x")],
        AiMessage("x", thinking="b"),
    ),
    "reasoning, text and calls": (
        [
            _reasoning("hm"),
            _said("Let me see.") | {"phase": "commentary"},
            CALL_ITEM | {"id": "fc_1", "status": "completed"},
        ],
        AiMessage("Let me see.", [NOW], thinking="hm"),
    ),
    "reasoning in between": (
        [_reasoning("a"), _said("x"), _reasoning("b", id="rs_2"), _said("y") | {"id": "msg_2"}],
        AiMessage("xy", thinking="a\nb"),
    ),
    "a refusal": ([_said("x") | {"content": [{"type": "refusal", "refusal": "No."}]}], AiMessage("No.")),
    "a phase": ([{"role": "assistant", "content": "x", "phase": "final_answer"}], AiMessage("x")),
    "annotations": (
        [
            _said(
                "x",
                annotations=[
                    {"type": "url_citation", "url": "http://x", "title": "x", "start_index": 0, "end_index": 1}
                ],
            )
        ],
        AiMessage("x"),
    ),
    "tools that ran at OpenAI": (
        [
            {
                "type": "web_search_call",
                "id": "ws_1",
                "status": "completed",
                "action": {"type": "search", "query": "x", "queries": ["x"]},
            },
            {
                "type": "code_interpreter_call",
                "id": "ci_1",
                "status": "completed",
                "container_id": "cntr_1",
                "code": "1",
                "outputs": None,
            },
            {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk="},
            _said("x"),
        ],
        AiMessage("x"),
    ),
}


@pytest.mark.parametrize(("items", "message"), KEPT.values(), ids=KEPT.keys())
def test_what_has_no_place_is_kept_aside(items: list[dict[str, Any]], message: AiMessage) -> None:
    after = [RESULT_ITEM] if message.tool_execution_requests else []
    conversation = [HI_ITEM, *items, *after]
    read = from_responses(conversation)
    assert len(read) == 2 + len(after)
    answer = read[1]
    assert isinstance(answer, AiMessage)
    assert answer == AiMessage(
        message.text,
        message.tool_execution_requests,
        thinking=message.thinking,
        attributes={"openai_responses": {"items": items}},
    )
    assert to_responses(messages_from_json(messages_to_json(read)), pytest.fail) == conversation
    assert to_responses(read, repair=False) == conversation
    assert_responses_accept(conversation)


class TestKeptAside:
    def test_what_the_sdk_dumps(self) -> None:
        items = [*KEPT["tools that ran at OpenAI"][0][:2], *KEPT["reasoning, text and calls"][0]]
        items[-1] = items[-1] | {"async": True}
        response = Response.model_validate(
            {
                "id": "resp_1",
                "object": "response",
                "created_at": 1,
                "model": "gpt-5",
                "instructions": "Be brief.",
                "parallel_tool_calls": True,
                "tool_choice": "auto",
                "tools": [],
                "output": items,
            }
        )
        dumped = response.model_dump()
        assert dumped["output"][3]["content"][0]["logprobs"] is None
        read = from_responses(dumped)
        assert read == from_responses(dumped["output"]) == from_responses(response.model_dump(mode="json"))
        (answer,) = read
        assert isinstance(answer, AiMessage)
        assert (answer.text, answer.thinking, answer.tool_execution_requests) == ("Let me see.", "hm", (NOW,))
        written = to_responses([HI, answer, RESULT], pytest.fail)
        assert written == [HI_ITEM, *items, RESULT_ITEM]
        assert_responses_accept(written)

    def test_what_the_sdk_parses_is_left_out(self) -> None:
        items = [_said("{}", parsed={"x": object}), CALL_ITEM | {"parsed_arguments": {}, "caller": {"type": "direct"}}]
        items[0]["content"][0]["parsed"] = {"x": 1}
        (answer,) = from_responses(items)
        assert to_responses([answer, RESULT], pytest.fail) == [_said("{}"), CALL_ITEM, RESULT_ITEM]

    def test_not_for_a_message_that_says_something_else(self) -> None:
        (answer,) = from_responses(KEPT["reasoning"][0])
        assert isinstance(answer, AiMessage)
        assert to_responses([AiMessage("y", attributes=answer.attributes)]) == [{"role": "assistant", "content": "y"}]

    @pytest.mark.parametrize(
        "kept",
        ["x", {"items": "x"}, {"items": ["x"]}, {"items": [{"type": ["x"]}]}, {"items": [{"role": "assistant"}]}],
        ids=str,
    )
    def test_attributes_of_somebody_else_are_left_out(self, kept: Any) -> None:
        answer = AiMessage("x", attributes={"openai_responses": kept})
        assert to_responses([answer]) == [{"role": "assistant", "content": "x"}]

    def test_what_is_written_can_be_changed(self) -> None:
        items = KEPT["reasoning"][0]
        read = from_responses(items)
        to_responses(read)[0]["summary"].append("x")
        assert to_responses(read) == items


class TestRepaired:
    def _repaired(self, messages: list[ChatMessage]) -> tuple[list[dict[str, Any]], list[tuple[int, str]]]:
        found: list[Repair] = []
        items = to_responses(messages, found.append)
        assert_responses_accept(items)
        return items, [(repair.position, repair.reason) for repair in found]

    def test_reasoning_that_is_not_encrypted_is_not_sent(self) -> None:
        items = [_reasoning("hm", encrypted_content=""), *KEPT["reasoning, text and calls"][0][1:], RESULT_ITEM]
        read = from_responses(items)
        assert self._repaired([HI, *read]) == (
            [HI_ITEM, {"role": "assistant", "content": "Let me see."}, CALL_ITEM, RESULT_ITEM],
            [(1, "reasoning")],
        )
        assert to_responses(read, repair=False) == items

    def test_reasoning_after_which_nothing_is_said(self) -> None:
        read = from_responses([HI_ITEM, _said("x"), _reasoning("hm")])
        assert self._repaired(read) == ([HI_ITEM, _said("x")], [(1, "reasoning")])

    @pytest.mark.parametrize(
        "answer",
        [AiMessage(), AiMessage(""), AiMessage(thinking="hm"), from_responses([_reasoning()])[0]],
        ids=["nothing", "empty", "thinking", "reasoning"],
    )
    def test_an_answer_that_says_nothing_is_left_out(self, answer: ChatMessage) -> None:
        assert self._repaired([HI, answer]) == ([HI_ITEM], [(1, "blank")])

    def test_an_item_is_sent_once(self) -> None:
        items = [_reasoning("hm"), _said("x")]
        (answer,) = from_responses(items)
        written, repairs = self._repaired([HI, answer, HI, answer])
        assert written == [HI_ITEM, *items, HI_ITEM, {"role": "assistant", "content": "x"}]
        assert repairs == [(3, "reasoning")]

    @pytest.mark.parametrize("id", ["", 1])
    def test_an_item_whose_id_is_none(self, id: Any) -> None:
        (answer,) = from_responses([_said("x") | {"id": id}])
        assert self._repaired([answer]) == ([{"role": "assistant", "content": "x"}], [(0, "reasoning")])

    def test_an_answer_of_nothing_but_items_that_were_sent_is_left_out(self) -> None:
        items = KEPT["tools that ran at OpenAI"][0][:1]
        (answer,) = from_responses(items)
        assert self._repaired([answer, HI, answer]) == ([*items, HI_ITEM], [(2, "reasoning"), (2, "blank")])

    def test_a_call_id_is_used_once(self) -> None:
        written, repairs = self._repaired([CALL, RESULT, CALL, RESULT])
        assert [item["call_id"] for item in written] == ["c1", "c1", "call_0", "call_0"]
        assert repairs == [(2, "tool_call_id")]

    def test_thoughts_that_are_given_up_with_a_call_are_told(self) -> None:
        said = from_responses([_reasoning("hm"), CALL_ITEM | {"id": "fc_1"}])
        written, repairs = self._repaired([HI, CALL, RESULT, *said, RESULT])
        assert [item.get("type") for item in written[3:]] == ["function_call", "function_call_output"]
        assert repairs == [(3, "tool_call_id"), (3, "reasoning")]

    @pytest.mark.parametrize("more", [{}, {"id": "fc_1", "status": "completed"}], ids=["made", "kept"])
    def test_blank_arguments_are_an_empty_object(self, more: dict[str, Any]) -> None:
        items = [CALL_ITEM | {"arguments": ""} | more, RESULT_ITEM]
        read = from_responses(items)
        assert self._repaired(read) == ([CALL_ITEM | more, RESULT_ITEM], [])
        assert to_responses(read, repair=False) == items
        assert bool(read[0].attributes) == bool(more)

    def test_repairs_come_in_order(self) -> None:
        reasoning = _reasoning(encrypted_content=None)
        (answer,) = from_responses([reasoning, _said("x")])
        _, repairs = self._repaired([RESULT, answer, CALL])
        assert repairs == [(0, "result_without_call"), (1, "reasoning"), (2, "call_without_result")]

    def test_a_record_has_every_message(self) -> None:
        said = [CALL, AiMessage(), RESULT]
        empty = {"role": "assistant", "content": ""}
        assert to_responses(said, repair=False) == [CALL_ITEM, empty, RESULT_ITEM]


class TestWritten:
    @pytest.mark.parametrize(("level", "detail"), [("LOW", "low"), ("MEDIUM", "auto"), ("AUTO", "auto")])
    def test_detail_levels(self, level: str, detail: str) -> None:
        (item,) = to_responses([_user(ImageContent("http://x", detail_level=level))])
        assert item["content"][0]["detail"] == detail

    def test_data_of_a_pdf(self) -> None:
        (item,) = to_responses([_user(PdfFileContent("data:application/pdf;base64,aGk="))])
        assert item["content"] == [PDF_PART]

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            *OPENAI_REFUSES,
            (
                PdfFileContent("gs://x/a.pdf"),
                "OpenAI takes a PDF file from http and https only, but the URL is 'gs://x/a.pdf'",
            ),
        ],
    )
    def test_media_that_are_not_sent(self, content: Content, problem: str) -> None:
        with pytest.raises(UnsupportedContentError) as caught:
            to_responses([HI, _user(content)])
        assert caught.value.problem == problem

    @pytest.mark.parametrize(
        "content", [ImageContent(base64_data="a!", mime_type="image/png"), PdfFileContent(base64_data="a!")]
    )
    def test_a_record_has_any_data(self, content: Content) -> None:
        assert "a!" in str(to_responses([_user(content)], repair=False))

    @pytest.mark.parametrize("url", ["gs://x/a.png", "a/b.png", "data:image/bmp;base64,aGk="])
    def test_a_record_has_any_image(self, url: str) -> None:
        (item,) = to_responses([_user(ImageContent(url))], repair=False)
        assert item["content"][0]["image_url"] == url

    def test_what_has_no_place_and_does_no_harm_is_left_out(self) -> None:
        assert to_responses(
            [
                UserMessage("x", name="Ann", attributes={"k": 1}),
                AiMessage("x", [ToolExecutionRequest("c1", "now")], thinking="hm", attributes={"k": 1}),
                ToolExecutionResultMessage("c1", "now", "x", is_error=True, attributes={"k": 1}),
            ],
            pytest.fail,
        ) == [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": "x"},
            CALL_ITEM,
            RESULT_ITEM | {"output": "x"},
        ]

    @pytest.mark.parametrize(
        ("message", "error"),
        [
            (CustomMessage({"k": 1}), "message 1 (CUSTOM): OpenAI has no such messages"),
            (_user(VideoContent("http://x")), "message 1 (USER): OpenAI's Responses take no VIDEO"),
            (_user(AudioContent("http://x")), "message 1 (USER): OpenAI's Responses take no AUDIO"),
            (_user(PdfFileContent()), "message 1 (USER): OpenAI needs the URL or the data of a PDF file"),
            (_user(ImageContent(image=Image())), "message 1 (USER): OpenAI needs the URL or the data of an image"),
            (
                _user(ImageContent(image=Image(base64_data="aGk="))),
                "message 1 (USER): OpenAI needs the MIME type of an image that is given as data",
            ),
            (
                AiMessage(None, [ToolExecutionRequest("1")]),
                "message 1 (AI): OpenAI needs the name of the tool that is called",
            ),
        ],
        ids=lambda value: value[:60] if isinstance(value, str) else "",
    )
    def test_unsupported(self, message: ChatMessage, error: str) -> None:
        with pytest.raises(UnsupportedContentError) as caught:
            to_responses([HI, message, HI])
        assert str(caught.value) == error
        assert caught.value.index == 1


class TestRead:
    def test_a_request(self) -> None:
        assert from_responses({"instructions": "S", "input": "Hi"}) == [SystemMessage("S"), HI]
        assert from_responses({"instructions": None, "input": [HI_ITEM]}) == from_responses("Hi") == [HI]

    def test_what_the_api_says_of_what_was_said_is_left_out(self) -> None:
        about = {"id": "x_1", "status": "completed"}
        assert from_responses(
            [
                {"type": "message", **about, "role": "developer", "content": [_text("a"), _text("b")]},
                {"type": "message", **about, "role": "user", "content": [_text("Hi")]},
                RESULT_ITEM | about | {"name": "now"},
            ]
        ) == [SystemMessage("ab"), HI, RESULT]

    def test_calls_join_the_answer_before_and_texts_do_not(self) -> None:
        text = {"role": "assistant", "content": "x"}
        assert from_responses([text, CALL_ITEM, text]) == [AiMessage("x", [NOW]), AiMessage("x")]

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (None, "m: expected a list of items, a text or an object, got null"),
            ({"input": None}, "m.input: expected a list of items or a text, got null"),
            ({"output": "x"} | {"output": 1}, "m.output: expected a list of items, got a number"),
            ({"input": "x", "model": "x"}, "m.model: unknown field; leave it out"),
            ({"input": "x", "instructions": 1}, "m.instructions: expected a string, got a number"),
            ({"input": "x", "instructions": " "}, "m.instructions: text cannot be null or blank"),
            ({"input": "x\0"}, "m.input: has U+0000 at index 1; take it out"),
            (["x"], "m[0]: expected an object, got a string"),
            ([{"role": "tool", "content": "x"}], "m[0].role: expected one of user, system, developer, assistant"),
            ([{"type": "x"}], "m[0].type: expected one of message, function_call_output, got 'x'"),
            ([{"type": "item_reference", "id": "x"}], "m[0].type: only OpenAI knows what this refers to"),
            ([{"type": "custom_tool_call"}], "m[0].type: a call of a custom tool cannot be kept"),
            ([{"type": "computer_call"}], "m[0].type: a call whose output is not a function's"),
            ([_user_item()], "m[0].content: expected at least one part, got none"),
            ([_user_item({"type": "input_audio"})], "m[0].content[0].type: expected one of input_text, input_image"),
            (
                [_user_item({"type": "input_image", "file_id": "x"})],
                "m[0].content[0].file_id: an image that OpenAI holds cannot be kept; give its image_url",
            ),
            (
                [_user_item({"type": "input_file", "file_id": "x"})],
                "m[0].content[0].file_id: a file that OpenAI holds cannot be kept; give its file_data",
            ),
            (
                [_user_item({"type": "input_file", "file_url": "x", "file_data": "y"})],
                "m[0].content[0].file_data: given twice, there is a file_url",
            ),
            (
                [_user_item({"type": "input_file", "file_data": "data:text/plain;base64,aGk="})],
                "m[0].content[0].file_data: expected data:application/pdf;base64,…",
            ),
            ([_user_item(_text("x") | {"more": 1})], "m[0].content[0].more: unknown field; leave it out"),
            ([_said("x") | {"content": [_text("x")]}], "m[0].content[0].type: expected one of output_text, refusal"),
            ([CALL_ITEM | {"call_id": None}], "m[0].call_id: expected a string, got null"),
            ([CALL_ITEM | {"caller": {"type": "program"}}], "m[0].caller.type: calls of programs cannot be kept"),
            ([_reasoning("\ud800")], "m[0].summary[0].text: has a lone surrogate (U+D800)"),
            ([RESULT_ITEM | {"output": None}], "m[0].output: expected a string or a list of parts, got null"),
        ],
        ids=lambda value: value[:60] if isinstance(value, str) else "",
    )
    def test_errors_name_the_place(self, data: Any, error: str) -> None:
        with pytest.raises(InvalidMessageError) as caught:
            from_responses(data, "m")
        assert str(caught.value).startswith(error)


_some = texts(min_size=1, max_size=10)


@st.composite
def _conversations(draw: st.DrawFn) -> list[ChatMessage]:
    """Turns that lose nothing in this format."""
    images = [PNG, ImageContent("http://x/a.png", detail_level="LOW")]
    contents = st.builds(TextContent, texts(max_size=5)) | st.sampled_from([*images, PdfFileContent("http://x/a")])
    several = st.lists(contents, min_size=1, max_size=3)
    given: list[ChatMessage] = []
    for turn in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            given.append(SystemMessage(draw(_some) + "."))
        given.append(UserMessage(draw(several)))
        requests = [
            ToolExecutionRequest(f"{turn}_{index}", "now", "{" + draw(texts(max_size=5)))
            for index in range(draw(st.integers(0, 2)))
        ]
        given.append(AiMessage(draw((st.none() | _some) if requests else _some), requests))
        given += [ToolExecutionResultMessage(request.id, "now", contents=draw(several)) for request in requests]
    return given


def _read_or_error(data: Any) -> list[ChatMessage] | InvalidMessageError:
    try:
        return from_responses(data, "m")
    except InvalidMessageError as error:
        return error


class TestAny:
    @pytest.mark.slow
    @settings(max_examples=budget.examples(150))
    @given(_conversations())
    def test_what_can_be_written_comes_back(self, given: list[ChatMessage]) -> None:
        written = to_responses(given, pytest.fail)
        assert_responses_accept(written)
        assert from_responses(written) == given
        assert to_responses(given, repair=False) == written

    @pytest.mark.slow
    @settings(max_examples=budget.examples(300))
    @given(
        st.sampled_from([items for _, items in SAME_BOTH_WAYS.values()] + [items for items, _ in KEPT.values()]),
        st.data(),
    )
    def test_what_has_one_thing_changed_is_read_or_refused(
        self, items: list[dict[str, Any]], data: st.DataObject
    ) -> None:
        read = _read_or_error(changed(items, data))
        if isinstance(read, InvalidMessageError):
            assert read.place.startswith("m")
            str(read).encode()
            return
        messages_to_json(read).encode()
        with contextlib.suppress(UnsupportedContentError):
            to_responses(read)
