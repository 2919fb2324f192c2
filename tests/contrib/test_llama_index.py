"""LlamaIndex's chat stores that are conversations here, judged by LlamaIndex's own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama_index.core.base.llms.types import (
    AudioBlock,
    CacheControl,
    CachePoint,
    CitableBlock,
    CitationBlock,
    DocumentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.base.llms.types import ChatMessage as LlamaMessage
from llama_index.core.memory import BaseMemoryBlock, ChatMemoryBuffer, Memory
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.base import BaseChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import create_async_engine

from chatmemory import (
    AiMessage,
    AudioContent,
    ChatMessage,
    CustomMessage,
    ImageContent,
    PdfFileContent,
    SystemMessage,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
    VideoContent,
)
from chatmemory.contrib.llama_index import DjangoAsyncChatStore, DjangoChatStore
from chatmemory.contrib.llama_index.messages import form_of, from_chat_message, from_row, to_chat_message
from chatmemory.contrib.native_memory import NativeMemory
from chatmemory.models import Conversation
from chatmemory.models import Message as Row
from chatmemory.verification import verify
from tests.database.test_conversations import check_invariants
from tests.support import budget
from tests.support.factories import UserFactory
from tests.support.strategies import messages

PNG = b"\x89PNG\r\n\x1a\nxxxx"
PNG64 = "iVBORw0KGgp4eHh4"
ACTIVE, ARCHIVED = MessageStatus.ACTIVE, MessageStatus.ARCHIVED


class OlderCall(BaseModel):
    """As OpenAI's SDK has a call."""

    id: str
    function: dict[str, str]


def said(role: str, *blocks: Any, **kwargs: Any) -> LlamaMessage:
    given = [TextBlock(text=block) if isinstance(block, str) else block for block in blocks]
    return LlamaMessage(role=MessageRole(role), blocks=given, additional_kwargs=kwargs)


