"""The history of LangChain's that is a conversation here, judged by LangChain's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections
from hypothesis import given
from hypothesis import strategies as st
from langchain_community.chat_message_histories import SQLChatMessageHistory
from langchain_core._api import LangChainDeprecationWarning
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
)
from langchain_core.messages import ChatMessage as RoleMessage
from langchain_core.outputs import ChatResult
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import Runnable
from langchain_core.runnables.history import RunnableWithMessageHistory

from chatmemory import (
    AiMessage,
    AudioContent,
    ChatMessage,
    CustomMessage,
    Image,
    ImageContent,
    PdfFileContent,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
    VideoContent,
)
from chatmemory import SystemMessage as System
from chatmemory.contrib.langchain import DjangoChatMessageHistory
from chatmemory.contrib.langchain.messages import form_of, from_chat_message, to_chat_message
from chatmemory.models import Conversation
from chatmemory.models import Message as Row
from tests.support.factories import UserFactory
from tests.support.kept_names import LOCATING
from tests.support.strategies import messages

DATA = "iVBORw0KGgo="
CALL: Any = {"name": "weather", "args": {"city": "Bern", "day": 1}, "id": "call_1", "type": "tool_call"}

# What LangChain and its providers make, and what it says.
SAID: dict[str, tuple[BaseMessage, ChatMessage]] = {
    "human": (HumanMessage("Grüezi 🎉"), UserMessage("Grüezi 🎉")),
    "human, named": (HumanMessage("Hi", name="ann", id="h1"), UserMessage("Hi", name="ann")),
    "human, nothing": (HumanMessage([]), UserMessage("")),
    "human, OpenAI's blocks": (
        HumanMessage(
            [
                "Look",
                {"type": "text", "text": "at"},
                {"type": "image_url", "image_url": {"url": "https://x.example/a.png", "detail": "high"}},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
                {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}},
                {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{DATA}", "filename": "a.pdf"}},
                {"type": "file", "file": {"file_id": "file-1"}},
            ]
        ),
        UserMessage(
            contents=[
                TextContent("Look"),
                TextContent("at"),
                ImageContent("https://x.example/a.png", detail_level="HIGH"),
                ImageContent(base64_data=DATA, mime_type="image/png", detail_level="AUTO"),
                AudioContent(base64_data=DATA, mime_type="audio/wav"),
                PdfFileContent(base64_data=DATA),
                TextContent("[file]"),
            ]
        ),
    ),
    "human, Anthropic's blocks": (
        HumanMessage(
            [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": DATA}},
                {"type": "search_result", "source": "x"},
            ]
        ),
        UserMessage(
            contents=[
                ImageContent(base64_data=DATA, mime_type="image/png", detail_level="AUTO"),
                PdfFileContent(base64_data=DATA),
                TextContent("[search_result]"),
            ]
        ),
    ),
    "human, LangChain's blocks": (
        HumanMessage(
            content_blocks=[
                {"type": "text-plain", "text": "plain", "mime_type": "text/plain"},
                {"type": "image", "base64": DATA},
                {"type": "video", "url": "https://x.example/a.mp4"},
                {"type": "file", "base64": DATA, "mime_type": "text/csv"},
                {"type": "image", "url": "no URL at all"},
            ]
        ),
        UserMessage(
            contents=[
                TextContent("plain"),
                ImageContent(image=Image(base64_data=DATA), detail_level="AUTO"),
                VideoContent("https://x.example/a.mp4"),
                TextContent("[file]"),
                TextContent("[image]"),
            ]
        ),
    ),
    "human, blocks that are none": (
        HumanMessage([{"type": ["x"]}, {"type": "image", "url": 1, "extras": "x"}]),
        UserMessage(contents=[TextContent("[['x']]"), TextContent("[image]")]),
    ),
    "system": (SystemMessage("Be brief"), System("Be brief")),
    "system, several": (SystemMessage([{"type": "text", "text": "a"}, "b"]), System("a\nb")),
    "system, blank": (
        SystemMessage(" "),
        CustomMessage({"framework": "langchain", "type": "system", "text": " "}),
    ),
    "ai": (AIMessage("Hello"), AiMessage("Hello")),
    "ai, nothing": (AIMessage(""), AiMessage("")),
    "ai, metadata": (
        AIMessage(
            "Hello",
            id="run-1",
            name="bot",
            usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
            response_metadata={"model_name": "gpt", "logprobs": None, "finish_reason": "stop"},
        ),
        AiMessage("Hello"),
    ),
    "ai, calls": (
        AIMessage("", tool_calls=[CALL, {**CALL, "id": "call_2"}]),
        AiMessage(
            None,
            [
                ToolExecutionRequest("call_1", "weather", '{"city":"Bern","day":1}'),
                ToolExecutionRequest("call_2", "weather", '{"city":"Bern","day":1}'),
            ],
        ),
    ),
    "ai, a call that is broken": (
        AIMessage(
            "Wait",
            invalid_tool_calls=[{"name": "f", "args": '{"a', "id": "1", "error": "eof", "type": "invalid_tool_call"}],
        ),
        AiMessage("Wait", [ToolExecutionRequest("1", "f", '{"a')]),
    ),
    "ai, a function's call": (
        AIMessage("", additional_kwargs={"function_call": {"name": "f", "arguments": "{}"}}),
        AiMessage(None, [ToolExecutionRequest(None, "f", "{}")]),
    ),
    "ai, refused": (AIMessage("", additional_kwargs={"refusal": "I cannot"}), AiMessage("I cannot")),
    "ai, Anthropic's blocks": (
        AIMessage(
            [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "redacted_thinking", "data": "d"},
                {"type": "text", "text": "Let me "},
                {"type": "text", "text": "look"},
                {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Bern", "day": 1}},
            ],
            tool_calls=[CALL],
            response_metadata={"model_provider": "anthropic"},
        ),
        AiMessage(
            "Let me look",
            [ToolExecutionRequest("call_1", "weather", '{"city":"Bern","day":1}')],
            thinking="hm",
            attributes={"thinking_signature": "sig"},
        ),
    ),
    "ai, thinking of nobody's": (
        AIMessage([{"type": "thinking", "thinking": "hm", "signature": "sig"}, "Hi"]),
        AiMessage("Hi", thinking="hm", attributes={"thinking_signature": "sig"}),
    ),
    "ai, reasoning": (
        AIMessage("Hi", additional_kwargs={"reasoning_content": "hm"}),
        AiMessage("Hi", thinking="hm"),
    ),
    "ai, OpenAI's reasoning": (
        AIMessage(
            [
                {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
                {"type": "text", "text": "Hi", "annotations": []},
            ],
            response_metadata={"model_provider": "openai"},
        ),
        AiMessage("Hi", thinking="hm"),
    ),
    "ai, a picture": (
        AIMessage([{"type": "image", "base64": DATA, "mime_type": "image/png"}, {"type": "text", "text": " here"}]),
        AiMessage("[image] here"),
    ),
    "ai, a chunk": (AIMessageChunk("Hel", id="run-1"), AiMessage("Hel")),
    "tool": (
        ToolMessage("sunny", tool_call_id="call_1", name="weather"),
        ToolExecutionResultMessage("call_1", "weather", "sunny"),
    ),
    "tool, failed, with artifact": (
        ToolMessage("no", tool_call_id="c", status="error", artifact={"rows": [1, None, {"é": 2.5}]}, id="t"),
        ToolExecutionResultMessage("c", None, "no", is_error=True),
    ),
    "tool, a picture": (
        ToolMessage([{"type": "image", "url": "https://x.example/a.png"}], tool_call_id="c"),
        ToolExecutionResultMessage("c", None, contents=[ImageContent("https://x.example/a.png", detail_level="AUTO")]),
    ),
    "function": (FunctionMessage("4", name="add"), ToolExecutionResultMessage(None, "add", "4")),
    "role, user": (RoleMessage("Hi", role="user"), UserMessage("Hi")),
    "role, assistant": (RoleMessage("Hi", role="assistant"), AiMessage("Hi")),
    "role, developer": (RoleMessage("Hi", role="developer"), System("Hi")),
    "role, another": (
        RoleMessage("Hm", role="critic"),
        CustomMessage({"framework": "langchain", "type": "chat", "role": "critic", "text": "Hm"}),
    ),
    "remove": (
        RemoveMessage("h1"),
        CustomMessage({"framework": "langchain", "type": "remove", "text": ""}),
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_what_a_message_says(name: str) -> None:
    message, said = SAID[name]
    assert to_chat_message(message) == said


@pytest.mark.parametrize("name", SAID)
def test_form_or_message_gives_back_an_equal_one(name: str) -> None:
    message, said = SAID[name]
    form = form_of(message)
    back = from_chat_message(said) if form is None else messages_from_dict([form])[0]
    assert (back, type(back)) == (message, type(message))


def test_a_form_is_kept_only_where_it_says_more() -> None:
    plain = {"human", "system", "ai", "ai, nothing", "ai, calls", "ai, reasoning", "tool", "tool, a picture"}
    assert {name for name, (message, _) in SAID.items() if form_of(message) is None} == plain


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (ToolMessage("x", tool_call_id="c", artifact={1, 2}, id="t1"), TypeError),
        (AIMessage("x", response_metadata={"logprob": float("nan")}, id="t1"), ValueError),
    ],
)
def test_what_is_no_json_is_an_error_that_names_the_message(message: BaseMessage, error: type[Exception]) -> None:
    with pytest.raises(error, match="Message t1 cannot be kept: its artifact and metadata must be JSON"):
        form_of(message)


def test_only_langchains_messages_are_taken() -> None:
    with pytest.raises(TypeError, match="message of LangChain's, but is: str"):
        to_chat_message("Hi")  # type: ignore[arg-type]


@pytest.mark.slow
@given(messages())
def test_whatever_was_said_can_be_read_and_says_the_same(message: ChatMessage) -> None:
    read = from_chat_message(message)
    again = to_chat_message(read)
    if not isinstance(message, CustomMessage):
        assert again.type == message.type
    assert from_chat_message(again) == read or isinstance(message, CustomMessage)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_KINDS = ["text", "image", "image_url", "audio", "input_audio", "file", "video", "document", "thinking", "reasoning"]
_BLOCK = st.text() | st.fixed_dictionaries(
    {"type": st.sampled_from([*_KINDS, "tool_use", "tool_call", "media", "refusal", "server_tool_call"])},
    optional={
        **dict.fromkeys(("text", "url", "base64", "mime_type", "source", "image_url"), _JSON),
        **dict.fromkeys(("file", "extras", "reasoning", "id"), _JSON),
    },
)


@pytest.mark.slow
@given(
    content=st.text() | st.lists(_BLOCK, max_size=4),
    kind=st.sampled_from(["human", "ai", "system", "tool"]),
    provider=st.sampled_from([None, "anthropic", "openai", "google_genai", "bedrock_converse", "groq"]),
    extra=st.dictionaries(st.text(min_size=1), _JSON, max_size=2),
    args=st.dictionaries(st.text(), _JSON, max_size=3),
)
def test_any_content_says_something_and_comes_back(
    content: Any, kind: str, provider: str | None, extra: dict[str, Any], args: dict[str, Any]
) -> None:
    more: dict[str, Any] = {"additional_kwargs": extra}
    if kind == "tool":
        more |= {"tool_call_id": "1", "artifact": args}
    if kind == "ai":
        more |= {"tool_calls": [{"name": "f", "args": args, "id": "1"}]}
    if provider is not None:
        more["response_metadata"] = {"model_provider": provider}
    (message,) = messages_from_dict([{"type": kind, "data": {"content": content, **more}}])
    said = to_chat_message(message)
    form = form_of(message)
    assert (from_chat_message(said) if form is None else messages_from_dict([form])[0]) == message


Histories = Callable[[str], BaseChatMessageHistory]


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    async def whole() -> Any:
        try:
            return await work
        finally:
            await sync_to_async(connections.close_all)()

    return asyncio.run(whole())


@pytest.fixture(params=["langchain", "chatmemory"])
def histories(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Histories]:
    """Histories by session ID: LangChain's own of SQL, and ours."""
    if request.param == "langchain":
        made = []

        def history(session_id: str) -> BaseChatMessageHistory:
            made.append(SQLChatMessageHistory(session_id, connection=f"sqlite:///{tmp_path}/history.sqlite3"))
            return made[-1]

        yield history
        for one in made:
            one.session_maker.remove()
            one.engine.dispose()
    else:
        request.getfixturevalue("db")
        yield lambda session_id: DjangoChatMessageHistory(session_id, window="messages", limit=1000)


