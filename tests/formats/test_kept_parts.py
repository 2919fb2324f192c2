"""Kept pieces: whatever anybody writes into attributes, what is sent says no more than the message does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    ImageContent,
    OpenAiTokenCountEstimator,
    PdfFileContent,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
    messages_from_json,
    messages_to_json,
)
from chatmemory.formats.anthropic import from_anthropic, to_anthropic
from chatmemory.formats.gemini import from_gemini, to_gemini
from chatmemory.formats.responses import to_responses

SECRET = "Nobody said this."
PNG = ImageContent(base64_data="aGk=", mime_type="image/png", detail_level="AUTO")
PDF = PdfFileContent(base64_data="aGk=", mime_type="application/pdf")
SOURCE = {"type": "base64", "media_type": "application/pdf", "data": "aGk="}
DOCUMENT = {"type": "document", "source": SOURCE}
IMAGE = {"type": "image", "source": {**SOURCE, "media_type": "image/png"}}
INLINE = {"mimeType": "application/pdf", "data": "aGk="}
HI = UserMessage("Hi")
CALL = AiMessage(None, [ToolExecutionRequest("c1", "now", "{}")])
OUTPUT_TEXT = {"type": "output_text", "text": "x", "annotations": []}


class TestUnsaid:
    """Pieces with more in them than the message says."""

    @pytest.mark.parametrize(
        "block",
        [
            {**DOCUMENT, "title": SECRET},
            {**DOCUMENT, "context": SECRET},
            {**DOCUMENT, "citations": {"enabled": True, "because": SECRET}},
            {**DOCUMENT, "citations": [SECRET]},
            {**DOCUMENT, "cache_control": {"type": "ephemeral"}},
            {**DOCUMENT, "caller": {"type": "direct"}},
            {**DOCUMENT, "source": {**SOURCE, "note": SECRET}},
            {**DOCUMENT, "note": SECRET},
        ],
        ids=lambda block: "+".join(block.keys() - DOCUMENT.keys()) or "source",
    )
    def test_of_a_user_for_anthropic(self, block: dict[str, Any]) -> None:
        said = UserMessage([PDF], attributes={"anthropic": {"content": [block]}})
        assert to_anthropic([said])["messages"] == [{"role": "user", "content": [DOCUMENT]}]

    @pytest.mark.parametrize(
        ("block", "content", "plain"),
        [
            ({**IMAGE, "transformations": {"oversized_image": SECRET}}, PNG, IMAGE),
            ({**IMAGE, "transformations": SECRET}, PNG, IMAGE),
            ({"type": "text", "text": "x", "citations": [{"cited_text": SECRET}]}, TextContent("x"), "x"),
            ({"type": "text", "text": "x", "cache_control": SECRET}, TextContent("x"), "x"),
        ],
    )
    def test_of_images_and_texts_for_anthropic(self, block: dict[str, Any], content: Any, plain: Any) -> None:
        said = UserMessage([content], attributes={"anthropic": {"content": [block]}})
        [turn] = to_anthropic([said])["messages"]
        assert turn["content"] == (plain if isinstance(plain, str) else [plain])

    @pytest.mark.parametrize(
        "part",
        [
            {"inlineData": INLINE, "thoughtSignature": "U2Vj" * 100},
            {"inlineData": INLINE, "partMetadata": {"note": SECRET}},
            {"inlineData": INLINE, "videoMetadata": {"note": SECRET}},
            {"inlineData": INLINE, "videoMetadata": {"startOffset": SECRET}},
            {"inlineData": INLINE, "mediaResolution": {"level": SECRET}},
            {"inlineData": INLINE, "mediaResolution": {"note": SECRET}},
            {"inlineData": {**INLINE, "displayName": SECRET}},
            {"inlineData": {**INLINE, "note": SECRET}},
            {"inlineData": INLINE, "note": SECRET},
        ],
        ids=str,
    )
    def test_of_a_user_for_gemini(self, part: dict[str, Any]) -> None:
        said = UserMessage([PDF], attributes={"gemini": {"parts": [part]}})
        assert to_gemini([said])["contents"] == [{"role": "user", "parts": [{"inlineData": INLINE}]}]

    @pytest.mark.parametrize(
        "more",
        [
            {"willContinue": SECRET},
            {"scheduling": SECRET},
            {"parts": [{"inlineData": {**INLINE, "displayName": SECRET}}]},
            {"parts": [{"inlineData": INLINE, "partMetadata": {"note": SECRET}}]},
            {"parts": [{"inlineData": INLINE, "thoughtSignature": "U2Vj"}]},
        ],
        ids=str,
    )
    def test_of_a_result_for_gemini(self, more: dict[str, Any]) -> None:
        part = {"functionResponse": {"id": "c1", "name": "now", "response": {"output": "x"}, **more}}
        contents = [TextContent("x"), *([PDF] if "parts" in more else [])]
        result = ToolExecutionResultMessage("c1", "now", contents=contents, attributes={"gemini": {"parts": [part]}})
        [response] = to_gemini([HI, CALL, result])["contents"][-1]["parts"]
        media = {"parts": [{"inlineData": INLINE}]} if "parts" in more else {}
        assert response["functionResponse"] == {"id": "c1", "name": "now", "response": {"output": "x"}, **media}

    @pytest.mark.parametrize(
        "block",
        [
            {"type": "text", "text": "x", "cache_control": {"type": SECRET}},
            {"type": "text", "text": "x", "citations": SECRET},
            {"type": "text", "text": "x", "note": SECRET},
        ],
        ids=lambda block: "+".join(block),
    )
    def test_of_an_answer_for_anthropic(self, block: dict[str, Any]) -> None:
        said = AiMessage("x", attributes={"anthropic": {"content": [block]}})
        assert to_anthropic([HI, said])["messages"][1] == {"role": "assistant", "content": "x"}

    @pytest.mark.parametrize(
        "item",
        [
            {"type": "message", "role": "assistant", "id": "m", "content": [{**OUTPUT_TEXT, "parsed": SECRET}]},
            {"type": "message", "role": "assistant", "id": "m", "content": [{**OUTPUT_TEXT, "note": SECRET}]},
            {"type": "message", "role": "assistant", "id": "m", "content": [OUTPUT_TEXT], "note": SECRET},
        ],
    )
    def test_of_an_answer_for_responses(self, item: dict[str, Any]) -> None:
        said = AiMessage("x", attributes={"openai_responses": {"items": [item]}})
        assert to_responses([said]) == [{"role": "assistant", "content": "x"}]


class TestSaid:
    """What a user says beside media is read as text, so it is counted, searched, and sent to other models, too."""

    def test_the_title_and_the_context_of_a_document(self) -> None:
        block = {**DOCUMENT, "title": "Annual report", "context": "From the archive.", "citations": {"enabled": True}}
        data = {"messages": [{"role": "user", "content": [block, {"type": "text", "text": "Sum it up."}]}]}
        [said] = messages_from_json(messages_to_json(from_anthropic(data)))
        assert said.text == "Annual report\nFrom the archive.\nSum it up."
        assert to_anthropic([said], pytest.fail) == data
        estimator = OpenAiTokenCountEstimator("gpt-4o")
        without = estimator.estimate_token_count_in_message(UserMessage([PDF, TextContent("Sum it up.")]))
        assert estimator.estimate_token_count_in_message(said) > without

    @pytest.mark.parametrize("blank", ["", " "])
    def test_a_blank_title_says_nothing(self, blank: str) -> None:
        data = {"messages": [{"role": "user", "content": [{**DOCUMENT, "title": blank, "context": "From 2020."}]}]}
        [said] = from_anthropic(data)
        assert said.text == "From 2020."
        assert to_anthropic([said], pytest.fail) == data

    def test_the_name_of_media(self) -> None:
        data = {"contents": [{"role": "user", "parts": [{"inlineData": {**INLINE, "displayName": "report.pdf"}}]}]}
        [said] = from_gemini(data)
        assert said.text == "report.pdf"
        assert to_gemini([said], pytest.fail) == data

    def test_the_name_of_media_in_a_result(self) -> None:
        media = {"inlineData": {**INLINE, "displayName": "report.pdf"}}
        response = {"id": "c1", "name": "now", "response": {"output": {"$ref": "report.pdf"}}, "parts": [media]}
        call = {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "now", "args": {}}}]}
        turn = {"role": "user", "parts": [{"functionResponse": response}]}
        read = from_gemini([{"role": "user", "parts": [{"text": "Hi"}]}, call, turn])
        assert "report.pdf" in (read[-1].text or "").splitlines()
        assert to_gemini(read, pytest.fail)["contents"][-1] == turn

    def test_what_says_nothing_to_gemini_is_left_out(self) -> None:
        part = {"text": "x", "thoughtSignature": "U2Vj", "partMetadata": {"note": SECRET}}
        assert from_gemini([{"role": "user", "parts": [part]}]) == [UserMessage("x")]


_words = st.sampled_from(["a", "title", "b c", " "])
_blocks = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, st.sampled_from(["x", "y z"])),
    st.fixed_dictionaries(
        {"type": st.just("document"), "source": st.just(SOURCE)},
        optional={
            "title": _words,
            "context": _words,
            "citations": st.sampled_from([{}, {"enabled": True}, None]),
            "cache_control": st.just({"type": "ephemeral"}),
        },
    ),
)


def _texts(blocks: list[dict[str, Any]]) -> list[str]:
    return [text for block in blocks for key in ("title", "context", "text") if (text := block.get(key, "").strip())]


@pytest.mark.slow
@given(st.lists(_blocks, min_size=1, max_size=3))
def test_all_that_is_sent_to_anthropic_is_said(blocks: list[dict[str, Any]]) -> None:
    [said] = from_anthropic([{"role": "user", "content": blocks}])
    sent = to_anthropic([said])["messages"][0]["content"]
    if isinstance(sent, str):
        sent = [{"type": "text", "text": sent}]
    assert _texts(sent) == _texts(blocks) == (said.text or "").splitlines()


_anything = st.recursive(
    st.booleans() | st.sampled_from([0, 1.5, "x", SECRET]),
    lambda some: st.lists(some, max_size=2) | st.dictionaries(st.sampled_from(["a", "enabled", "type"]), some),
)


@pytest.mark.slow
@given(_anything, st.sampled_from(["title", "context", "source", "caller", "cache_control", "extra"]))
def test_no_field_that_somebody_adds_is_sent_to_anthropic(value: Any, key: str) -> None:
    said = UserMessage([PDF], attributes={"anthropic": {"content": [{**DOCUMENT, key: value}]}})
    assert to_anthropic([said])["messages"] == [{"role": "user", "content": [DOCUMENT]}]


@pytest.mark.slow
@given(_anything, st.sampled_from(["thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution", "extra"]))
def test_no_field_that_somebody_adds_is_sent_to_gemini(value: Any, key: str) -> None:
    said = UserMessage([PDF], attributes={"gemini": {"parts": [{"inlineData": INLINE, key: value}]}})
    [turn] = to_gemini([said])["contents"]
    assert turn["parts"] == [{"inlineData": INLINE}] or value == {}