# What LlamaIndex and its integrations make, and what it says.
SAID: dict[str, tuple[LlamaMessage, ChatMessage]] = {
    "user": (said("user", "Grüezi 🎉"), UserMessage("Grüezi 🎉")),
    "user, nothing": (said("user"), UserMessage("")),
    "user, named": (said("user", "Hi", name="ann"), UserMessage("Hi", name="ann")),
    "user, blocks": (
        said(
            "user",
            "a",
            CachePoint(cache_control=CacheControl(type="ephemeral")),
            ImageBlock(url="https://x.example/a.png", detail="high"),
            ImageBlock(image=PNG),
            AudioBlock(audio=b"RIFFx", format="wav"),
            AudioBlock(url="https://x.example/a.mp3"),
            VideoBlock(url="https://x.example/a.mp4"),
            DocumentBlock(data=b"%PDF-1.4 x"),
            DocumentBlock(data=b"a,b", document_mimetype="text/csv"),
            CitableBlock(title="t", source="s", content=[TextBlock(text="c")]),
        ),
        UserMessage(
            contents=[
                TextContent("a"),
                ImageContent("https://x.example/a.png", mime_type="image/png", detail_level="HIGH"),
                ImageContent(base64_data=PNG64, mime_type="image/png", detail_level="AUTO"),
                AudioContent(base64_data="UklGRng=", mime_type="audio/wav"),
                AudioContent("https://x.example/a.mp3", mime_type="audio/mpeg"),
                VideoContent("https://x.example/a.mp4", mime_type="video/mp4"),
                PdfFileContent(base64_data="JVBERi0xLjQgeA=="),
                TextContent("[document]"),
                TextContent("c"),
            ]
        ),
    ),
    "user, a local file": (said("user", ImageBlock(path=Path(__file__))), UserMessage("[image]")),
    "system": (said("system", "Be brief"), SystemMessage("Be brief")),
    "system, blank": (
        said("system", " "),
        CustomMessage({"framework": "llama-index", "type": "system", "text": " "}),
    ),
    "developer": (said("developer", "a", "b"), SystemMessage("a\nb")),
    "assistant": (said("assistant", "Hello"), AiMessage("Hello")),
    "assistant, nothing": (said("assistant"), AiMessage()),
    "assistant, several": (said("assistant", "a", "b"), AiMessage("a\nb")),
    "assistant, calls": (
        said(
            "assistant",
            ToolCallBlock(tool_call_id="1", tool_name="weather", tool_kwargs={"city": "Bern", "day": 1}),
            ToolCallBlock(tool_call_id="2", tool_name="weather", tool_kwargs='{"ci'),
        ),
        AiMessage(
            None,
            [
                ToolExecutionRequest("1", "weather", '{"city":"Bern","day":1}'),
                ToolExecutionRequest("2", "weather", '{"ci'),
            ],
        ),
    ),
    "assistant, older calls": (
        said("assistant", tool_calls=[{"id": "1", "function": {"name": "f", "arguments": "{}"}, "type": "function"}]),
        AiMessage(None, [ToolExecutionRequest("1", "f", "{}")]),
    ),
    "assistant, thinking": (
        said(
            "assistant",
            ThinkingBlock(content="hm", num_tokens=3, additional_information={"signature": "sig", "id": "rs_1"}),
            "Hi",
            CitationBlock(
                cited_content=TextBlock(text="c"), source="s", title="t", additional_location_info={"page": 1}
            ),
            ToolCallBlock(tool_call_id="1", tool_name="f"),
            ref={"annotations": [None, 1.5, True]},
        ),
        AiMessage(
            "Hi",
            [ToolExecutionRequest("1", "f", "{}")],
            thinking="hm",
            attributes={"thinking_signature": "sig"},
        ),
    ),
    "assistant, only thinking": (said("assistant", ThinkingBlock(content="hm")), AiMessage(thinking="hm")),
    "assistant, a picture": (said("assistant", "Here:", ImageBlock(image=PNG)), AiMessage("Here:\n[image]")),
    "chatbot": (said("chatbot", "Hi"), AiMessage("Hi")),
    "model": (said("model", "Hi"), AiMessage("Hi")),
    "tool": (said("tool", "sunny", tool_call_id="1"), ToolExecutionResultMessage("1", None, "sunny")),
    "tool, older": (
        said("tool", "sunny", tool_call_id="1", name="weather"),
        ToolExecutionResultMessage("1", "weather", "sunny"),
    ),
    "function": (said("function", "4", name="add"), ToolExecutionResultMessage(None, "add", "4")),
}


@pytest.mark.parametrize("name", SAID)
def test_what_a_message_says(name: str) -> None:
    message, expected = SAID[name]
    assert to_chat_message(message) == expected


@pytest.mark.parametrize("name", SAID)
def test_form_or_message_gives_back_an_equal_one(name: str) -> None:
    message, expected = SAID[name]
    form = form_of(message)
    assert (from_chat_message(expected) if form is None else LlamaMessage.model_validate(form)) == message


def test_a_form_is_kept_only_where_it_says_more() -> None:
    plain = {"user", "user, named", "system", "assistant", "assistant, nothing", "assistant, calls", "tool"}
    plain |= {"assistant, only thinking"}
    assert {name for name, (message, _) in SAID.items() if form_of(message) is None} == plain


def test_objects_in_additional_kwargs_become_dicts() -> None:
    call = OlderCall(id="1", function={"name": "f", "arguments": '{"a": 1}'})
    message = said("assistant", tool_calls=[call], raw=b"\x00\xff")
    assert to_chat_message(message) == AiMessage(None, [ToolExecutionRequest("1", "f", '{"a": 1}')])
    form = form_of(message)
    assert form is not None
    assert form["additional_kwargs"] == {"tool_calls": [call.model_dump()], "raw": "AP8="}


@pytest.mark.parametrize("value", [object(), {1, "a", object()}])
def test_what_is_no_json_is_an_error(value: Any) -> None:
    with pytest.raises(ValueError, match="message of the user cannot be kept as JSON"):
        form_of(said("user", "Hi", odd=value))


def test_only_llama_indexs_messages_are_taken() -> None:
    with pytest.raises(TypeError, match="message of LlamaIndex's, but is: str"):
        to_chat_message("Hi")  # type: ignore[arg-type]


