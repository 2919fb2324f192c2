"""The adapters of other frameworks."""

from __future__ import annotations

from typing import Any

from asgiref.sync import async_to_sync
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.storage.chat_store.base_db import MessageStatus
from pydantic_ai.messages import ModelRequest, UserPromptPart

from benchmarks.soak.adversary.acts.act import LIMIT, TALK, Act, Scene
from benchmarks.soak.adversary.acts.stores import NEW, nothing
from benchmarks.soak.adversary.model import Said
from chatmemory.contrib.langchain import DjangoChatMessageHistory
from chatmemory.contrib.langgraph.saver import DjangoSaver
from chatmemory.contrib.llama_index import DjangoAsyncChatStore, DjangoChatStore
from chatmemory.contrib.openai_agents import DjangoSession
from chatmemory.contrib.pydantic_ai import DjangoMessageHistory

__all__ = ["ACTS"]

_TALK: list[BaseMessage] = [HumanMessage("q", id="1"), AIMessage("a", id="2")]
_QUESTION, _ANSWER = Said("USER", "q"), Said("AI", "a")
_WINDOW: Any = {"window": "messages", "limit": LIMIT}


def _langchain(scene: Scene, memory_id: str = TALK) -> DjangoChatMessageHistory:
    return DjangoChatMessageHistory(memory_id, scene.user, **_WINDOW)


def _llama_index(scene: Scene) -> DjangoChatStore:
    return DjangoChatStore(scene.user, **_WINDOW)


def _archive(scene: Scene) -> DjangoAsyncChatStore:
    return DjangoAsyncChatStore(scene.user, **_WINDOW)


def _session(scene: Scene, memory_id: str = TALK) -> DjangoSession:
    return DjangoSession(memory_id, owner=scene.user, **_WINDOW)


def _pydantic_ai(scene: Scene, memory_id: str = TALK) -> DjangoMessageHistory:
    return DjangoMessageHistory(memory_id, owner=scene.user, **_WINDOW)


def _llama(text: str) -> ChatMessage:
    return ChatMessage(role=MessageRole.USER, content=text)


