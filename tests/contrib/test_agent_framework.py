"""Agent Framework's history as conversations, judged by its own providers."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    CompactionProvider,
    Content,
    ContextProvider,
    FileHistoryProvider,
    HistoryProvider,
    InMemoryHistoryProvider,
    Message,
    SlidingWindowStrategy,
    tool,
)
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.test import override_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    AudioContent,
    CustomMessage,
    ImageContent,
    PdfFileContent,
    SystemMessage,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.contrib.agent_framework import DjangoHistoryProvider
from chatmemory.contrib.agent_framework.messages import from_chat_message
from chatmemory.models import Conversation
from tests.database.test_async import run
from tests.support.agent_framework_client import ScriptedClient
from tests.support.factories import UserFactory
from tests.support.strategies import json_values, texts

pytestmark = pytest.mark.django_db(transaction=True)

ID = "s"


def provider(owner: Any = None, **more: Any) -> DjangoHistoryProvider:
    return DjangoHistoryProvider(owner, **({"window": "messages", "limit": 1000} | more))


def save(*messages: Message, owner: Any = None, **more: Any) -> None:
    run(provider(owner, **more).save_messages(ID, messages))


def get(owner: Any = None, **more: Any) -> list[Message]:
    found: list[Message] = run(provider(owner, **more).get_messages(ID))
    return found


def plain(messages: list[Message]) -> list[Any]:
    return [message.to_dict() for message in messages]


def texts_of(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def stored() -> list[Any]:
    return Conversation.objects.get().memory.messages()


def call(call_id: str, name: str = "weather", arguments: Any = '{"city": "Jena"}', **more: Any) -> Content:
    return Content.from_function_call(call_id, name, arguments=arguments, **more)


def result(call_id: str, said: Any = "rain", **more: Any) -> Content:
    return Content.from_function_result(call_id, result=said, **more)


def request(id: str = "a", name: str = "weather", arguments: str = '{"city": "Jena"}') -> ToolExecutionRequest:
    return ToolExecutionRequest(id, name, arguments)


PNG = "data:image/png;base64,iVBORw0KGgo="
ASKED = Content.from_function_approval_request("f", call("a", "send", "{}", id="f"))
APPROVED = ASKED.to_function_approval_response(True)
REJECTED = ASKED.to_function_approval_response(False)
DONE = Content.from_mcp_server_tool_result("m", output=[Content.from_text("1")])

# What Agent Framework and its clients make, and what it says.
SAID: dict[str, tuple[Message, list[Any]]] = {
    "text": (Message("user", ["Hi"]), [UserMessage("Hi")]),
    "name": (Message("user", ["Hi"], author_name="Ann"), [UserMessage("Hi", name="Ann")]),
    "nothing": (Message("user"), [UserMessage("")]),
    "no answer": (Message("assistant"), [AiMessage()]),
    "system": (Message("system", ["Be", "brief."]), [SystemMessage("Be\nbrief.")]),
    "blank system": (
        Message("system", [" "]),
        [CustomMessage({"framework": "agent-framework", "type": "system", "text": " "})],
    ),
    "another role": (
        Message("critic", ["No."]),
        [CustomMessage({"framework": "agent-framework", "type": "critic", "text": "No."})],
    ),
    "a tool without a result": (
        Message("tool", ["?"]),
        [CustomMessage({"framework": "agent-framework", "type": "tool", "text": "?"})],
    ),
    "media": (
        Message(
            "user",
            [
                Content.from_uri(PNG, media_type="image/png"),
                Content.from_uri("https://x/a.jpg", media_type="image/jpeg"),
                Content.from_data(b"RIFF", media_type="audio/wav"),
                Content.from_uri("https://x/a.pdf", media_type="application/pdf"),
                Content.from_uri("https://x/a.zip", media_type="application/zip"),
                Content.from_hosted_file("file-1"),
            ],
        ),
        [
            UserMessage(
                [
                    ImageContent(base64_data="iVBORw0KGgo=", mime_type="image/png", detail_level="AUTO"),
                    ImageContent("https://x/a.jpg", mime_type="image/jpeg", detail_level="AUTO"),
                    AudioContent(base64_data="UklGRg==", mime_type="audio/wav"),
                    PdfFileContent("https://x/a.pdf"),
                    TextContent("[uri]"),
                    TextContent("[hosted_file]"),
                ]
            )
        ],
    ),
    "answer": (
        Message(
            "assistant",
            [Content.from_text_reasoning(text="Hm.", protected_data="sig"), "It", "rains.", call("a"), call("b")],
            author_name="Support",
            message_id="m1",
            additional_properties={"run": {"n": 1}},
        ),
        [AiMessage("It\nrains.", [request("a"), request("b")], thinking="Hm.")],
    ),
    "arguments": (
        Message("assistant", [call("a", arguments={"city": "Jena"}), call("b", arguments=None)]),
        [AiMessage(None, [request("a", arguments='{"city":"Jena"}'), ToolExecutionRequest("b", "weather")])],
    ),
    "an image": (
        Message("assistant", ["See:", Content.from_uri(PNG, media_type="image/png")]),
        [AiMessage("See:\n[image]")],
    ),
    "at the provider": (
        Message("assistant", [Content.from_mcp_server_tool_call("m", "roll", server_name="dice"), DONE, "1"]),
        [AiMessage("1")],
    ),
    "a shell": (
        Message("assistant", [Content("shell_tool_call", call_id="s", commands=["ls"])]),
        [AiMessage(None, [ToolExecutionRequest("s", "shell_tool", '{"commands":["ls"]}')])],
    ),
    "an approval is asked for": (
        Message("assistant", [call("a", "send", "{}", id="f"), ASKED]),
        [AiMessage(None, [request("a", "send", "{}")])],
    ),
    "only an approval is asked for": (
        Message("assistant", [ASKED]),
        [AiMessage(None, [request("a", "send", "{}")])],
    ),
    "approved": (Message("user", [APPROVED]), [UserMessage("[approved: send]")]),
    "rejected": (
        Message("user", [REJECTED, "No!"]),
        [UserMessage([TextContent("[rejected: send]"), TextContent("No!")])],
    ),
    "result": (Message("tool", [result("a")]), [ToolExecutionResultMessage("a", None, "rain")]),
    "failure": (
        Message("tool", [result("a", "Error", exception="boom")]),
        [ToolExecutionResultMessage("a", None, "Error", is_error=True)],
    ),
    "results": (
        Message("tool", ["So:", result("a"), "and", result("b", [Content.from_uri(PNG, media_type="image/png")])]),
        [
            ToolExecutionResultMessage("a", None, "rain"),
            ToolExecutionResultMessage(
                "b",
                None,
                contents=[ImageContent(base64_data="iVBORw0KGgo=", mime_type="image/png", detail_level="AUTO")],
            ),
        ],
    ),
    "result as JSON": (
        Message("tool", [Content("function_result", call_id="a", result={"rain": True})]),
        [ToolExecutionResultMessage("a", None, '{"rain": true}')],
    ),
    "a screenshot": (
        Message("tool", [Content("computer_tool_result", call_id="a", screenshot=Content.from_uri(PNG))]),
        [
            ToolExecutionResultMessage(
                "a",
                None,
                contents=[ImageContent(base64_data="iVBORw0KGgo=", mime_type="image/png", detail_level="AUTO")],
            )
        ],
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_what_a_message_says(name: str) -> None:
    message, expected = SAID[name]
    save(message)
    assert stored() == expected
    assert plain(get()) == plain([message])


def test_a_form_is_kept_only_where_the_message_is_not_enough() -> None:
    alike = [
        Message("system", ["Be brief."]),
        Message("user", ["Hi", Content.from_uri(PNG, media_type="image/png")], author_name="Ann"),
        Message("assistant", ["Well", call("a")]),
        Message("tool", [result("a")]),
    ]
    save(*alike, Message("assistant", ["Rain."], message_id="m"))
    rows = Conversation.objects.get().messages.history()
    assert [row.native is None for row in rows] == [True, True, True, True, False]


def test_results_that_were_added_apart_stay_apart() -> None:
    told = [Message("tool", [result("a"), result("b")]), Message("tool", [result("c"), result("d")])]
    save(told[0])
    save(told[1])
    assert plain(get()) == plain(told)


def test_calls_give_their_results_names() -> None:
    save(Message("assistant", [call("a"), call("b", "time")]), Message("tool", [result("a"), result("b")]))
    assert [message.tool_name for message in stored()[1:]] == ["weather", "time"]


def test_what_messages_here_say_to_agent_framework() -> None:
    said = [
        UserMessage([TextContent("Look:"), ImageContent("relative.png"), AudioContent(), ImageContent("https://x/a")]),
        AiMessage("Well", [request("a")], thinking="Hm."),
        ToolExecutionResultMessage("a", "weather", "boom", is_error=True),
        CustomMessage({"a": 1}),
    ]
    user, answer, failure, custom = map(from_chat_message, said)
    assert [content.text for content in user.contents[:3]] == ["Look:", "[image]", "[audio]"]
    assert (user.contents[3].uri, user.contents[3].media_type) == ("https://x/a", "image/png")
    assert [content.type for content in answer.contents] == ["text", "function_call"]
    assert (failure.contents[0].result, failure.contents[0].exception is None) == ("boom", False)
    assert (custom.role, custom.text) == ("user", '{"a":1}')


@pytest.mark.parametrize("given", ["Hi", {"role": "user"}, None])
def test_only_its_messages_are_taken(given: Any) -> None:
    with pytest.raises(TypeError, match="expected a message of Agent Framework's, but is: "):
        save(given)
    assert not Conversation.objects.exists()


def test_what_has_no_json_form_changes_nothing() -> None:
    with pytest.raises(ValueError, match="role 'user' cannot be kept as JSON"):
        save(Message("user", ["Hi"]), Message("user", additional_properties={"n": float("nan")}))
    assert not Conversation.objects.exists()


def test_nothing_makes_no_conversation() -> None:
    save()
    assert get() == []
    assert not Conversation.objects.exists()


_contents = st.one_of(
    st.builds(Content.from_text, texts(max_size=3)),
    st.builds(
        Content.from_text_reasoning,
        id=st.sampled_from([None, "rs_1"]),
        text=st.sampled_from([None, "", "Hm."]),
        protected_data=st.sampled_from([None, "sig"]),
    ),
    st.builds(
        call,
        st.sampled_from("ab"),
        arguments=st.sampled_from([None, "{", "{}"]) | st.dictionaries(texts(), json_values()),
    ),
    st.builds(result, st.sampled_from("ab"), json_values(), exception=st.sampled_from([None, "boom"])),
    st.sampled_from([ASKED, APPROVED, REJECTED, DONE, Content.from_uri(PNG), Content.from_hosted_file("file-1")]),
    st.builds(Content.from_error, message=texts(max_size=3)),
)
_messages = st.builds(
    Message,
    # The provider keeps one system message, so that it is another judge's.
    st.sampled_from(["user", "assistant", "tool", "critic"]),
    st.lists(_contents, max_size=4),
    author_name=st.sampled_from([None, "Ann"]),
    message_id=st.sampled_from([None, None, "1", "2"]),
    additional_properties=st.just({}) | st.dictionaries(texts(max_size=3), json_values(), max_size=2),
)


@pytest.mark.slow
@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_the_history_is_that_of_the_frameworks_own_provider(data: st.DataObject) -> None:
    """New messages, messages of before alone, and transcripts from some point on."""
    Conversation.objects.all().delete()
    ours, theirs = provider(limit=100_000), InMemoryHistoryProvider()
    state: dict[str, Any] = {}

    async def step(messages: list[Message]) -> tuple[list[Message], list[Message]]:
        await ours.save_messages(ID, messages)
        await theirs.save_messages(ID, messages, state=state)
        return await ours.get_messages(ID), await theirs.get_messages(ID, state=state)

    for _ in range(data.draw(st.integers(1, 4))):
        known = state.get("messages", [])
        again = known[data.draw(st.integers(0, len(known))) :] if data.draw(st.booleans()) else []
        found, expected = run(step([*again, *data.draw(st.lists(_messages, max_size=4))]))
        assert plain(found) == plain(expected)


class TestTranscripts:
    """Callers that send again what was said before."""

    TURN: ClassVar = [Message("user", ["Hi"]), Message("assistant", ["Hello"], message_id="1")]

    def test_they_add_only_what_is_new(self) -> None:
        save(*self.TURN)
        save(*self.TURN, Message("user", ["And?"]))
        save(*self.TURN[1:], Message("user", ["And?"]), Message("assistant", ["Well"]))
        assert texts_of(get()) == ["Hi", "Hello", "And?", "Well"]

    @pytest.mark.parametrize("keep", [True, False])
    def test_what_was_evicted_is_known_while_it_is_kept(self, keep: bool) -> None:
        told = [Message("user" if number % 2 == 0 else "assistant", [str(number)]) for number in range(10)]
        with override_settings(CHATMEMORY={"KEEP_HISTORY": keep}):
            for end in range(2, 11, 2):
                save(*told[:end], limit=4)
            assert texts_of(get()) == ["6", "7", "8", "9"]
            assert Conversation.objects.get().message_count == 10

    def test_a_system_message_before_them_is_no_difference(self) -> None:
        told = [Message("system", ["Be brief."]), *self.TURN, Message("user", ["And?"])]
        save(*told[:3], limit=3)
        save(*told, limit=3)
        save(*told, Message("assistant", ["Well"]), limit=3)
        assert texts_of(get()) == ["Be brief.", "And?", "Well"]
        assert Conversation.objects.get().message_count == 5

    def test_nor_is_one_that_was_said_in_between(self) -> None:
        save(*self.TURN, Message("system", ["Be brief."]), Message("user", ["And?"]))
        save(*self.TURN, Message("user", ["And?"]), Message("assistant", ["Well"]))
        assert texts_of(get()) == ["Hi", "Hello", "Be brief.", "And?", "Well"]

    def test_results_of_several_calls_are_one_message_of_them(self) -> None:
        told = [
            Message("assistant", [call("a"), call("b"), call("c")]),
            Message("tool", [result("a"), result("b"), result("c")]),
            Message("assistant", ["Rain."]),
        ]
        save(*told)
        save(*told, Message("user", ["Thanks."]))
        assert plain(get()) == plain([*told, Message("user", ["Thanks."])])
        rest = [Message("tool", [result("c")]), *told[2:], Message("user", ["Thanks."])]
        save(*rest)
        assert plain(get()[4:]) == plain(rest), "only a part of a message was said before"

    def test_after_the_memory_was_cleared_they_are_new(self) -> None:
        save(*self.TURN)
        Conversation.objects.get().memory.clear()
        save(*self.TURN)
        assert texts_of(get()) == ["Hi", "Hello"]

    def test_of_a_conversation_that_went_back_only_the_current_branch_is_known(self) -> None:
        other = [Message("user", ["And?"]), Message("assistant", ["Well"])]
        save(*self.TURN, limit=2)
        save(*other, limit=2)
        Conversation.objects.get().rewind(before=2)
        assert texts_of(get()) == ["Hi", "Hello"]
        save(*self.TURN, Message("user", ["Why?"]), limit=2)
        assert texts_of(get()) == ["Hello", "Why?"]
        Conversation.objects.get().rewind(before=2)
        save(*self.TURN, *other, limit=2)
        assert texts_of(get()) == ["And?", "Well"]
        told = [row.text for row in Conversation.objects.get().messages.history()]
        assert told == ["Hi", "Hello", "And?", "Well", "Why?", "And?", "Well"]

    def test_a_question_that_is_asked_twice_was_asked_twice(self) -> None:
        save(Message("user", ["Hi"]))
        save(Message("user", ["Hi"]))
        assert texts_of(get()) == ["Hi", "Hi"]


class TestWindows:
    def test_results_leave_with_their_call(self) -> None:
        told = [
            Message("user", ["Weather?"]),
            Message("assistant", [call("a"), call("b")]),
            Message("tool", [result("a"), result("b")]),
            Message("assistant", ["Rain."]),
        ]
        save(*told, limit=5)
        assert plain(get()) == plain(told)
        save(Message("user", ["Thanks."]), limit=5)
        assert plain(get()) == plain([*told[1:], Message("user", ["Thanks."])])
        save(Message("assistant", ["Gladly."]), limit=5)
        assert texts_of(get()) == ["Rain.", "Thanks.", "Gladly."]

    def test_a_decision_leaves_with_its_call(self) -> None:
        """Without its result, it would be carried out again."""
        asked = [Message("assistant", [call("a", "send", "{}", id="f"), ASKED])]
        save(*asked, Message("user", [APPROVED, "Go!"]), Message("tool", [result("a", "sent", id="f")]), limit=3)
        assert len(get()) == 3
        save(Message("assistant", ["Done."]), limit=3)
        assert texts_of(get()) == ["Go!", "Done."]
        assert [content.type for message in get() for content in message.contents] == ["text", "text"]
        save(Message("user", [APPROVED]), limit=3)
        assert texts_of(get()) == ["Done."]

    def test_a_decision_about_a_call_of_elsewhere_stays_while_nothing_is_evicted(self) -> None:
        save(Message("user", [APPROVED]))
        assert plain(get()) == plain([Message("user", [APPROVED])])


class TestOwners:
    def test_a_session_is_its_owners(self) -> None:
        ann, bob = UserFactory(), UserFactory()
        save(Message("user", ["I am Ann."]), owner=ann)
        save(Message("user", ["I am Bob."]), owner=bob)
        assert texts_of(get(ann)) == ["I am Ann."]
        assert texts_of(get(bob)) == ["I am Bob."]
        assert get() == []

    def test_an_anonymous_user_is_refused(self) -> None:
        with pytest.raises(ValueError, match="owner must be a saved user"):
            provider(AnonymousUser())


SENT: list[str] = []


@pytest.fixture(autouse=True)
def no_mail_was_sent() -> None:
    SENT.clear()


def weather(city: str) -> str:
    """Return the weather."""
    return f"Rain in {city}."


@tool(approval_mode="always_require")
def send(to: str) -> str:
    """Send a mail."""
    SENT.append(to)
    return "sent"


class Notes(ContextProvider):
    """Adds a message to each run."""

    async def before_run(self, *, context: Any, **kwargs: Any) -> None:
        context.extend_messages(self, [Message("user", ["A note."])])


def turns(history: HistoryProvider, *, stream: bool, **more: Any) -> tuple[ScriptedClient, list[Message]]:
    """Two turns with tools, one of which a user approves; return what the client was sent, and the history."""
    client = ScriptedClient(
        Message("assistant", [call("a"), call("b", arguments={"city": "Gera"})], message_id="m1"),
        Message("assistant", ["Rain, and ", "rain."], message_id="m2"),
        Message("assistant", [call("c", "send", '{"to": "Bob"}')], message_id="m3"),
        Message("assistant", ["Done."], message_id="m4"),
        Message("assistant", ["Gladly."], message_id="m5"),
    )
    agent = Agent(client, "Be brief.", name="Support", tools=[weather, send], context_providers=[history], **more)
    session = agent.create_session(session_id=ID)

    async def ask(question: Any) -> Any:
        if not stream:
            return await agent.run(question, session=session)
        streamed = agent.run(question, session=session, stream=True)
        async for _ in streamed:
            pass
        return await streamed.get_final_response()

    async def talk() -> list[Message]:
        await ask("Weather?")
        (asked,) = (await ask("Tell Bob.")).user_input_requests
        await ask(Message("user", [asked.to_function_approval_response(True)]))
        await ask("Thanks.")
        return await history.get_messages(ID, state=session.state.get(history.source_id, {}))

    return client, run(talk())


def _without_ids(messages: list[Message]) -> Any:
    """As JSON, without the names of providers and the random IDs of calls."""
    data = json.loads(json.dumps([plain(messages)]))

    def strip(value: Any) -> Any:
        if isinstance(value, list):
            return [strip(item) for item in value]
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items() if key not in ("id", "_attribution")}
        return value

    return strip(data)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("each_call", [False, True])
@pytest.mark.filterwarnings("ignore:.*experimental")
def test_an_agent_remembers_as_with_the_frameworks_own_provider(stream: bool, each_call: bool, tmp_path: Path) -> None:
    """The provider in memory would change what it stored after a call, when the agent completes the answer."""
    more = {"require_per_service_call_history_persistence": each_call}
    judge = FileHistoryProvider(tmp_path) if each_call else InMemoryHistoryProvider()
    ours, theirs = (turns(history, stream=stream, **more) for history in (provider(), judge))
    for sent, expected in zip(ours[0].got, theirs[0].got, strict=True):
        assert _without_ids(sent) == _without_ids(expected)
    assert _without_ids(ours[1]) == _without_ids(theirs[1])
    assert SENT == ["Bob"] * 2
    assert [type(message) for message in stored()].count(ToolExecutionResultMessage) == 3


@pytest.mark.slow
def test_a_tool_that_was_approved_runs_once_in_any_window() -> None:
    for limit in range(2, 12):
        Conversation.objects.all().delete()
        SENT.clear()
        client, _ = turns(provider(limit=limit), stream=False)
        assert (SENT, client.answers) == (["Bob"], []), limit


class TestFlags:
    """What of a run is stored, as by the framework's own provider."""

    def _run(self, **flags: Any) -> tuple[list[str], list[list[str]]]:
        results = []
        for history in (provider(**flags), InMemoryHistoryProvider(**flags)):
            Conversation.objects.all().delete()
            client = ScriptedClient(Message("assistant", ["Hello"]), Message("assistant", ["Bye"]))
            agent = Agent(client, context_providers=[history, Notes("notes")])
            session = AgentSession(session_id=ID)

            async def talk(agent: Any = agent, session: Any = session, history: Any = history) -> list[Message]:
                await agent.run("Hi", session=session)
                await agent.run("Well", session=session)
                found: list[Message] = await history.get_messages(ID, state=session.state.get(history.source_id))
                return found

            found = texts_of(run(talk()))
            results.append((found, [texts_of(sent) for sent in client.got]))
        ours, theirs = results
        assert ours == theirs
        return ours

    def test_all(self) -> None:
        assert self._run()[0] == ["Hi", "Hello", "Well", "Bye"]

    def test_no_inputs(self) -> None:
        assert self._run(store_inputs=False)[0] == ["Hello", "Bye"]

    def test_no_outputs(self) -> None:
        assert self._run(store_outputs=False)[0] == ["Hi", "Well"]

    def test_context(self) -> None:
        found, sent = self._run(store_context_messages=True)
        assert found == ["A note.", "Hi", "Hello", "A note.", "Well", "Bye"]
        assert sent[1] == ["A note.", "Hi", "Hello", "A note.", "Well"]

    def test_context_of_some(self) -> None:
        assert self._run(store_context_messages=True, store_context_from={"others"})[0][0] == "Hi"

    def test_only_stored(self) -> None:
        assert self._run(load_messages=False)[0] == ["Hi", "Hello", "Well", "Bye"]


