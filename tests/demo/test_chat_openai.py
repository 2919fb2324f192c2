"""The demo's chat with a model behind OpenAI's protocol."""

# ruff: noqa: F811 - fixtures that are imported

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest
from django.test import Client

from chatmemory import AiMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.models import Conversation
from demo_project.chat.speakers import EmbeddedBot, chosen_speaker
from tests.support.demo_chat import conversation, demo_chat, events_of, history, kinds, types  # noqa: F401
from tests.support.openai_server import ModelServer, calls, model_server, says  # noqa: F401


class TestChoice:
    def test_a_key_alone_costs_nobody_money(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        assert isinstance(chosen_speaker(), EmbeddedBot)

    def test_without_the_package(
        self,
        api: Client,
        conversation: Conversation,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("CHATMEMORY_DEMO_MODEL", "tiny")
        monkeypatch.setitem(sys.modules, "openai", None)
        [_said, error] = events_of(api, conversation, "Hello")
        assert error["event"] == "error"
        assert "The package openai is missing. Install it: pip install openai" in error["detail"]


class TestOpenAi:
    """The page says what failed, and what to do."""

    @pytest.fixture(autouse=True)
    def _asked(self, conversation: Conversation) -> Iterator[None]:
        """Somebody waits for an answer, and whatever fails, what they said stays as it is."""
        conversation.memory.add(UserMessage("Where are orders 1001 and 1002?"))
        said = history(conversation)
        yield
        assert history(conversation)[: len(said)] == said

    @pytest.fixture
    def failure(self, api: Client, conversation: Conversation) -> Callable[[], str]:
        """Takes a turn that fails, and returns what the page is told."""

        def take() -> str:
            error = events_of(api, conversation)[-1]
            assert error["event"] == "error"
            return str(error["detail"])

        return take

    @pytest.mark.slow
    @pytest.mark.usefixtures("sdks")
    def test_it_streams(self, api: Client, conversation: Conversation, model_server: ModelServer) -> None:
        model_server.stream(says("Hel", "lo", "!"))
        events = events_of(api, conversation)
        assert [event["text"] for event in events if event["event"] == "delta"] == ["Hel", "lo", "!"]
        assert history(conversation)[-1] == AiMessage("Hello!")
        [request] = model_server.requests
        assert (request["path"], request["key"]) == ("/v1/chat/completions", "Bearer secret")
        assert (request["model"], request["stream"]) == ("tiny", True)
        assert [tool["function"]["name"] for tool in request["tools"]] == ["look_up_order"]
        assert request["messages"] == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Where are orders 1001 and 1002?"},
        ]

    @pytest.mark.usefixtures("sdks")
    def test_it_calls_tools_in_parallel(
        self,
        api: Client,
        conversation: Conversation,
        model_server: ModelServer,
    ) -> None:
        model_server.stream(
            calls(("a", "look_up_order", '{"number": "1001"}'), ("b", "look_up_order", '{"number": 1002}'))
        )
        model_server.stream(says("12, and it is being packed."))
        assert kinds(events_of(api, conversation)) == ["change", "change", "delta", "change", "done"]
        sent = model_server.requests[1]["messages"][2:]
        assert [(call["id"], call["function"]["arguments"]) for call in sent[0]["tool_calls"]] == [
            ("a", '{"number": "1001"}'),
            ("b", '{"number": 1002}'),
        ]
        assert [(message["role"], message["tool_call_id"], message["content"]) for message in sent[1:]] == [
            ("tool", "a", "Order 1001: a blue teapot, on its way, arrives on Friday."),
            ("tool", "b", "Order 1002: two mugs, being packed, leave tomorrow."),
        ]

    @pytest.mark.usefixtures("sdks")
    @pytest.mark.parametrize(
        ("status", "message", "words"),
        [
            (500, "boom", ["tiny at 127.0.0.1", "(500)", "boom"]),
            (401, "bad key", ["refused the key (401)", "OPENAI_API_KEY", "bad key"]),
            (404, "no such model", ["CHATMEMORY_DEMO_MODEL", "no such model"]),
            (429, "slow down", ["(429)", "slow down"]),
        ],
    )
    def test_errors_say_what_to_do_and_can_be_tried_again(
        self,
        api: Client,
        conversation: Conversation,
        model_server: ModelServer,
        failure: Callable[[], str],
        status: int,
        message: str,
        words: list[str],
    ) -> None:
        model_server.fail(status, message)
        model_server.stream(says("Hello"))
        said = failure()
        assert all(word in said for word in words)
        assert types(conversation) == ["SYSTEM", "USER"]
        assert kinds(events_of(api, conversation)) == ["delta", "change", "done"]
        assert types(conversation) == ["SYSTEM", "USER", "AI"]

    @pytest.mark.usefixtures("sdks")
    def test_a_connection_that_breaks_in_the_middle(
        self, api: Client, conversation: Conversation, model_server: ModelServer, failure: Callable[[], str]
    ) -> None:
        model_server.break_off(says("Hel", finish=None))
        model_server.stream(says("Hello"))
        assert "broke off" in failure()
        assert types(conversation) == ["SYSTEM", "USER"]
        events_of(api, conversation)
        assert types(conversation) == ["SYSTEM", "USER", "AI"]

    @pytest.mark.usefixtures("sdks")
    def test_an_error_in_the_middle(
        self, conversation: Conversation, model_server: ModelServer, failure: Callable[[], str]
    ) -> None:
        model_server.stream([*says("Hel", finish=None), {"error": {"message": "out of memory"}}])
        assert "out of memory" in failure()
        assert types(conversation) == ["SYSTEM", "USER"]

    @pytest.mark.usefixtures("sdks")
    def test_an_answer_that_just_ends(
        self, conversation: Conversation, model_server: ModelServer, failure: Callable[[], str]
    ) -> None:
        model_server.stream(says("Hel", finish=None))
        assert "broke off" in failure()
        assert types(conversation) == ["SYSTEM", "USER"]

    @pytest.mark.usefixtures("sdks")
    @pytest.mark.parametrize(
        ("content_type", "text"),
        [
            ("text/html", "<!doctype html>\n<title>It works</title>\n"),
            ("application/json", '{"choices": [{"message": {"content": "Hi"}}]}'),
        ],
    )
    def test_what_is_no_stream(
        self,
        api: Client,
        conversation: Conversation,
        model_server: ModelServer,
        failure: Callable[[], str],
        content_type: str,
        text: str,
    ) -> None:
        model_server.say(200, content_type, text)
        assert "did not answer as a stream of chat completions. Check OPENAI_BASE_URL" in failure()

    @pytest.mark.usefixtures("sdks")
    @pytest.mark.parametrize(("reason", "why"), [("length", "limit was reached"), ("content_filter", "filter")])
    def test_an_answer_that_is_cut_off_is_kept_and_marked(
        self, api: Client, conversation: Conversation, model_server: ModelServer, reason: str, why: str
    ) -> None:
        model_server.stream(says("Once upon", finish=reason))
        assert kinds(events_of(api, conversation)) == ["delta", "change", "done"]
        answer = history(conversation)[-1]
        assert isinstance(answer, AiMessage)
        assert answer.text == "Once upon"
        assert why in answer.attributes["cut_off"]

    @pytest.mark.usefixtures("sdks")
    def test_calls_that_are_cut_off_are_not_run(
        self, conversation: Conversation, model_server: ModelServer, failure: Callable[[], str]
    ) -> None:
        model_server.stream([*calls(("a", "look_up_order", '{"number": "10'))[:-1], *says(finish="length")])
        assert "were cut off: the model's limit was reached" in failure()
        assert types(conversation) == ["SYSTEM", "USER"]

    @pytest.mark.usefixtures("sdks")
    def test_an_empty_answer(self, model_server: ModelServer, failure: Callable[[], str]) -> None:
        model_server.stream(says())
        assert "empty answer" in failure()

    @pytest.mark.usefixtures("sdks")
    def test_no_server(self, model_server: ModelServer, failure: Callable[[], str]) -> None:
        model_server.close()
        assert "cannot be reached" in failure()

    @pytest.mark.usefixtures("sdks")
    def test_a_failure_after_the_tools_repeats_no_tool(
        self,
        api: Client,
        conversation: Conversation,
        model_server: ModelServer,
    ) -> None:
        model_server.stream(calls(("a", "look_up_order", '{"number": "1001"}')))
        model_server.fail(500, "boom")
        assert kinds(events_of(api, conversation)) == ["change", "change", "error"]
        model_server.stream(says("12"))
        assert kinds(events_of(api, conversation)) == ["delta", "change", "done"]
        assert types(conversation) == ["SYSTEM", "USER", "AI", "TOOL_EXECUTION_RESULT", "AI"]

    @pytest.mark.usefixtures("sdks")
    def test_results_without_their_call_are_not_sent(
        self,
        api: Client,
        conversation: Conversation,
        model_server: ModelServer,
    ) -> None:
        conversation.memory.set([ToolExecutionResultMessage("gone", "look_up_order", "12"), UserMessage("And now?")])
        conversation.memory.add(UserMessage("Well?"))
        model_server.stream(says("Hello"))
        assert kinds(events_of(api, conversation)) == ["delta", "change", "done"]
        assert [message["role"] for message in model_server.requests[0]["messages"]] == ["user", "user"]

    @pytest.mark.usefixtures("sdks")
    def test_a_window_too_small_for_a_call_and_its_results(
        self,
        api: Client,
        conversation: Conversation,
        model_server: ModelServer,
    ) -> None:
        conversation.memory.set_window(limit=2)
        requests = [(id, "look_up_order", '{"number": "1001"}') for id in "ab"]
        model_server.stream(calls(*requests))
        error = events_of(api, conversation)[-1]
        assert "too small for a tool call and its results" in error["detail"]