ALL = [message for name, (message, _) in SAID.items() if not name.startswith(("system", "role, developer"))]


class TestContract:
    """What LangChain's histories promise."""

    def test_is_empty_at_first(self, histories: Histories) -> None:
        assert histories("a").messages == []

    def test_gives_every_message_back_equal_and_in_order(self, histories: Histories) -> None:
        histories("a").add_messages(ALL)
        back = histories("a").messages
        assert back == ALL
        assert list(map(type, back)) == list(map(type, ALL))

    def test_adds_at_the_end_one_by_one_or_many(self, histories: Histories) -> None:
        history = histories("a")
        history.add_user_message("1")
        history.add_ai_message("2")
        history.add_message(HumanMessage("3"))
        history.add_messages([AIMessage("4"), HumanMessage("4"), AIMessage("4")])
        history.add_messages([])
        assert [message.text for message in history.messages] == ["1", "2", "3", "4", "4", "4"]
        assert str(history).startswith("Human: 1\nAI: 2")

    def test_sessions_are_apart_and_the_same_id_is_the_same_session(self, histories: Histories) -> None:
        histories("a").add_user_message("1")
        histories("b").add_user_message("2")
        histories("a").clear()
        assert histories("a").messages == []
        assert histories("b").messages == [HumanMessage("2")]

    def test_goes_on_after_clear(self, histories: Histories) -> None:
        history = histories("a")
        history.clear()
        history.add_user_message("1")
        history.clear()
        history.clear()
        history.add_user_message("2")
        assert history.messages == [HumanMessage("2")]

    def test_the_list_is_a_copy(self, histories: Histories) -> None:
        history = histories("a")
        history.add_user_message("1")
        history.messages.append(HumanMessage("2"))
        assert history.messages == [HumanMessage("1")]

    def test_what_is_no_json_adds_none_of_it(self, histories: Histories) -> None:
        history = histories("a")
        with pytest.raises(TypeError):
            history.add_messages([HumanMessage("1"), ToolMessage("2", tool_call_id="c", artifact=object())])
        assert history.messages == []