def test_the_frameworks_compaction_works_on_the_memory() -> None:
    client = ScriptedClient(*(Message("assistant", [str(number)]) for number in range(3)))
    compaction = CompactionProvider(before_strategy=SlidingWindowStrategy(keep_last_groups=1))
    agent = Agent(client, context_providers=[provider(), compaction])

    async def talk() -> None:
        for question in "abc":
            await agent.run(question, session=AgentSession(session_id=ID))

    run(talk())
    assert len(client.got[2]) < 5
    assert texts_of(get()) == ["a", "0", "b", "1", "c", "2"]


def test_a_session_is_kept_without_its_messages() -> None:
    history = provider()
    agent = Agent(
        ScriptedClient(Message("assistant", ["Hello"]), Message("assistant", ["Bye"])), context_providers=[history]
    )

    async def talk() -> Any:
        session = agent.create_session(session_id=ID)
        await agent.run("Hi", session=session)
        data = json.loads(json.dumps(session.to_dict()))
        await agent.run("Well", session=AgentSession.from_dict(data))
        return data

    assert "Hello" not in json.dumps(run(talk()))
    assert texts_of(get()) == ["Hi", "Hello", "Well", "Bye"]


WRITER = """
import asyncio, sys
import django

django.setup()
from agent_framework import Message
from chatmemory.contrib.agent_framework import DjangoHistoryProvider

async def write(name):
    for number in range(20):
        told = [Message("user", [f"{name} {number}"]), Message("assistant", [f"{name} {number}!"])]
        await DjangoHistoryProvider(window="messages", limit=5).save_messages("s", told)

asyncio.run(write(sys.argv[1]))
"""