@pytest.mark.slow
@given(messages())
def test_whatever_was_said_can_be_read_and_says_the_same(message: ChatMessage) -> None:
    read = from_chat_message(message)
    again = to_chat_message(read)
    if not isinstance(message, CustomMessage):
        assert again.type == message.type
    assert from_chat_message(again) == read


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_OBJECT = st.dictionaries(st.text(), _JSON, max_size=3)
_BLOCK = st.one_of(
    st.builds(TextBlock, text=st.text()),
    st.builds(ImageBlock, image=st.binary(min_size=1), detail=st.none() | st.text()),
    st.builds(AudioBlock, audio=st.binary(min_size=1), format=st.none() | st.text()),
    st.builds(ThinkingBlock, content=st.none() | st.text(), additional_information=_OBJECT),
    st.builds(ToolCallBlock, tool_call_id=st.none() | st.text(), tool_name=st.text(), tool_kwargs=_OBJECT | st.text()),
)
_KWARGS = st.dictionaries(st.text() | st.sampled_from(["tool_calls", "name", "tool_call_id"]), _JSON, max_size=2)


@pytest.mark.slow
@given(
    role=st.sampled_from(MessageRole),
    blocks=st.lists(_BLOCK, max_size=4),
    kwargs=_KWARGS.filter(lambda kwargs: "images" not in kwargs),
)
def test_any_message_says_something_and_comes_back(role: MessageRole, blocks: list[Any], kwargs: Any) -> None:
    message = LlamaMessage(role=role, blocks=blocks, additional_kwargs=kwargs)
    meant = to_chat_message(message)
    form = form_of(message)
    assert (from_chat_message(meant) if form is None else LlamaMessage.model_validate(form)) == message


@pytest.mark.django_db
def test_a_message_whose_file_is_gone_can_still_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    store = DjangoChatStore()
    message = said("user", "Look", ImageBlock(path=path))
    store.add_message("a", message)
    assert store.get_messages("a") == [message]
    path.unlink()
    assert store.get_messages("a") == [said("user", "Look", "[image]")]


def user(text: str) -> LlamaMessage:
    return said("user", text)


def _texts(found: list[LlamaMessage] | None) -> list[str | None]:
    return [message.content for message in found or []]


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    async def whole() -> Any:
        try:
            return await work
        finally:
            await sync_to_async(connections.close_all)()

    return asyncio.run(whole())


ALL = [message for name, (message, _) in SAID.items() if not name.startswith(("system", "developer"))]


@pytest.fixture(params=["llama_index", "chatmemory"])
def store(request: pytest.FixtureRequest) -> BaseChatStore:
    """LlamaIndex's own store, and ours."""
    if request.param == "llama_index":
        return SimpleChatStore()
    request.getfixturevalue("db")
    return DjangoChatStore(window="messages", limit=1000)


