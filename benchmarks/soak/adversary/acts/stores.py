"""The three methods of the store, and the memories that are made when something is first added."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.soak.adversary.acts.act import LIMIT, TALK, Act, Scene
from benchmarks.soak.adversary.acts.memory import texts
from benchmarks.soak.adversary.model import Said, State
from chatmemory import MessageWindowChatMemory, UserMessage
from chatmemory.stores import DjangoChatMemoryStore

__all__ = ["ACTS", "NEW", "nothing"]

NEW = "new"
"""The memory ID of a conversation that is not there yet."""

_QUESTION = Said("USER", "q")


def nothing(state: State) -> State | None:
    """Return the state of a conversation that was not there: of one message."""
    return State(LIMIT).add(_QUESTION)


def _memory(scene: Scene, memory_id: str, limit: int = LIMIT) -> MessageWindowChatMemory:
    return MessageWindowChatMemory(id=memory_id, max_messages=limit, store=DjangoChatMemoryStore(scene.user))


def _update(scene: Scene) -> None:
    store = DjangoChatMemoryStore(scene.user)
    store.update_messages(TALK, [*scene.more["kept"], UserMessage("q")])


def _keep_two(scene: Scene) -> None:
    scene.more["kept"] = scene.conversation.memory.messages()[-2:]


ACTS = [
    Act(
        name="store: get",
        do=lambda scene: texts(DjangoChatMemoryStore(scene.user).get_messages(TALK)),
        effect=lambda state: state,
        steps=0,
    ),
    Act(
        name="store: update",
        prepare=_keep_two,
        do=_update,
        effect=lambda state: state.set((*state.memory[-2:], _QUESTION), said=(_QUESTION,)),
        repeatable=True,
    ),
    Act(
        name="store: delete",
        do=lambda scene: DjangoChatMemoryStore(scene.user).delete_messages(TALK),
        effect=lambda state: state.clear(),
        repeatable=True,
    ),
    Act(
        name="window memory: add",
        do=lambda scene: _memory(scene, TALK).add(UserMessage("q")),
        effect=lambda state: state.add(_QUESTION),
    ),
    Act(
        name="window memory: add with a smaller window",
        do=lambda scene: _memory(scene, TALK, 3).add(UserMessage("q")),
        effect=lambda state: replace(state, limit=3).add(_QUESTION),
    ),
    Act(
        name="window memory: set",
        do=lambda scene: _memory(scene, TALK).set([UserMessage("a summary")]),
        effect=lambda state: state.set((Said("USER", "a summary"),)),
        repeatable=True,
    ),
    Act(
        name="window memory: the first add",
        do=lambda scene: _memory(scene, NEW).add(UserMessage("q")),
        effect=nothing,
        about=NEW,
    ),
    Act(
        name="store: the first update",
        do=lambda scene: DjangoChatMemoryStore(scene.user).update_messages(NEW, [UserMessage("q")]),
        effect=nothing,
        about=NEW,
        repeatable=True,
    ),
]