@pytest.mark.django_db(transaction=True)
def test_async_twins() -> None:
    async def chat() -> list[list[BaseMessage]]:
        history = DjangoChatMessageHistory("a", window="messages", limit=1000)
        seen = [await history.aget_messages()]
        await history.aadd_messages(ALL)
        seen.append(await history.aget_messages())
        await asyncio.gather(*(history.aadd_messages([HumanMessage(str(number))]) for number in range(5)))
        seen.append((await history.aget_messages())[len(ALL) :])
        await history.aclear()
        return [*seen, await history.aget_messages()]

    empty, everything, numbers, cleared = _run(chat())
    assert (empty, everything, cleared) == ([], ALL, [])
    assert sorted(str(message.content) for message in numbers) == ["0", "1", "2", "3", "4"]


@pytest.mark.django_db(transaction=True)
def test_a_thread_of_langchains_leaves_no_connection_open() -> None:
    def chat() -> tuple[list[BaseMessage], Any]:
        history = DjangoChatMessageHistory("a")
        history.add_user_message("1")
        return history.messages, connection.connection

    with ThreadPoolExecutor() as executor:
        assert executor.submit(chat).result() == ([HumanMessage("1")], None)
    connection.ensure_connection()
    DjangoChatMessageHistory("a").clear()
    assert connection.connection is not None


