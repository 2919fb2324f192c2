"""Token counts: those of LangChain4j, without a network."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
from base64 import b64encode
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from chatmemory import (
    AiMessage,
    AudioContent,
    ChatMessage,
    CustomMessage,
    ImageContent,
    OpenAiTokenCountEstimator,
    PdfFileContent,
    SystemMessage,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
    VideoContent,
)
from chatmemory.core import tokens
from chatmemory.core.tokens import ENCODING_NAMES, VocabularyError, count_tokens, encoding_name
from tests.support.paths import ROOT
from tests.support.strategies import messages
from tests.vectors import as_messages, load

CASES = load("tokens")["cases"]
GPT_4O = OpenAiTokenCountEstimator("gpt-4o")


def counted(case: dict[str, Any], model: str) -> int:
    estimator = OpenAiTokenCountEstimator(model)
    if "text" in case:
        return estimator.estimate_token_count_in_text(case["text"])
    if "message" in case:
        return estimator.estimate_token_count_in_message(as_messages([case["message"]])[0])
    return estimator.estimate_token_count_in_messages(as_messages(case["messages"]))


def name_of(case: dict[str, Any]) -> str:
    kind, value = next(iter(case.items()))
    return f"{kind} {ascii(value)[:60]}"


def run_python(code: str) -> str:
    """What a new interpreter that knows nothing of these tests prints."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestCountsOfLangChain4j:
    @pytest.mark.parametrize(
        ("case", "model"),
        [
            pytest.param(case, model, id=f"{number} {name_of(case)} {model}")
            for number, case in enumerate(CASES)
            for model in case["counts"]
        ],
    )
    def test_same_count(self, case: dict[str, Any], model: str) -> None:
        expected = case["counts"][model]
        if isinstance(expected, int):
            assert counted(case, model) == expected
        else:
            assert expected.startswith("raises ")
            # It is not refused here: more than the four tokens that every message has.
            assert counted(case, model) > 4

    @pytest.mark.parametrize(
        ("text", "o200k", "cl100k"),
        [
            ("hello world", 2, 2),
            ("Hello, world!", 4, 4),
            ("tiktoken is great!", 6, 6),
            ("你好，世界", 3, 6),
            ("안녕하세요", 2, 5),
            ("🎉", 2, 3),
            ("", 0, 0),
        ],
    )
    def test_known_counts(self, text: str, o200k: int, cl100k: int) -> None:
        assert (count_tokens(text, "o200k_base"), count_tokens(text, "cl100k_base")) == (o200k, cl100k)


class TestEstimates:
    """What LangChain4j refuses to count."""

    @pytest.mark.parametrize(
        ("message", "tokens"),
        [
            pytest.param(UserMessage([ImageContent("http://x")]), 4 + 85, id="image of low detail"),
            pytest.param(UserMessage([ImageContent("http://x", detail_level="HIGH")]), 4 + 765, id="image"),
            pytest.param(UserMessage([TextContent("hello world"), AudioContent("http://x")]), 4 + 2 + 1000, id="audio"),
            pytest.param(UserMessage([VideoContent("http://x")]), 4 + 1000, id="video"),
            pytest.param(UserMessage([PdfFileContent("http://x")]), 4 + 500 + 1105, id="pdf"),
            pytest.param(
                ToolExecutionResultMessage(contents=[TextContent("hello world"), TextContent("hello world")]),
                4 + 2 + 2,
                id="several contents of a tool result",
            ),
            pytest.param(
                AiMessage(None, [ToolExecutionRequest("1", "a", "no JSON"), ToolExecutionRequest("2", "a", "[1]")]),
                4 + 21 + (7 + 1 + 2) + (7 + 1 + 3),
                id="arguments that are no JSON object",
            ),
            pytest.param(
                AiMessage(None, [ToolExecutionRequest(), ToolExecutionRequest()]), 4 + 21 + 7 + 7, id="empty requests"
            ),
        ],
    )
    def test_documented_estimate(self, message: ChatMessage, tokens: int) -> None:
        assert GPT_4O.estimate_token_count_in_message(message) == tokens

    def test_a_custom_message_costs_its_json_text(self) -> None:
        text = '{"attributes":{"k":"hello world"},"type":"CUSTOM"}'
        message = CustomMessage({"k": "hello world"})
        assert GPT_4O.estimate_token_count_in_message(message) == 4 + GPT_4O.estimate_token_count_in_text(text)

    def test_a_custom_message_without_a_json_form_costs_something_too(self) -> None:
        assert GPT_4O.estimate_token_count_in_message(CustomMessage({"k": object()})) > 4

    @pytest.mark.parametrize("depth", [100, 480, 900, 960, 5_000, 100_000])
    def test_deep_arguments(self, depth: int) -> None:
        deep = ToolExecutionRequest("1", "a", '{"a":' + "[" * depth + "]" * depth + "}")
        assert GPT_4O.estimate_token_count_in_message(AiMessage(None, [deep, deep])) > 25

    @pytest.mark.parametrize(
        "arguments", ['{"a":"\\ud800"}', '{"a":NaN}', '{"a":' + "9" * 10_000 + "}", "\ud800", "\0"]
    )
    def test_odd_arguments(self, arguments: str) -> None:
        odd = ToolExecutionRequest("1", "a", arguments)
        assert GPT_4O.estimate_token_count_in_message(AiMessage(None, [odd, odd])) > 4 + 21 + 2 * 8

    @pytest.mark.slow
    @given(messages())
    def test_every_message_has_a_count(self, message: ChatMessage) -> None:
        for model in ("gpt-4o", "gpt-4", "o4-mini"):
            count = OpenAiTokenCountEstimator(model).estimate_token_count_in_message(message)
            assert type(count) is int
            assert count >= 4

    def test_what_is_no_message_is_refused(self) -> None:
        with pytest.raises(TypeError, match="Unknown message type: str"):
            GPT_4O.estimate_token_count_in_message("hello")  # type: ignore[arg-type]