class TestChatStore:
    """What LlamaIndex's chat stores promise."""

    def test_is_empty_at_first(self, store: BaseChatStore) -> None:
        assert store.get_messages("a") == []
        assert store.get_keys() == []
        assert store.delete_messages("a") is None
        assert store.delete_message("a", 0) is None
        assert store.delete_last_message("a") is None

    def test_gives_every_message_back_equal_and_in_order(self, store: BaseChatStore) -> None:
        for message in ALL:
            store.add_message("a", message)
        assert store.get_messages("a") == ALL

    def test_set_replaces_everything(self, store: BaseChatStore) -> None:
        store.set_messages("a", [user("1"), user("2"), user("3")])
        store.set_messages("a", [user("3"), user("1"), user("4")])
        assert _texts(store.get_messages("a")) == ["3", "1", "4"]
        store.set_messages("a", ALL)
        assert store.get_messages("a") == ALL
        store.set_messages("a", [])
        assert store.get_messages("a") == []

    @pytest.mark.parametrize(("idx", "left"), [(0, "23"), (1, "13"), (2, "12"), (-1, "12"), (-3, "23")])
    def test_deletes_by_index_and_gives_it_back(self, store: BaseChatStore, idx: int, left: str) -> None:
        store.set_messages("a", list(map(user, "123")))
        deleted = store.delete_message("a", idx)
        assert deleted == list(map(user, "123"))[idx]
        assert _texts(store.get_messages("a")) == list(left)

    def test_deletes_no_index_that_is_not_there(self, store: BaseChatStore) -> None:
        store.set_messages("a", list(map(user, "123")))
        assert store.delete_message("a", 3) is None
        assert _texts(store.get_messages("a")) == list("123")

    def test_deletes_the_last_and_goes_on(self, store: BaseChatStore) -> None:
        store.set_messages("a", list(map(user, "123")))
        assert store.delete_last_message("a") == user("3")
        store.add_message("a", user("4"))
        assert _texts(store.get_messages("a")) == list("124")

    def test_deletes_all_and_gives_them_back(self, store: BaseChatStore) -> None:
        store.set_messages("a", list(map(user, "123")))
        store.set_messages("b", [user("4")])
        assert store.get_keys() == ["a", "b"]
        assert store.delete_messages("a") == list(map(user, "123"))
        assert (store.get_messages("a"), store.get_keys()) == ([], ["b"])
        assert store.delete_messages("a") is None
        store.add_message("a", user("5"))
        assert _texts(store.get_messages("a")) == ["5"]

    def test_a_buffer_over_it(self, store: BaseChatStore) -> None:
        buffer = ChatMemoryBuffer.from_defaults(
            chat_store=store, chat_store_key="a", token_limit=4, tokenizer_fn=str.split
        )
        buffer.put_messages([user("1 1"), said("assistant", "2 2"), user("3 3"), said("assistant", "4 4")])
        assert _texts(buffer.get()) == ["3 3", "4 4"]
        assert _texts(buffer.get_all()) == ["1 1", "2 2", "3 3", "4 4"]
        buffer.set([user("5")])
        assert _texts(buffer.get()) == ["5"]
        buffer.reset()
        assert buffer.get_all() == []
        assert buffer.to_dict()["chat_store_key"] == "a"


_MESSAGE = st.sampled_from([user("1"), user("2"), said("assistant", "3"), said("user", "1", ref=1)])
_ACT = st.one_of(
    st.tuples(st.just("add_message"), _MESSAGE),
    st.tuples(st.just("set_messages"), st.lists(_MESSAGE, max_size=4)),
    st.tuples(st.just("delete_message"), st.integers(0, 4)),
    st.tuples(st.just("delete_messages")),
)


@pytest.mark.slow
@pytest.mark.django_db
@settings(max_examples=budget.examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts=st.lists(_ACT, max_size=10))
def test_whatever_is_done_the_chat_stores_agree(acts: list[tuple[Any, ...]]) -> None:
    ours, theirs = DjangoChatStore(window="messages", limit=1000), SimpleChatStore()
    ours.delete_messages("a")
    for name, *args in acts:
        results = [getattr(store, name)("a", *map(_copied, args)) for store in (ours, theirs)]
        assert (results[0] or None) == (results[1] or None)  # to theirs, a key may have no messages
        assert ours.get_messages("a") == theirs.get_messages("a")
    for conversation in Conversation.objects.all():
        check_invariants(conversation)


def _copied(argument: Any) -> Any:
    return list(argument) if isinstance(argument, list) else argument


@pytest.mark.django_db(transaction=True)
def test_async_twins_of_the_chat_store() -> None:
    async def use(store: BaseChatStore) -> list[Any]:
        await store.aset_messages("a", list(map(user, "123")))
        await store.async_add_message("a", user("4"))
        return [
            list(await store.aget_messages("a")),
            await store.aget_keys(),
            await store.adelete_message("a", 1),
            await store.adelete_last_message("a"),
            await store.adelete_messages("a"),
            await store.aget_keys(),
        ]

    ours = _run(use(DjangoChatStore()))
    assert ours == asyncio.run(use(SimpleChatStore()))
    assert ours[0] == list(map(user, "1234"))