def _asked(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def _checkpoint(number: int, said: list[BaseMessage]) -> Any:
    checkpoint = empty_checkpoint()
    checkpoint["id"] = f"{number:032}"
    return {**checkpoint, "channel_values": {"messages": said}, "channel_versions": {"messages": str(number)}}


def _put(scene: Scene, thread: str, number: int = 1, said: list[BaseMessage] | None = None) -> Any:
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    checkpoint = _checkpoint(number, _TALK[:number] if said is None else said)
    return DjangoSaver(scene.user, **_WINDOW).put(config, checkpoint, {}, {"messages": str(number)})


def _put_writes(scene: Scene) -> None:
    config = scene.more["config"]
    DjangoSaver(scene.user, **_WINDOW).put_writes(config, [("messages", "w"), ("other", 1)], "task")


def _with_checkpoint(scene: Scene) -> None:
    scene.more["config"] = _put(scene, "thread")


def _with_two_checkpoints(scene: Scene) -> None:
    _with_checkpoint(scene)
    _put(scene, "thread", 2)


def _mirror(name: str, now: list[BaseMessage]) -> Act:
    """Return an act that puts other messages in the place of a talk: the memory must have them, as they are."""

    def do(scene: Scene) -> None:
        _put(scene, "thread", 3, now)
        mirrored = _langchain(scene, "thread").messages
        assert mirrored == now, f"the memory has {mirrored}, the graph {now}"

    return Act(name=f"LangGraph: {name}", prepare=_with_two_checkpoints, do=do, repeatable=True)


def _items(scene: Scene) -> list[Any]:
    return async_to_sync(_session(scene).get_items)()


_ADDED: dict[str, Any] = {"effect": lambda state: state.add(_QUESTION)}
_CLEARED: dict[str, Any] = {"effect": lambda state: state.clear(), "repeatable": True}
_READ: dict[str, Any] = {"effect": lambda state: state, "steps": 0}
_FIRST: dict[str, Any] = {"effect": nothing, "about": NEW}

ACTS = [
    Act(name="LangChain: add", do=lambda scene: _langchain(scene).add_messages([HumanMessage("q")]), **_ADDED),
    Act(name="LangChain: clear", do=lambda scene: _langchain(scene).clear(), **_CLEARED),
    Act(name="LangChain: read", do=lambda scene: [str(one.content) for one in _langchain(scene).messages], **_READ),
    Act(
        name="LangChain: the first add",
        do=lambda scene: _langchain(scene, NEW).add_messages([HumanMessage("q")]),
        **_FIRST,
    ),
    Act(name="LangGraph: put in a new thread", do=lambda scene: _put(scene, "thread") and None, repeatable=True),
    Act(
        name="LangGraph: put",
        prepare=_with_checkpoint,
        do=lambda scene: _put(scene, "thread", 2) and None,
        repeatable=True,
    ),
    _mirror("remove all, and say the same again", [HumanMessage("q", id="3")]),
    _mirror("overwrite a message", [_TALK[0], AIMessage("b", id="2")]),
    _mirror("overwrite only what is no text", [HumanMessage("q", id="1", additional_kwargs={"read": True}), _TALK[1]]),
    _mirror("reorder", [*reversed(_TALK)]),
    _mirror("copy", [AIMessage("a", id="3"), HumanMessage("q", id="4")]),
    Act(name="LangGraph: put writes", prepare=_with_checkpoint, do=_put_writes, repeatable=True),
    Act(
        name="LangGraph: read",
        prepare=_with_checkpoint,
        do=lambda scene: DjangoSaver(scene.user).get_tuple(scene.more["config"]) is not None,
        **_READ,
    ),
    Act(
        name="LangGraph: copy a thread",
        prepare=_with_checkpoint,
        do=lambda scene: DjangoSaver(scene.user, **_WINDOW).copy_thread("thread", "copy"),
    ),
    Act(
        name="LangGraph: prune",
        prepare=_with_two_checkpoints,
        do=lambda scene: DjangoSaver(scene.user).prune(["thread"]),
        repeatable=True,
    ),
    Act(
        name="LangGraph: delete a thread",
        prepare=_with_checkpoint,
        do=lambda scene: DjangoSaver(scene.user).delete_thread("thread"),
        repeatable=True,
    ),
    Act(name="LlamaIndex: add", do=lambda scene: _llama_index(scene).add_message(TALK, _llama("q")), **_ADDED),
    Act(
        name="LlamaIndex: the first add",
        do=lambda scene: _llama_index(scene).add_message(NEW, _llama("q")),
        **_FIRST,
    ),
    Act(
        name="LlamaIndex: set",
        do=lambda scene: _llama_index(scene).set_messages(TALK, [_llama("q")]),
        effect=lambda state: state.set((_QUESTION,), said=(_QUESTION,)),
        repeatable=True,
    ),
    Act(name="LlamaIndex: delete one", do=lambda scene: _llama_index(scene).delete_message(TALK, 0) and None),
    Act(name="LlamaIndex: read", do=lambda scene: len(_llama_index(scene).get_messages(TALK)), **_READ),
    Act(
        name="LlamaIndex: add to the archive",
        do=lambda scene: async_to_sync(_archive(scene).add_messages)(TALK, [_llama("q")], MessageStatus.ARCHIVED),
    ),
    Act(
        name="LlamaIndex: set memory and archive",
        do=lambda scene: async_to_sync(_archive(scene).set_messages)(TALK, [_llama("q")], MessageStatus.ACTIVE),
        repeatable=True,
    ),
    Act(
        name="LlamaIndex: archive the oldest",
        do=lambda scene: len(async_to_sync(_archive(scene).archive_oldest_messages)(TALK, 2)),
    ),
    Act(
        name="Agents SDK: add",
        do=lambda scene: async_to_sync(_session(scene).add_items)(
            [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
        ),
        effect=lambda state: state.add(_QUESTION, _ANSWER),
    ),
    Act(
        name="Agents SDK: the first add",
        do=lambda scene: async_to_sync(_session(scene, NEW).add_items)([{"role": "user", "content": "q"}]),
        **_FIRST,
    ),
    Act(name="Agents SDK: pop", do=lambda scene: str(async_to_sync(_session(scene).pop_item)())),
    Act(name="Agents SDK: clear", do=lambda scene: async_to_sync(_session(scene).clear_session)(), **_CLEARED),
    Act(name="Agents SDK: read", do=lambda scene: len(_items(scene)), **_READ),
    Act(name="Pydantic AI: add", do=lambda scene: _pydantic_ai(scene).add([_asked("q")]), **_ADDED),
    Act(name="Pydantic AI: the first add", do=lambda scene: _pydantic_ai(scene, NEW).add([_asked("q")]), **_FIRST),
    Act(name="Pydantic AI: clear", do=lambda scene: _pydantic_ai(scene).clear(), **_CLEARED),
    Act(name="Pydantic AI: read", do=lambda scene: len(_pydantic_ai(scene).messages()), **_READ),
]
