"""Turns of an assistant, whose model is a function that always answers the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.soak.adversary.acts.act import TALK, Act, Scene
from benchmarks.soak.adversary.acts.stores import NEW
from benchmarks.soak.adversary.model import Said
from chatmemory import (
    AiMessage,
    ChatMemory,
    ChatMessage,
    MessageWindowChatMemory,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.assistant import Assistant
from chatmemory.assistant.conversation_lease import ConversationLease
from chatmemory.personal_data import erase_user
from chatmemory.stores import DjangoChatMemoryStore

__all__ = ["ACTS"]

# What a process left behind when it was killed may be taken over so soon, in seconds.
_TIMEOUT = 0.3


_SECRET = "Zaphod"


def _answer(messages: Sequence[ChatMessage], tools: Any) -> AiMessage:
    if tools and not isinstance(messages[-1], ToolExecutionResultMessage):
        return AiMessage(None, [ToolExecutionRequest("7", "look_up", "{}")])
    return AiMessage("a")


def look_up() -> str:
    """Look something up."""
    return "found"


def _assistant(scene: Scene, **more: Any) -> Assistant:
    def memory(memory_id: Any) -> ChatMemory:
        if memory_id == TALK:
            return scene.conversation.memory
        return MessageWindowChatMemory(id=memory_id, max_messages=5, store=DjangoChatMemoryStore(scene.user))

    return Assistant(_answer, memory=memory, turn_timeout=_TIMEOUT, **more)


def _chat(memory_id: str, **more: Any) -> Any:
    return lambda scene: _assistant(scene, **more).chat(memory_id, "q", idempotency_key="k").text


def _stream(scene: Scene) -> str:
    pieces = _assistant(scene).stream(TALK, "q", idempotency_key="k")
    return "".join(piece for piece in pieces if isinstance(piece, str))


def _answer_untitled(scene: Scene) -> None:
    """Begin a turn in a conversation without a title, and answer it."""
    scene.conversation.title = ""
    scene.conversation.save()
    turn = ConversationLease(scene.conversation.memory, _TIMEOUT)
    assert turn.try_take()
    turn.add([UserMessage(_SECRET)])
    turn.add([AiMessage("a")], ends=True)
    scene.more["turn"] = turn


def _entitle_what_is_anonymised_meanwhile(scene: Scene) -> None:
    def write(messages: Sequence[ChatMessage]) -> str:
        erase_user(scene.user, how="anonymise")
        return f"About {_SECRET}"

    scene.more["turn"].entitle(write)


_SAID = (Said("USER", "q"), Said("AI", "a"))

ACTS = [
    Act(
        name="turn",
        do=_chat(TALK),
        effect=lambda state: state.add(_SAID[0]).add(_SAID[1]),
        steps=2,
        repeatable=True,
        same_answer=True,
    ),
    Act(
        name="turn, streamed",
        do=_stream,
        effect=lambda state: state.add(_SAID[0]).add(_SAID[1]),
        steps=2,
        repeatable=True,
        same_answer=True,
    ),
    Act(
        name="turn with a call of a tool",
        do=_chat(TALK, tools=[look_up]),
        steps=4,
        repeatable=True,
        same_answer=True,
        ends_alike=False,  # a call that was interrupted is not run again
    ),
    Act(
        name="turn in a new conversation",
        do=_chat(NEW),
        steps=3,  # a turn is taken of a row that is there
        repeatable=True,
        same_answer=True,
    ),
    Act(
        name="turn, interrupted",
        do=lambda scene: _assistant(scene).interrupt(TALK),
        effect=lambda state: state,
        steps=0,
        repeatable=True,
    ),
    Act(
        name="title that comes after its conversation was anonymised",
        prepare=_answer_untitled,
        do=_entitle_what_is_anonymised_meanwhile,
        repeatable=True,
        forgets=True,
        erases=_SECRET,
    ),
]