_STATUS = st.sampled_from([ACTIVE, ARCHIVED])
_DB_ACT = st.one_of(
    st.tuples(st.just("add_messages"), st.lists(_MESSAGE, min_size=1, max_size=3), _STATUS),
    st.tuples(st.just("set_messages"), st.lists(_MESSAGE, max_size=3), _STATUS),
    st.tuples(st.just("delete_messages"), st.none() | _STATUS),
    st.tuples(st.sampled_from(["delete_oldest_messages", "archive_oldest_messages"]), st.integers(0, 4)),
)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@settings(max_examples=budget.examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts=st.lists(_DB_ACT, max_size=8))
def test_whatever_is_done_the_database_stores_agree(acts: list[tuple[Any, ...]]) -> None:
    async def work() -> None:
        engine = create_async_engine("sqlite+aiosqlite://")
        ours = DjangoAsyncChatStore(window="messages", limit=1000)
        theirs = SQLAlchemyChatStore(table_name="messages", async_engine=engine)
        await ours.delete_messages("a")
        for name, *args in acts:
            results = [await getattr(store, name)("a", *args) for store in (ours, theirs)]
            assert results[0] == results[1]
            for status in (ACTIVE, ARCHIVED):
                found = [await store.get_messages("a", status) for store in (ours, theirs)]
                assert found[0] == found[1]
            assert await ours.count_messages("a", None) == await theirs.count_messages("a", None)
            assert await ours.get_keys() == await theirs.get_keys()
        await engine.dispose()

    _run(work())
    for conversation in Conversation.objects.all():
        check_invariants(conversation)


Use = Callable[[Callable[[AsyncDBChatStore], Awaitable[Any]]], Any]


@pytest.fixture(params=["llama_index", "chatmemory"])
def use(request: pytest.FixtureRequest, tmp_path: Path) -> Use:
    """Runs what uses a store: LlamaIndex's own of SQL, and ours."""

    async def theirs(work: Callable[[AsyncDBChatStore], Awaitable[Any]]) -> Any:
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/store.sqlite3")
        try:
            return await work(SQLAlchemyChatStore(table_name="messages", async_engine=engine))
        finally:
            await engine.dispose()

    async def ours(work: Callable[[AsyncDBChatStore], Awaitable[Any]]) -> Any:
        return await work(DjangoAsyncChatStore(window="messages", limit=1000))

    if request.param == "llama_index":
        return lambda work: asyncio.run(theirs(work))
    return lambda work: _run(ours(work))


