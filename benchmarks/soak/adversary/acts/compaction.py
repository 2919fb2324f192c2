"""Pins, cleared tool results and summaries. Some come late: what they are made from has changed meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from benchmarks.soak.adversary.acts.act import Act, Scene
from benchmarks.soak.adversary.acts.maintenance import LATER, theirs
from benchmarks.soak.adversary.acts.memory import account
from benchmarks.soak.adversary.model import RESULT, Said, State
from chatmemory import AiMessage, ChatMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.compaction import compact_due
from chatmemory.database.operations.compact import compact
from chatmemory.models import Conversation, Origin
from chatmemory.personal_data import erase_user
from chatmemory.retention import purge_evicted

__all__ = ["ACTS"]

_LEASE = 0.3
"""The seconds after which others go on where a process was killed."""

_SECRET = "Zaphod"
_SUMMARY = "a summary"
_FRAMED = Said("USER", f"<summary>\n{_SUMMARY}\n</summary>")
_PLACEHOLDER = "[Old tool result cleared]"
_FOUND = Said(RESULT, "found " * 60)
"""What a tool has found: more than its placeholder."""


class _SummarizerError(Exception):
    """The summarizer has failed."""


def _pin_too_much(scene: Scene) -> None:
    """Pin a call whose results, which come later, are more than the window may have."""
    memory = scene.conversation.memory
    requests = [ToolExecutionRequest(str(number), "tool", "{}") for number in range(20, 25)]
    change = memory.add(AiMessage("c1", requests))
    scene.more["pinned"] = change.added[0].position
    memory.pin(scene.more["pinned"])
    memory.add(*(ToolExecutionResultMessage(request.id, "tool", "r") for request in requests))


def _talk(scene: Scene, **settings: Any) -> None:
    """Let a turn with a long tool result be followed by another, in a window that has room for both."""
    memory = scene.conversation.memory
    memory.set_window(window="tokens", limit=400, **settings)
    memory.add(UserMessage("u1"), AiMessage("c1", [ToolExecutionRequest("3", "tool", "{}")]))
    memory.add(ToolExecutionResultMessage("3", "tool", _FOUND.text), AiMessage("a1"))
    memory.add(UserMessage("u2"), AiMessage("a2"))


def _plan(scene: Scene) -> None:
    scene.more["plan"] = scene.conversation.memory.plan_compaction(keep=0)


def _clear_results(scene: Scene) -> Any:
    return scene.conversation.memory.clear_tool_results(keep=0)


def _plan_and_clear_results(scene: Scene) -> None:
    _talk(scene)
    _plan(scene)
    _clear_results(scene)


def _plan_and_fill(scene: Scene) -> None:
    """Plan, and let the window clear results to make room."""
    _talk(scene, keep_tool_results=0)
    _plan(scene)
    scene.conversation.memory.add(UserMessage("u3 " * 130), AiMessage("a3"))


def _plan_and_clear(scene: Scene) -> None:
    _talk(scene)
    _plan(scene)
    scene.conversation.memory.clear()


def _plan_and_rewrite(scene: Scene) -> None:
    """Plan, and let a client write back the last turn alone."""
    _talk(scene)
    _plan(scene)
    scene.conversation.memory.set(scene.conversation.memory.messages()[-2:])


def _apply(scene: Scene) -> Any:
    change = scene.conversation.memory.apply_compaction(scene.more["plan"], _SUMMARY)
    return change and account(change)


def _insist(act: Callable[[], Any], is_done: Callable[[], bool]) -> None:
    """Do an act again until it is done: a process that was killed may have left its lease."""
    until = time.monotonic() + 10 * _LEASE
    act()
    while not is_done():
        assert time.monotonic() < until, "the lease does not end"
        time.sleep(_LEASE / 3)
        act()


def _compact(scene: Scene) -> None:
    summaries = scene.conversation.messages.filter(origin=Origin.SUMMARY)
    _insist(lambda: list(compact(scene.conversation, lambda *_: _SUMMARY, keep=0, lease=_LEASE)), summaries.exists)


def _evict_a_secret(scene: Scene) -> None:
    memory = scene.conversation.memory
    memory.set_window(window="tokens", limit=400)
    memory.add(UserMessage(f"{_SECRET} " * 20), AiMessage("a1"))
    memory.add(UserMessage("u2"), AiMessage("a2"))
    memory.set_window(limit=60)
    memory.set_window(limit=400)


def _compact_and_purge_meanwhile(scene: Scene) -> None:
    def fail(messages: Sequence[ChatMessage], previous: str | None) -> str:
        _purge(scene)
        raise _SummarizerError(f"cannot summarise {messages}")

    def try_it() -> None:
        with suppress(_SummarizerError):
            list(compact(scene.conversation, fail, keep=0, lease=_LEASE))

    _insist(try_it, lambda: not scene.conversation.messages.evicted().exists())


def _purge(scene: Scene) -> None:
    for _ in purge_evicted(LATER, theirs(scene)):
        pass


def _bring_a_summary_back(scene: Scene) -> None:
    """Let a client write back a memory with a summary that it had read before."""
    _evict_a_secret(scene)
    memory = scene.conversation.memory
    memory.compact(lambda *_: f"about {_SECRET}", keep=0)
    read = memory.messages()
    memory.clear()
    memory.set(read)


def _erased(scene: Scene) -> None:
    Conversation.objects.get(pk=scene.conversation.pk).delete()


def _compact_what_is_erased(scene: Scene) -> None:
    with suppress(Conversation.DoesNotExist):
        scene.conversation.memory.compact(lambda *_: _SUMMARY)


def _anonymise(scene: Scene) -> None:
    _talk(scene, compact_at=10)
    scene.more["pk"] = scene.conversation.pk
    erase_user(scene.user, how="anonymise")


def _due(scene: Scene) -> int:
    chosen = Conversation.objects.filter(pk=scene.more["pk"])
    due = [one for one in compact_due(chosen, keep=0, dry_run=True) if one.plan is not None]
    assert not due, "a summary of what was anonymised is due"
    return len(due)


def _late(name: str, prepare: Callable[[Scene], None], effect: Callable[[State], State | None]) -> Act:
    return Act(name=f"summary that comes after {name}", prepare=prepare, do=_apply, effect=effect, repeatable=True)


ACTS = [
    Act(
        name="pin",
        do=lambda scene: account(scene.conversation.memory.pin(5)),
        effect=lambda state: state.pin(),
        repeatable=True,
    ),
    Act(
        name="unpin, and messages leave",
        prepare=_pin_too_much,
        do=lambda scene: account(scene.conversation.memory.unpin(scene.more["pinned"])),
        effect=lambda state: state.unpin(),
    ),
    Act(
        name="clear tool results",
        prepare=_talk,
        do=lambda scene: account(_clear_results(scene)),
        effect=lambda state: state.clear_results(_PLACEHOLDER, _FOUND),
        repeatable=True,
    ),
    Act(
        name="summarise",
        prepare=_talk,
        do=_compact,
        effect=lambda state: state.summarise(_FRAMED, kept=2),
        steps=2,  # the lease is seen before
        repeatable=True,
    ),
    _late("tool results were cleared", _plan_and_clear_results, lambda state: state.summarise(_FRAMED, kept=2)),
    _late("the window cleared tool results", _plan_and_fill, lambda state: state.summarise(_FRAMED, kept=4)),
    _late("a clear", _plan_and_clear, lambda state: state),
    _late("a rewrite", _plan_and_rewrite, lambda state: state),
    Act(
        name="summarizer that fails after a purge",
        prepare=_evict_a_secret,
        do=_compact_and_purge_meanwhile,
        steps=3,
        repeatable=True,
        forgets=True,
        erases=_SECRET,
    ),
    Act(
        name="purge what a summary quotes that a rewrite brought back",
        prepare=_bring_a_summary_back,
        do=_purge,
        steps=2,
        repeatable=True,
        forgets=True,
        erases=_SECRET,
    ),
    Act(name="summarise what is erased", prepare=_erased, do=_compact_what_is_erased, steps=0, repeatable=True),
    Act(name="look for summaries of what is anonymised", prepare=_anonymise, do=_due, steps=0, repeatable=True),
]