@pytest.mark.django_db
class TestMemory:
    """What is ours."""

    def test_the_window_bounds_what_the_model_gets_and_history_keeps_all(self) -> None:
        history = DjangoChatMessageHistory("a", window="messages", limit=3, title="Support")
        calls = AIMessage("", tool_calls=[CALL], id="run-1")
        said = [HumanMessage("1"), calls, ToolMessage("sunny", tool_call_id="call_1", id="t"), AIMessage("It is")]
        for message in said:
            history.add_message(message)
        assert history.messages == said[1:]
        history.add_user_message("2")
        assert history.messages == [said[3], HumanMessage("2")]  # the result left with its call
        conversation = Conversation.objects.get()
        assert (conversation.title, conversation.limit, conversation.window) == ("Support", 3, "messages")
        forms = [row.native_of("langchain") for row in conversation.messages.history()]
        assert [form and form["data"]["id"] for form in forms] == [None, "run-1", "t", None, None]

    def test_reads_what_somebody_else_said_and_they_read_it(self) -> None:
        history = DjangoChatMessageHistory("a")
        history.add_message(HumanMessage("Weather?", id="h"))
        memory = Conversation.objects.get().memory
        call = ToolExecutionRequest("1", "weather", '{"city": "Bern"}')
        memory.add(AiMessage("Let me look", [call], thinking="hm"))
        memory.add(ToolExecutionResultMessage("1", "weather", "timeout", is_error=True))
        assert history.messages == [
            HumanMessage("Weather?", id="h"),
            AIMessage(
                "Let me look",
                tool_calls=[{"name": "weather", "args": {"city": "Bern"}, "id": "1", "type": "tool_call"}],
                additional_kwargs={"reasoning_content": "hm"},
            ),
            ToolMessage("timeout", tool_call_id="1", name="weather", status="error"),
        ]
        assert memory.messages()[0] == UserMessage("Weather?")

    def test_one_system_message_at_a_time(self) -> None:
        history = DjangoChatMessageHistory("a")
        history.add_messages([SystemMessage("1"), HumanMessage("2"), SystemMessage("3"), SystemMessage("3", id="x")])
        assert history.messages == [HumanMessage("2"), SystemMessage("3")]

    def test_is_the_owners_alone(self) -> None:
        owner = UserFactory()
        DjangoChatMessageHistory("a", owner).add_user_message("1")
        assert DjangoChatMessageHistory("a").messages == DjangoChatMessageHistory("a", UserFactory()).messages == []
        assert DjangoChatMessageHistory("a", owner).messages == [HumanMessage("1")]
        with pytest.raises(ValueError, match="owner must be a saved user"):
            DjangoChatMessageHistory("a", type(owner)())

    def test_reading_is_one_statement(self, django_assert_num_queries: Any) -> None:
        history = DjangoChatMessageHistory("a")
        call = {"id": "1", "name": "now", "args": {}}
        history.add_messages([HumanMessage("a"), AIMessage("", tool_calls=[call]), ToolMessage("b", tool_call_id="1")])
        with django_assert_num_queries(1 + LOCATING):
            assert len(history.messages) == 3

    def test_what_others_said_has_ids_and_no_result_without_its_call(self) -> None:
        conversation = Conversation.objects.create(memory_id="a", window="messages", limit=3)
        question = AiMessage(tool_execution_requests=[ToolExecutionRequest(None, "now", "{}")])
        answer = ToolExecutionResultMessage(None, "now", "noon")
        conversation.memory.add(question, UserMessage("b"), answer)
        history = DjangoChatMessageHistory("a")
        told, _, result = history.messages
        assert result.tool_call_id == told.tool_calls[0]["id"] != ""
        conversation.memory.add(UserMessage("c"))  # the window takes the call; its result does not follow it
        assert [message.text for message in history.messages] == ["b", "c"]