@pytest.mark.django_db(transaction=True)
class TestAsyncChatStore:
    """What LlamaIndex's database stores promise."""

    def test_is_empty_at_first(self, use: Use) -> None:
        async def work(store: AsyncDBChatStore) -> None:
            for status in (ACTIVE, ARCHIVED, None):
                assert await store.get_messages("a", status) == []
                assert await store.count_messages("a", status) == 0
                await store.delete_messages("a", status)
            assert await store.get_keys() == []
            assert await store.delete_message("a", 1) is None
            assert await store.delete_oldest_messages("a", 2) == []
            assert await store.archive_oldest_messages("a", 2) == []

        use(work)

    def test_gives_every_message_back_equal_and_in_order(self, use: Use) -> None:
        async def work(store: AsyncDBChatStore) -> None:
            await store.add_message("a", ALL[0])
            await store.add_messages("a", ALL[1:])
            assert await store.get_messages("a") == ALL
            assert await store.count_messages("a") == len(ALL)

        use(work)

    @pytest.mark.slow
    def test_gives_a_part(self, use: Use) -> None:
        async def work(store: AsyncDBChatStore) -> None:
            await store.add_messages("a", list(map(user, "12345")))
            await store.archive_oldest_messages("a", 2)
            assert _texts(await store.get_messages("a", limit=2)) == ["3", "4"]
            assert _texts(await store.get_messages("a", limit=2, offset=2)) == ["5"]
            assert _texts(await store.get_messages("a", offset=1)) == ["4", "5"]
            assert _texts(await store.get_messages("a", None, limit=2, offset=1)) == ["2", "3"]
            assert _texts(await store.get_messages("a", limit=0)) == []

        use(work)

    def test_archives_the_oldest(self, use: Use) -> None:
        async def work(store: AsyncDBChatStore) -> None:
            await store.add_messages("a", list(map(user, "12345")))
            assert _texts(await store.archive_oldest_messages("a", 2)) == ["1", "2"]
            assert _texts(await store.archive_oldest_messages("a", 0)) == []
            await store.add_message("a", user("6"))
            assert _texts(await store.archive_oldest_messages("a", 1)) == ["3"]
            assert _texts(await store.get_messages("a")) == ["4", "5", "6"]
            assert _texts(await store.get_messages("a", ARCHIVED)) == ["1", "2", "3"]
            assert _texts(await store.get_messages("a", None)) == list("123456")
            counts = [await store.count_messages("a", status) for status in (ACTIVE, ARCHIVED, None)]
            assert counts == [3, 3, 6]
            assert _texts(await store.archive_oldest_messages("a", 9)) == ["4", "5", "6"]
            assert (await store.get_messages("a"), await store.get_keys()) == ([], ["a"])

        use(work)

    def test_adds_what_is_archived_at_once(self, use: Use) -> None:
        async def work(store: AsyncDBChatStore) -> None:
            await store.add_message("a", user("1"), ARCHIVED)
            await store.add_messages("a", ALL, ARCHIVED)
            await store.add_message("a", user("2"))
            assert await store.get_messages("a", ARCHIVED) == [user("1"), *ALL]
            assert _texts(await store.get_messages("a")) == ["2"]

        use(work)

    def test_deletes_the_oldest(self, use: Use) -> None:
        async def work(store: AsyncDBChatStore) -> None:
            await store.add_messages("a", list(map(user, "12345")))
            await store.archive_oldest_messages("a", 1)
            assert _texts(await store.delete_oldest_messages("a", 2)) == ["2", "3"]
            assert _texts(await store.get_messages("a", None)) == ["1", "4", "5"]
            assert _texts(await store.get_messages("a", ARCHIVED)) == ["1"]

        use(work)

    @pytest.mark.parametrize(
        ("status", "left"), [(ACTIVE, [[], ["1", "2"]]), (ARCHIVED, [["3", "4"], []]), (None, [[], []])]
    )
    def test_deletes_by_status(self, use: Use, status: MessageStatus | None, left: list[list[str]]) -> None:
        async def work(store: AsyncDBChatStore) -> None:
            await store.add_messages("a", list(map(user, "1234")))
            await store.add_message("b", user("5"))
            await store.archive_oldest_messages("a", 2)
            await store.delete_messages("a", status)
            found = [_texts(await store.get_messages("a", one)) for one in (ACTIVE, ARCHIVED)]
            assert found == left
            assert await store.get_keys() == (["b"] if status is None else ["a", "b"])
            await store.add_message("a", user("6"))
            await store.archive_oldest_messages("a", 9)
            assert _texts(await store.get_messages("a", ARCHIVED)) == [*left[1], *left[0], "6"]

        use(work)

    @pytest.mark.parametrize("status", [ACTIVE, ARCHIVED])
    def test_set_replaces_everything_of_any_status(self, use: Use, status: MessageStatus) -> None:
        async def work(store: AsyncDBChatStore) -> None:
            await store.add_messages("a", list(map(user, "1234")))
            await store.archive_oldest_messages("a", 2)
            await store.set_messages("a", [user("4"), user("1"), user("5")], status)
            assert _texts(await store.get_messages("a", None)) == ["4", "1", "5"]
            assert _texts(await store.get_messages("a", status)) == ["4", "1", "5"]

        use(work)

    def test_a_memory_over_it_archives_whole_turns_into_its_blocks(self, use: Use) -> None:
        async def work(store: AsyncDBChatStore) -> None:
            block = Kept(name="kept")
            memory = Memory.from_defaults(
                session_id="a",
                chat_store=store,  # type: ignore[arg-type]
                token_limit=10,
                token_flush_size=3,
                chat_history_token_ratio=0.8,
                tokenizer_fn=str.split,
                memory_blocks=[block],
            )
            call = ToolCallBlock(tool_call_id="1", tool_name="f")
            await memory.aput_messages([user("1 1"), said("assistant", "2", call), said("tool", "3", tool_call_id="1")])
            await memory.aput_messages([said("assistant", "4"), user("5 5 5"), said("assistant", "6 6 6")])
            assert _texts(block.got) == ["1 1", "2", "3", "4"]
            assert _texts(await memory.aget_all(ARCHIVED)) == ["1 1", "2", "3", "4"]
            assert _texts(await memory.aget_all(ACTIVE)) == ["5 5 5", "6 6 6"]
            assert _texts(await memory.aget()) == ["5 5 5", "6 6 6"]
            await memory.aset([user("7")])
            assert _texts(await memory.aget_all()) == ["7"]
            await memory.areset()
            assert await memory.aget_all() == []

        use(work)


