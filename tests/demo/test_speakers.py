"""The models that the demo's environment chooses, and what they say when they fail."""

# ruff: noqa: F811 - fixtures that are imported

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import translation

from chatmemory import AiMessage, ChatMessage, CustomMessage, UserMessage
from chatmemory.assistant import Answered, Thinking
from demo_project.chat import speakers
from demo_project.chat.speaker import SpeakerError
from demo_project.chat.speakers import chosen_speaker
from tests.support import anthropic_server as anthropic
from tests.support import gemini_server as gemini
from tests.support import openai_server as openai
from tests.support.anthropic_server import AnthropicServer, anthropic_server  # noqa: F401
from tests.support.gemini_server import GeminiServer, gemini_server  # noqa: F401
from tests.support.openai_server import ModelServer, model_server  # noqa: F401

# The package's own class of aiohttp's sessions.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

HI: list[ChatMessage] = [UserMessage("Hi")]
THOUGHT = {"text": "Greet.", "thought": True}


def stream(messages: list[ChatMessage] = HI) -> list[Any]:
    return [piece for piece in chosen_speaker().stream(messages, []) if piece != ""]


def astream(messages: list[ChatMessage] = HI) -> list[Any]:
    async def wait() -> list[Any]:
        return [piece async for piece in chosen_speaker().astream(messages, []) if piece != ""]

    return asyncio.run(wait())


ways = pytest.mark.parametrize("way", [stream, astream])


def server_of(request: pytest.FixtureRequest, name: str) -> Any:
    return request.getfixturevalue(name)


def talk(server: Any) -> None:
    """Next time, think and say hello."""
    if isinstance(server, AnthropicServer):
        server.stream(anthropic.events(anthropic.thinking("Greet."), anthropic.text("Hi!")))
    elif isinstance(server, GeminiServer):
        server.stream(gemini.chunks(THOUGHT, {"text": "Hi!"}))
    else:
        server.stream([*openai.thinks(["reasoning_content"], "Greet."), *openai.says("Hi!")])


