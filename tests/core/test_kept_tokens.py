"""What is kept for a provider counts, because it is sent again; and images cost what the providers publish."""

import base64
import struct
import zlib
from dataclasses import replace

import pytest

from benchmarks.counts.media import pdf
from chatmemory import (
    AiMessage,
    ImageContent,
    OpenAiTokenCountEstimator,
    PdfFileContent,
    ToolExecutionRequest,
    UserMessage,
)
from chatmemory.core import kept
from chatmemory.formats.anthropic import from_anthropic
from chatmemory.formats.gemini import from_gemini, to_gemini
from chatmemory.formats.openai import from_openai
from chatmemory.formats.registry import BUILT_IN
from chatmemory.formats.responses import from_responses

ESTIMATOR = OpenAiTokenCountEstimator("gpt-4o")


def tokens(message):
    return ESTIMATOR.estimate_token_count_in_message(message)


def text_tokens(text):
    return ESTIMATOR.estimate_token_count_in_text(text)


def encrypted(size):
    """Return what looks like ``size`` bytes that only the provider can read."""
    return base64.b64encode(bytes(index * 7 % 251 for index in range(size))).decode()


def test_every_attribute_of_a_format_counts():
    assert {name for format in BUILT_IN.values() for name in format.attributes} <= {*kept.ATTRIBUTES}


class TestThinking:
    THOUGHT = "First weigh the one, then the other. " * 700

    def test_signed_thinking_counts_its_text(self):
        signed = AiMessage("Yes.", thinking=self.THOUGHT, attributes={"thinking_signature": "c2ln"})
        said = tokens(AiMessage("Yes."))
        assert tokens(signed) == said + text_tokens(self.THOUGHT)

    def test_what_a_signature_holds_counts_if_it_is_more_than_the_summary(self):
        signature = encrypted(40_000)
        signed = AiMessage("Yes.", thinking="A summary.", attributes={"thinking_signature": signature})
        assert tokens(signed) - tokens(AiMessage("Yes.")) == pytest.approx(10_000, rel=0.01)

    def test_thinking_that_is_not_sent_again_costs_nothing(self):
        assert tokens(AiMessage("Yes.", thinking=self.THOUGHT)) == tokens(AiMessage("Yes."))

    def test_redacted_thinking(self):
        redacted = AiMessage("Yes.", attributes={"redacted_thinking": [encrypted(4000), encrypted(8000)]})
        assert tokens(redacted) - tokens(AiMessage("Yes.")) == pytest.approx(3000, rel=0.01)

    def test_several_thoughts_are_counted_once(self):
        blocks = [
            {"type": "thinking", "thinking": "One thing. " * 50, "signature": "c2lnMQ=="},
            {"type": "text", "text": "Hold on. "},
            {"type": "thinking", "thinking": "Another. " * 50, "signature": "c2lnMg=="},
            {"type": "text", "text": "Done."},
        ]
        [message] = from_anthropic([{"role": "assistant", "content": blocks}])
        assert message.attributes.keys() >= {"anthropic", "thinking_signature"}
        assert tokens(message) == tokens(AiMessage("Hold on. Done.")) + text_tokens(message.thinking)

    def test_long_signatures_of_several_thoughts_are_counted_once(self):
        signatures = [encrypted(4000), encrypted(8000)]
        blocks = [
            block
            for signature in signatures
            for block in (
                {"type": "thinking", "thinking": "Hm.", "signature": signature},
                {"type": "text", "text": "Yes."},
            )
        ]
        [message] = from_anthropic([{"role": "assistant", "content": blocks}])
        assert tokens(message) - tokens(AiMessage("Yes.Yes.")) == pytest.approx(3000, rel=0.01)

    @pytest.mark.parametrize("signature", [None, encrypted(4000)])
    def test_gemini_gets_its_thoughts_again(self, signature):
        answer = {"text": "Yes.", **({"thoughtSignature": signature} if signature else {})}
        [message] = from_gemini([{"role": "model", "parts": [{"text": self.THOUGHT, "thought": True}, answer]}])
        assert to_gemini([UserMessage("Well?"), message])["contents"][1]["parts"][0]["text"] == self.THOUGHT
        more = tokens(message) - tokens(AiMessage("Yes."))
        assert more == pytest.approx(text_tokens(self.THOUGHT) + (1000 if signature else 0), rel=0.01)

    def test_openai_reasoning(self):
        items = [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": encrypted(20_000)},
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Four.", "annotations": []}],
            },
        ]
        [message] = from_responses({"output": items})
        assert tokens(message) - tokens(AiMessage("Four.")) == pytest.approx(5000, rel=0.01)

    def test_gemini_signature_of_a_call(self):
        call = {"functionCall": {"name": "look", "args": {"at": "the moon"}}, "thoughtSignature": encrypted(4000)}
        [message] = from_gemini({"contents": [{"role": "model", "parts": [call]}]})
        plain = AiMessage(None, message.tool_execution_requests)
        assert tokens(message) - tokens(plain) == pytest.approx(1000, rel=0.01)

    def test_what_other_servers_of_openais_api_want_back(self):
        call = {
            "id": "1",
            "type": "function",
            "function": {"name": "look", "arguments": "{}"},
            "extra_content": {"google": {"thought_signature": encrypted(4000)}},
        }
        [message] = from_openai([{"role": "assistant", "content": None, "tool_calls": [call]}])
        plain = AiMessage(None, message.tool_execution_requests)
        assert tokens(message) - tokens(plain) == pytest.approx(1000, rel=0.01)