class TestModels:
    @pytest.mark.parametrize(
        ("model", "name"),
        [
            ("gpt-4o", "o200k_base"),
            ("gpt-4o-2024-08-06", "o200k_base"),
            ("gpt-4.1-mini", "o200k_base"),
            ("gpt-5", "o200k_base"),
            ("o1", "o200k_base"),
            ("o4-mini", "o200k_base"),
            ("gpt-oss-120b", "o200k_base"),
            ("ft:gpt-4o:acme:x:1", "o200k_base"),
            ("gpt-4", "cl100k_base"),
            ("gpt-4-turbo", "cl100k_base"),
            ("gpt-3.5-turbo", "cl100k_base"),
            ("text-embedding-3-small", "cl100k_base"),
        ],
    )
    @pytest.mark.parametrize("fallback", ENCODING_NAMES)
    def test_known_model(self, model: str, name: str, fallback: str) -> None:
        assert encoding_name(model, fallback) == name
        assert OpenAiTokenCountEstimator(model, fallback_encoding=fallback).encoding == name

    @pytest.mark.parametrize("model", ["claude-sonnet-4", "text-davinci-003", "code-davinci-002", "gpt2", "", "日本"])
    @pytest.mark.parametrize("fallback", ENCODING_NAMES)
    def test_other_models_use_the_fallback(self, model: str, fallback: str) -> None:
        assert encoding_name(model, fallback) == fallback

    def test_fallback_of_the_fallback(self) -> None:
        assert OpenAiTokenCountEstimator("claude-sonnet-4").encoding == "o200k_base"

    @pytest.mark.parametrize("model", ["claude-sonnet-4", "gpt-4o"])
    @pytest.mark.parametrize("fallback", ["p50k_base", "", "O200K_BASE"])
    def test_unknown_fallback(self, model: str, fallback: str) -> None:
        with pytest.raises(ValueError, match="must be one of o200k_base, cl100k_base"):
            OpenAiTokenCountEstimator(model, fallback_encoding=fallback)

    @pytest.mark.parametrize("model", ["", " ", None, 4])
    def test_no_model(self, model: Any) -> None:
        with pytest.raises(ValueError, match="model_name cannot be null or blank"):
            OpenAiTokenCountEstimator(model)

    def test_repr(self) -> None:
        assert repr(GPT_4O) == "OpenAiTokenCountEstimator('gpt-4o')"


@pytest.mark.parametrize("encoding", ENCODING_NAMES)
class TestHazards:
    @pytest.mark.slow
    def test_a_million_spaces(self, encoding: str) -> None:
        assert 0 < count_tokens(" " * 2_000_000, encoding) < 2_000_000

    def test_special_tokens_are_text(self, encoding: str) -> None:
        assert count_tokens("<|endoftext|>", encoding) > 1
        assert count_tokens("<|endofprompt|><|im_start|>", encoding) > 2

    @pytest.mark.parametrize("text", ["\ud83d", "\ude00 x", "\0"])
    def test_what_no_database_holds(self, encoding: str, text: str) -> None:
        assert count_tokens(text, encoding) > 0

    @pytest.mark.parametrize(
        "sentence", ["The quick brown fox jumps.\n", "def f(x):\n    return x*2\n\n", "今日は良い天気ですね。\n"]
    )
    def test_long_text(self, encoding: str, sentence: str) -> None:
        each = count_tokens(sentence, encoding)
        assert count_tokens(sentence * 1_000, encoding) == each * 1_000  # such sentences do not run together
        repeats = 350_000 // len(sentence)
        assert 0 <= count_tokens(sentence * repeats, encoding) - each * repeats <= 3 * 3  # three cuts