@pytest.mark.slow
def test_processes_lose_nothing() -> None:
    """They even race to make the conversation."""
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.settings.base",
        "CHATMEMORY_TEST_NAME": str(connection.settings_dict["NAME"]),
    }
    processes = [subprocess.Popen([sys.executable, "-c", WRITER, name], env=environment) for name in "abc"]
    assert [process.wait(timeout=300) for process in processes] == [0, 0, 0]
    told = [row.text for row in Conversation.objects.get().messages.history()]
    for name in "abc":
        assert [text for text in told if text[0] == name] == [
            f"{name} {n}{end}" for n in range(20) for end in ("", "!")
        ]
    assert told[1::2] == [f"{question}!" for question in told[::2]]


def test_transcripts_that_are_sent_at_once_are_added_once() -> None:
    told = [Message("user", ["Hi"]), Message("assistant", ["Hello"])]

    async def send() -> None:
        await asyncio.gather(*(provider().save_messages(ID, told) for _ in range(8)))

    run(send())
    assert texts_of(get()) == ["Hi", "Hello"]


def test_runs_at_once_lose_nothing() -> None:
    async def talk() -> None:
        await asyncio.gather(
            *(
                provider(limit=1000).save_messages(ID, [Message("user", [f"{task} {n}"]) for n in range(2)])
                for task in range(10)
            )
        )

    run(talk())
    assert sorted(texts_of(get())) == sorted(f"{task} {n}" for task in range(10) for n in range(2))