class TestServerTools:
    def test_searches_cost_what_they_found(self):
        found = [
            {
                "type": "web_search_result",
                "title": "T",
                "url": "https://x.org",
                "encrypted_content": encrypted(36_000 + n),
            }
            for n in range(5)
        ]
        blocks = [
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "moons of Jupiter"}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": found},
            {"type": "text", "text": "It has 97."},
        ]
        [message] = from_anthropic([{"role": "assistant", "content": blocks}])
        assert tokens(message) == pytest.approx(5 * 9000, rel=0.01)

    def test_what_is_said_is_counted_once(self):
        blocks = [
            {"type": "text", "text": "I will look. "},
            {"type": "tool_use", "id": "1", "name": "look", "input": {"at": 'the "red" moon', "for": ["craters"]}},
            {"type": "text", "text": "Wait."},
        ]
        [message] = from_anthropic([{"role": "assistant", "content": blocks}])
        assert "anthropic" in message.attributes
        assert tokens(message) == tokens(AiMessage(message.text, message.tool_execution_requests))

    def test_citations_cost_nothing(self):
        cited = {"type": "char_location", "cited_text": "Much more than was said. " * 40, "document_index": 0}
        blocks = [{"type": "text", "text": "It is so.", "citations": [cited]}]
        [message] = from_anthropic([{"role": "assistant", "content": blocks}])
        assert "anthropic" in message.attributes
        assert tokens(message) == tokens(AiMessage("It is so."))

    def test_an_image_that_ran_out_of_a_tool_costs_as_an_image(self):
        image = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(300_000)).decode()
        items = [{"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": image}]
        [message] = from_responses({"output": items})
        assert tokens(message) < 1100

    def test_an_image_that_ran_out_of_a_tool_has_the_price_of_its_size(self):
        image = base64.b64encode(png(2048, 4096) + bytes(300)).decode()
        [message] = from_responses({"output": [{"type": "image_generation_call", "id": "ig_1", "result": image}]})
        assert tokens(message) == tokens(AiMessage()) + 1105

    def test_what_is_there_twice_counts_twice(self):
        page = "The moon is not made of cheese. " * 30
        found = {"filename": "moon.md", "text": page}
        once, twice = (
            from_responses({"output": [{"type": "file_search_call", "id": "fs_1", "results": [found] * times}]})[0]
            for times in (1, 2)
        )
        assert tokens(twice) - tokens(once) == text_tokens(page) + text_tokens("moon.md")

    def test_a_result_of_several_parts_is_counted_once(self):
        said = 'It says "no".\nAnd more. ' * 50
        part = {"functionResponse": {"name": "look", "response": {"result": said, "more": ["a\tb"]}}}
        [message] = from_gemini([{"role": "user", "parts": [part]}])
        assert "gemini" in message.attributes
        assert tokens(message) == tokens(replace(message, attributes={})) + text_tokens("look")

    def test_attributes_of_ones_own_cost_nothing(self):
        own = AiMessage("Yes.", [ToolExecutionRequest("1", "look", "{}")], attributes={"mood": "glad " * 1000})
        assert tokens(own) == tokens(AiMessage("Yes.", [ToolExecutionRequest("1", "look", "{}")]))


def png(width, height):
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))


def jpeg(width, height):
    exif = b"\xff\xe1" + struct.pack(">H", 30_000) + bytes(29_998)
    return b"\xff\xd8" + exif + b"\xff\xc0" + struct.pack(">HBHHB", 17, 8, height, width, 3) + bytes(9)


def gif(width, height):
    return b"GIF89a" + struct.pack("<HH", width, height) + bytes(6)


def webp(width, height):
    extended = bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF" + bytes(4) + b"WEBPVP8X" + bytes(4) + extended