class TestVocabularies:
    @pytest.mark.slow
    def test_no_network(self) -> None:
        code = """
import socket, sys

def forbidden(*args, **kwargs):
    raise AssertionError("the network was touched")

socket.socket.connect = socket.socket.__init__ = socket.create_connection = socket.getaddrinfo = forbidden
sys.addaudithook(lambda event, args: forbidden() if event.startswith("socket.") else None)

from chatmemory import OpenAiTokenCountEstimator
from chatmemory.core.tokens import count_tokens
print(count_tokens("안녕하세요", "o200k_base"), count_tokens("안녕하세요", "cl100k_base"))
print(OpenAiTokenCountEstimator("gpt-4").estimate_token_count_in_text("🎉"))
"""
        assert run_python(code).split() == ["2", "5", "3"]

    @pytest.mark.slow
    def test_many_threads_read_each_file_once(self) -> None:
        code = """
import sys, threading
from chatmemory.core.tokens import count_tokens

opened = []
def audit(event, args):
    if event == "open" and str(args[0]).endswith(".tokens.gz"):
        opened.append(str(args[0]))
sys.addaudithook(audit)
sys.setswitchinterval(1e-5)

counts, barrier = [], threading.Barrier(20)
def count(number):
    barrier.wait()
    counts.append(count_tokens("안녕하세요", ("o200k_base", "cl100k_base")[number % 2]))
threads = [threading.Thread(target=count, args=[number]) for number in range(20)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(opened), len(set(opened)), sorted(counts) == [2] * 10 + [5] * 10)
"""
        assert run_python(code).split() == ["2", "2", "True"]

    @pytest.fixture
    def package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A package with the vocabularies, whose files may be damaged; none is loaded yet."""
        folder = tmp_path / "vocabularies"
        folder.mkdir()
        original = resources.files("chatmemory.core") / "vocabularies"
        for name in ENCODING_NAMES:
            (folder / f"{name}.tokens.gz").write_bytes((original / f"{name}.tokens.gz").read_bytes())
        monkeypatch.setattr(resources, "files", lambda package: tmp_path)
        monkeypatch.setattr(tokens, "_loaded", {})
        return folder

    @pytest.mark.parametrize(
        "damage",
        [
            pytest.param(lambda data: b"", id="empty"),
            pytest.param(lambda data: b"no gzip", id="no gzip"),
            pytest.param(lambda data: data[: len(data) // 2], id="truncated"),
            pytest.param(lambda data: data[:5000] + bytes([data[5000] ^ 0xFF]) + data[5001:], id="one byte"),
            pytest.param(lambda data: data[:10] + b"\xff" * 20 + data[30:], id="first block"),
            pytest.param(lambda data: data[:-8] + bytes(8), id="checksum"),
            pytest.param(lambda data: gzip.compress(b"\x05hello"), id="another vocabulary"),
            pytest.param(
                lambda data: gzip.compress(gzip.decompress(data)[:-1], compresslevel=1), id="without the last byte"
            ),
        ],
    )
    def test_damaged_file(self, package: Path, damage: Any) -> None:
        file = package / "cl100k_base.tokens.gz"
        good = file.read_bytes()
        file.write_bytes(damage(good))
        with pytest.raises(VocabularyError, match=r"cl100k_base\.tokens\.gz.*Install django-chatmemory again"):
            count_tokens("hello world", "cl100k_base")
        file.write_bytes(good)
        assert count_tokens("hello world", "cl100k_base") == 2, "a failure must not last"

    def test_missing_file(self, package: Path) -> None:
        (package / "o200k_base.tokens.gz").unlink()
        with pytest.raises(VocabularyError, match=r"cannot read .*Install django-chatmemory again"):
            GPT_4O.estimate_token_count_in_message(SystemMessage("x"))
        assert count_tokens("hello world", "cl100k_base") == 2, "the other one is there"

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "published"),
        [
            ("o200k_base", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"),
            ("cl100k_base", "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"),
        ],
    )
    def test_it_holds_what_openai_published(self, name: str, published: str) -> None:
        """``published`` is the ``expected_hash`` of the file in tiktoken: lines of a token in base64 and its rank."""
        count_tokens("x", name)
        vocabulary = tokens._loaded[name]
        published_tokens = map(vocabulary.decode_single_token_bytes, range(vocabulary.n_vocab))
        lines = (b"%b %d\n" % (b64encode(token), rank) for rank, token in enumerate(published_tokens))
        assert hashlib.sha256(b"".join(lines)).hexdigest() == published