class Model(GenericFakeChatModel):
    """Says the next number, and remembers what it was given."""

    messages: Iterator[AIMessage | str] = iter(())
    given: list[list[BaseMessage]] = []

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.given.append(messages)
        return super()._generate(messages, *args, **kwargs)


def _chat(limit: int, key: bool) -> tuple[Runnable[Any, Any], Model]:
    answers = (AIMessage(f"answer {number}", id=f"run-{number}") for number in range(100))
    model = Model(messages=answers, given=[])
    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{question}")])

    def history(session_id: str) -> DjangoChatMessageHistory:
        return DjangoChatMessageHistory(session_id, window="messages", limit=limit)

    keys = {"input_messages_key": "question", "history_messages_key": "history"} if key else {}
    with pytest.warns(LangChainDeprecationWarning, match="LangGraph's built-in persistence"):
        chat = RunnableWithMessageHistory(prompt | model if key else model, history, **keys)
    return chat, model


CONFIG: Any = {"configurable": {"session_id": "a"}}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["invoke", "ainvoke", "stream", "astream"])
@pytest.mark.parametrize("limit", [1, 3, 100])
@pytest.mark.parametrize("key", [True, False])
def test_a_chat_with_a_history_keeps_what_was_said_whatever_the_window(how: str, limit: int, key: bool) -> None:
    chat, model = _chat(limit, key)

    async def stream(question: Any) -> None:
        async for _ in chat.astream(question, CONFIG):
            pass

    for number in range(4):
        text = f"question {number}"
        question: Any = {"question": text} if key else [HumanMessage(text)]
        match how:
            case "invoke":
                chat.invoke(question, CONFIG)
            case "ainvoke":
                _run(chat.ainvoke(question, CONFIG))
            case "stream":
                list(chat.stream(question, CONFIG))
            case _:
                _run(stream(question))
    said = [text for number in range(4) for text in (f"question {number}", f"answer {number}")]
    rows = Row.objects.history()
    assert [row.text for row in rows] == said
    assert [message.text for message in model.given[-1]] == [*said[:-2][-limit:], "question 3"]
    assert [message.text for message in DjangoChatMessageHistory("a").messages] == said[-limit:]