class TestImages:
    def cost(self, model, data, detail="HIGH"):
        content = ImageContent(base64_data=base64.b64encode(data).decode(), mime_type="image/png", detail_level=detail)
        estimator = OpenAiTokenCountEstimator(model)
        empty = estimator.estimate_token_count_in_message(UserMessage(""))
        return estimator.estimate_token_count_in_message(UserMessage([content])) - empty

    @pytest.mark.parametrize("make", [png, jpeg, gif, webp])
    def test_the_size_is_read(self, make):
        # The published examples for GPT-4o: 765 for a square of 1,024 pixels, 1,105 for 2,048 x 4,096.
        assert self.cost("gpt-4o", make(1024, 1024)) == 765
        assert self.cost("gpt-4o", make(2048, 4096)) == 1105

    @pytest.mark.parametrize(
        ("model", "size", "expected"),
        [
            pytest.param("gpt-4o-mini", (1024, 1024), 2833 + 4 * 5667, id="tiles of a small model"),
            pytest.param("gpt-4.1-mini", (1024, 1024), 1659, id="patches"),  # 1,024 patches
            pytest.param("gpt-4.1-mini", (1800, 2400), 2353, id="at most 1,536 patches"),  # 1,452
            pytest.param("gpt-5", (1024, 1024), 70 + 4 * 140, id="gpt-5"),
            pytest.param("gpt-6-astra", (1024, 1024), 1229, id="gpt-6"),
            pytest.param("gpt-6-astra", (4032, 3024), 2942, id="gpt-6, at most 2,500 patches of high detail"),
            pytest.param("gpt-6-astra", (1, 9_000_000), 3000, id="a line"),
            pytest.param("claude-haiku-4-5", (1024, 1024), 37 * 37, id="claude"),
            pytest.param("claude-haiku-4-5", (4032, 3024), 1568, id="claude scales down"),
            pytest.param("claude-opus-5-5", (1920, 1080), 69 * 39, id="newer Claudes see more"),
            pytest.param("gemini-2.5-flash", (300, 384), 258, id="gemini, small"),
            pytest.param("gemini-2.5-flash", (960, 540), 2 * 258, id="gemini, tiles"),
            pytest.param("gemini-3.8-flash", (4032, 3024), 1120, id="gemini 3"),
        ],
    )
    def test_published_rules(self, model, size, expected):
        assert self.cost(model, png(*size)) == expected

    def test_low_detail(self):
        assert self.cost("gpt-4o", png(4000, 4000), "LOW") == 85

    def test_detail_that_the_model_chooses(self):
        assert self.cost("gpt-6-astra", png(3840, 2160), "AUTO") == 9792
        assert self.cost("gpt-5.5", png(4032, 3024), "AUTO") == 11_868

    def test_an_image_in_a_data_uri(self):
        uri = "data:image/png;base64," + base64.b64encode(png(2048, 4096)).decode()
        message = UserMessage([ImageContent(uri, detail_level="HIGH")])
        assert tokens(message) == tokens(UserMessage("")) + 1105

    @pytest.mark.parametrize("data", [b"", b"%PDF-1.7", b"\x89PNG", b"\xff\xd8\xff\xe0", b"RIFF", b"GIF89a", png(0, 9)])
    def test_an_image_of_unknown_size_counts_as_a_square(self, data):
        if data:
            assert self.cost("gpt-4o", data) == 765
        by_address = UserMessage([ImageContent("https://x.org/a.png", detail_level="HIGH")])
        assert tokens(by_address) == tokens(UserMessage("")) + 765

    def test_data_that_is_no_base64_counts_as_a_square(self):
        broken = ImageContent(base64_data="a" * 5, mime_type="image/png", detail_level="HIGH")
        assert tokens(UserMessage([broken])) == tokens(UserMessage("")) + 765


class TestPdfFiles:
    def pages(self, content, model="gemini-2.5-flash"):
        estimator = OpenAiTokenCountEstimator(model)
        count = estimator.estimate_token_count_in_message
        return (count(UserMessage([content])) - count(UserMessage(""))) / 258

    @pytest.mark.parametrize("packed", [False, True])
    def test_the_pages_are_counted(self, packed):
        file = pdf(12, 0, packed=packed)
        assert self.pages(PdfFileContent(base64_data=file)) == 12
        assert self.pages(PdfFileContent(f"data:application/pdf;base64,{file}")) == 12

    @pytest.mark.parametrize(
        ("model", "tokens"), [("claude-opus-5-5", 2300), ("gemini-3.8-flash", 560), ("gpt-4o", 500 + 1105)]
    )
    def test_what_a_page_costs(self, model, tokens):
        assert self.pages(PdfFileContent(base64_data=pdf(3, 0, packed=True)), model) * 258 == 3 * tokens

    @pytest.mark.parametrize("data", ["JVBERi0xLjc=", "JVBER", "%%%", base64.b64encode(b"/ObjStm stream\nno").decode()])
    def test_a_file_without_pages_counts_as_a_page(self, data):
        assert self.pages(PdfFileContent(base64_data=data)) == 1
        assert self.pages(PdfFileContent("https://x.org/a.pdf")) == 1

    @pytest.mark.slow
    def test_a_small_file_may_unpack_to_much(self):
        packed = b"/Type /ObjStm stream\n" + zlib.compress(b"/Type /Page " * 1_500_000)
        assert self.pages(PdfFileContent(base64_data=base64.b64encode(packed * 40).decode())) == 1000