class Kept(BaseMemoryBlock[str]):
    """Keeps what is archived."""

    got: list[LlamaMessage] = []

    async def _aget(self, messages: list[LlamaMessage] | None = None, **kwargs: Any) -> str:
        return ""

    async def _aput(self, messages: list[LlamaMessage]) -> None:
        self.got.extend(messages)


@pytest.mark.django_db
class TestMemory:
    """What is ours."""

    @pytest.mark.slow
    def test_a_memory_with_all_defaults_feeds_its_blocks(self, tmp_path: Path) -> None:
        told = [said("user" if number % 2 == 0 else "assistant", f"{number} " + "word " * 1000) for number in range(40)]

        async def fed(store: AsyncDBChatStore) -> list[list[str | None]]:
            block = Kept(name="kept")
            memory = Memory.from_defaults("a", chat_store=store, memory_blocks=[block])  # type: ignore[arg-type]
            for message in told:
                await memory.aput(message.model_copy(deep=True))
            return [
                _texts(found) for found in (block.got, await memory.aget_all(ARCHIVED), await memory.aget_all(ACTIVE))
            ]

        async def theirs() -> list[list[str | None]]:
            engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/store.sqlite3")
            try:
                return await fed(SQLAlchemyChatStore(table_name="messages", async_engine=engine))
            finally:
                await engine.dispose()

        ours = async_to_sync(fed)(DjangoAsyncChatStore())
        assert ours == asyncio.run(theirs())
        got, archived, active = ours
        assert got
        assert got == archived
        assert [*archived, *active] == _texts(told)

    def test_the_window_archives_as_well_and_history_keeps_all(self) -> None:
        store = DjangoAsyncChatStore(window="messages", limit=2, title="Support")
        call = ToolCallBlock(tool_call_id="1", tool_name="f")
        told = [said("assistant", call), said("tool", "1", tool_call_id="1"), user("2"), user("3"), user("4")]
        for message in told:
            async_to_sync(store.add_message)("a", message)
        assert async_to_sync(store.get_messages)("a") == told[3:]
        assert async_to_sync(store.get_messages)("a", ARCHIVED) == told[:3]
        async_to_sync(store.delete_oldest_messages)("a", 1)
        async_to_sync(store.archive_oldest_messages)("a", 1)
        async_to_sync(store.delete_messages)("a", ARCHIVED)
        conversation = Conversation.objects.get()
        assert conversation.title == "Support"
        reasons = [row.eviction_reason for row in conversation.messages.history()]
        assert reasons == ["cleared", "cleared", "cleared", "rewritten", "cleared"]
        assert conversation.memory.at(2) == [to_chat_message(message) for message in told[:2]]

    def test_deletes_a_row_of_memory_or_archive(self) -> None:
        store = DjangoAsyncChatStore()
        async_to_sync(store.add_messages)("a", list(map(user, "123")))
        async_to_sync(store.add_message)("b", user("4"))
        async_to_sync(store.archive_oldest_messages)("a", 1)
        one, two, _three, four = Row.objects.order_by("pk").values_list("pk", flat=True)
        assert async_to_sync(store.delete_message)("a", one) == user("1")
        assert async_to_sync(store.delete_message)("a", two) == user("2")
        assert async_to_sync(store.delete_message)("a", two) is None
        assert async_to_sync(store.delete_message)("a", four) is None
        assert _texts(async_to_sync(store.get_messages)("a", None)) == ["3"]

    def test_counters_stay_right(self) -> None:
        store = DjangoAsyncChatStore(window="messages", limit=3)
        async_to_sync(store.add_messages)("a", list(map(user, "12345")))
        async_to_sync(store.add_message)("a", user("6 6 6"), ARCHIVED)
        async_to_sync(store.archive_oldest_messages)("a", 1)
        async_to_sync(store.set_messages)("a", list(map(user, "578")), ARCHIVED)
        async_to_sync(store.add_message)("a", user("9"))
        conversation = Conversation.objects.get()
        assert [row.text for row in conversation.messages.retained()] == ["9"]
        assert conversation.message_count == 10
        check_invariants(conversation)
        assert list(verify()) == []

    def test_without_history_there_is_no_archive(self, settings: Any) -> None:
        settings.CHATMEMORY = {"KEEP_HISTORY": False}
        store = DjangoAsyncChatStore()
        async_to_sync(store.add_messages)("a", list(map(user, "123")))
        async_to_sync(store.add_message)("a", user("4"), ARCHIVED)
        assert _texts(async_to_sync(store.archive_oldest_messages)("a", 1)) == ["1"]
        assert _texts(async_to_sync(store.get_messages)("a", None)) == ["2", "3"]

    def test_reads_what_somebody_else_said_and_they_read_it(self) -> None:
        store = DjangoChatStore()
        store.add_message("a", said("user", "Weather?", ref=1))
        memory = Conversation.objects.get().memory
        memory.add(AiMessage("Let me look", [ToolExecutionRequest("1", "weather", '{"city": "Bern"}')], thinking="hm"))
        memory.add(ToolExecutionResultMessage("1", "weather", "timeout", is_error=True))
        assert store.get_messages("a") == [
            said("user", "Weather?", ref=1),
            said(
                "assistant",
                ThinkingBlock(content="hm"),
                "Let me look",
                ToolCallBlock(tool_call_id="1", tool_name="weather", tool_kwargs={"city": "Bern"}),
            ),
            said("tool", "timeout", tool_call_id="1"),
        ]
        assert memory.messages()[0] == UserMessage("Weather?")

    def test_another_frameworks_form_is_no_obstacle(self) -> None:
        NativeMemory("other", "a").add([UserMessage("1")], [{"x": 1}])
        (row,) = NativeMemory("other", "a").messages.retained()
        assert from_row(row) == user("1")

    def test_set_keeps_the_rows_that_stay(self) -> None:
        store = DjangoChatStore()
        told = [said("user", "1", ref=1), said("assistant", "2")]
        store.set_messages("a", told)
        store.set_messages("a", [*store.get_messages("a"), user("3")])
        assert [row.text for row in Row.objects.order_by("position")] == ["1", "2", "3"]

    def test_is_the_owners_alone(self) -> None:
        owner = UserFactory()
        DjangoChatStore(owner).add_message("a", user("1"))
        for other in (None, UserFactory()):
            store = DjangoChatStore(other)
            assert (store.get_messages("a"), store.get_keys(), store.delete_messages("a")) == ([], [], None)
        assert DjangoChatStore(owner).get_messages("a") == [user("1")]
        with pytest.raises(ValueError, match="owner must be a saved user"):
            DjangoAsyncChatStore(type(owner)())


@pytest.mark.django_db(transaction=True)
def test_archiving_from_many_tasks_loses_nothing() -> None:
    async def work() -> tuple[list[Any], list[str | None], list[str | None]]:
        store = DjangoAsyncChatStore(window="messages", limit=1000)
        await store.add_messages("a", [user(str(number)) for number in range(20)])
        taken = await asyncio.gather(
            *(store.archive_oldest_messages("a", 2) for _ in range(5)),
            *(store.add_message("a", user(f"new {number}")) for number in range(5)),
        )
        return taken, _texts(await store.get_messages("a")), _texts(await store.get_messages("a", ARCHIVED))

    taken, active, archived = _run(work())
    assert sorted(text for some in taken if some for text in _texts(some)) == sorted(map(str, range(10)))
    assert archived == list(map(str, range(10)))
    assert active[:10] == list(map(str, range(10, 20)))
    assert len(active) == 15