SERVERS = {
    "model_server": ("tiny", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "anthropic_server": ("claude-tiny", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "gemini_server": ("gemini-tiny", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
}
each_server = pytest.mark.parametrize("name", SERVERS)


@each_server
@ways
class TestEachModel:
    @pytest.mark.usefixtures("sdks")
    def test_it_gives_out_all_that_the_model_does(
        self, request: pytest.FixtureRequest, name: str, way: Callable[..., list[Any]]
    ) -> None:
        server = server_of(request, name)
        talk(server)
        *pieces, answered = way()
        said = "".join(piece for piece in pieces if isinstance(piece, str))
        thought = "".join(piece.text for piece in pieces if isinstance(piece, Thinking))
        assert (said, thought) == ("Hi!", "Greet.")
        assert isinstance(answered, Answered)
        assert answered.message.text == "Hi!"
        model = SERVERS[name][0]
        address = server.url.removeprefix("http://").partition("/")[0]
        assert chosen_speaker().name == f"{model} at {address}"

    @pytest.mark.usefixtures("sdks")
    @pytest.mark.parametrize("status", [401, 404, 429, 500])
    def test_errors_say_what_to_do(
        self, request: pytest.FixtureRequest, name: str, way: Callable[..., list[Any]], status: int
    ) -> None:
        server = server_of(request, name)
        model, key, address = SERVERS[name]
        server.fail(status, "so it is")
        with pytest.raises(SpeakerError) as raised:
            way()
        words = {
            401: ["refused the key (401)", key],
            404: ["CHATMEMORY_DEMO_MODEL", address],
            429: [f"{model} at 127.0.0.1", "failed (429)"],
            500: ["failed (500)"],
        }[status]
        assert all(word in str(raised.value) for word in [*words, "so it is"])

    @pytest.mark.usefixtures("sdks")
    def test_a_server_that_is_not_there(
        self,
        request: pytest.FixtureRequest,
        name: str,
        way: Callable[..., list[Any]],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        server_of(request, name).close()

        async def at_once(seconds: float) -> None:  # the package of Gemini's waits before it tries again
            pass

        if name == "gemini_server":
            monkeypatch.setattr("google.genai._api_client.asyncio.sleep", at_once)
        with pytest.raises(SpeakerError, match=f"cannot be reached. Check {SERVERS[name][2]}"):
            way()

    @pytest.mark.usefixtures("sdks")
    def test_what_cannot_be_sent(
        self, request: pytest.FixtureRequest, name: str, way: Callable[..., list[Any]]
    ) -> None:
        server_of(request, name)
        with pytest.raises(SpeakerError, match=r"This memory cannot be sent to .*tiny at 127"):
            way([CustomMessage({"a": 1})])


@pytest.mark.usefixtures("sdks")
@ways
def test_what_the_assistant_says_of_a_model_is_translated(
    anthropic_server: AnthropicServer, way: Callable[..., list[Any]]
) -> None:
    anthropic_server.stream(anthropic.events(anthropic.text("Hel"), stop=None))
    with translation.override("ja"), pytest.raises(SpeakerError, match="の回答が途中で切れました。"):
        way()


@pytest.mark.parametrize("name", ["anthropic_server", "gemini_server"])
@ways
class TestKeys:
    @pytest.mark.usefixtures("sdks")
    def test_one_is_needed(
        self,
        request: pytest.FixtureRequest,
        name: str,
        way: Callable[..., list[Any]],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        server_of(request, name)
        key = SERVERS[name][1]
        monkeypatch.delenv(key)
        with pytest.raises(SpeakerError, match=rf"127\.0\.0\.1:\d+ needs a key\. Set {key}\."):
            way()


@pytest.mark.usefixtures("sdks")
@ways
def test_an_error_in_the_middle_of_anthropics_stream(
    anthropic_server: AnthropicServer, way: Callable[..., list[Any]]
) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    anthropic_server.stream([*anthropic.events(anthropic.text("Hel"), stop=None), error])
    with pytest.raises(SpeakerError, match=r"failed\. It said: Overloaded"):
        way()


@pytest.mark.usefixtures("sdks")
def test_a_wrong_key_of_gemini_is_a_bad_request(gemini_server: GeminiServer) -> None:
    gemini_server.fail(400, "API key not valid. Please pass a valid API key.")
    with pytest.raises(SpeakerError, match=r"refused the key \(401\). Check GEMINI_API_KEY"):
        stream()


@pytest.mark.parametrize(
    ("chosen", "missing", "package"),
    [
        ("tiny", "openai", "openai"),
        ("anthropic:claude-tiny", "anthropic", "anthropic"),
        ("gemini:gemini-tiny", "google.genai", "google-genai"),
    ],
)
def test_without_the_package(chosen: str, missing: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHATMEMORY_DEMO_MODEL", chosen)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SpeakerError, match=f"The package {package} is missing. Install it: pip install {package}"):
        stream()


@pytest.mark.parametrize(
    ("chosen", "name"),
    [
        ("llama3:8b", "llama3:8b at api.openai.com"),
        ("anthropic:claude-tiny", "claude-tiny at api.anthropic.com"),
        ("gemini:gemini-tiny", "gemini-tiny at generativelanguage.googleapis.com"),
    ],
)
def test_the_name_says_whose_model_it_is(chosen: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for _, _, address in SERVERS.values():
        monkeypatch.delenv(address, raising=False)
    monkeypatch.setenv("CHATMEMORY_DEMO_MODEL", chosen)
    assert chosen_speaker().name == name


@ways
def test_the_bot_speaks_in_words(way: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHATMEMORY_DEMO_MODEL", raising=False)
    monkeypatch.setattr(speakers, "PAUSE", 0)
    *words, answer = way()
    assert len(words) > 3
    assert answer == AiMessage("".join(words))


@each_server
class TestTroubleAtTheStart:
    @pytest.mark.usefixtures("sdks")
    def test_there_is_none(self, request: pytest.FixtureRequest, name: str) -> None:
        server_of(request, name).say(200, "application/json", '{"data": [], "models": [], "has_more": false}')
        assert chosen_speaker().trouble() is None

    @pytest.mark.usefixtures("sdks")
    def test_the_key_is_refused(self, request: pytest.FixtureRequest, name: str) -> None:
        server_of(request, name).fail(401, "so it is")
        trouble = chosen_speaker().trouble()
        assert trouble is not None
        assert all(word in trouble for word in ["refused the key (401)", f"Check {SERVERS[name][1]}", "so it is"])

    @pytest.mark.usefixtures("sdks")
    def test_the_key_is_missing(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        model, key, address = SERVERS[name]
        whose = {"anthropic_server": "anthropic:", "gemini_server": "gemini:"}.get(name, "")
        monkeypatch.setenv("CHATMEMORY_DEMO_MODEL", f"{whose}{model}")
        monkeypatch.setenv(key, "")
        monkeypatch.delenv(address, raising=False)
        assert f"needs a key. Set {key}." in str(chosen_speaker().trouble())

    def test_the_package_is_missing(
        self, request: pytest.FixtureRequest, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server_of(request, name)
        package = {"anthropic_server": "anthropic", "gemini_server": "google.genai"}.get(name, "openai")
        monkeypatch.setitem(sys.modules, package, None)
        assert "Install it: pip install" in str(chosen_speaker().trouble())


def test_the_bot_has_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHATMEMORY_DEMO_MODEL", raising=False)
    assert chosen_speaker().trouble() is None
