"""The times of additions, plans and turns, each pair side by side, in turns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from statistics import fmean, quantiles
from time import perf_counter
from typing import Any

from django.db import connections

from benchmarks.filling import new_conversation
from benchmarks.measuring import settle
from benchmarks.places import new_place
from benchmarks.texts import ai_text, user_text
from benchmarks.windows import Window
from chatmemory import AiMessage, ChatMessage, UserMessage
from chatmemory.models import Conversation

__all__ = ["measure_additions", "measure_plans", "measure_turns"]

_WINDOW = Window("tokens", 4000)
_KEEP = 50
_SUMMARY = "What was said before. " * 20


def measure_additions(engine: str, *, rounds: int, additions: int) -> list[dict[str, Any]]:
    """Measure additions to two conversations: of one a summary is being made, as long as it takes, of the other none.

    Args:
        engine: ``sqlite`` or ``postgres``.
        rounds: how often all is measured, each time in new conversations.
        additions: timed additions to each.

    Returns:
        for each round ``with_ms`` and ``without_ms``, the 95th percentiles, and their ``ratio``.
    """
    rows: list[dict[str, Any]] = []
    for number in range(rounds):
        with new_place(engine) as place:
            busy, idle = new_conversation(_WINDOW, 500), new_conversation(_WINDOW, 500)
            settle(place)
            begun, done = threading.Event(), threading.Event()

            def write(messages: Sequence[ChatMessage], previous: str | None) -> str:
                begun.set()  # noqa: B023
                done.wait()  # noqa: B023
                return _SUMMARY

            worker = threading.Thread(target=_compact, args=(busy, write))
            worker.start()
            begun.wait(timeout=60)
            times: dict[int, list[float]] = {0: [], 1: []}
            for turn in range(additions + 20):
                for which in (0, 1) if turn % 2 else (1, 0):
                    message = UserMessage(user_text(turn)) if turn % 2 else AiMessage(ai_text(turn))
                    taken = _timed(lambda: (busy, idle)[which].memory.add(message))  # noqa: B023
                    if turn >= 20:
                        times[which].append(taken)
            done.set()
            worker.join()
            with_ms, without_ms = (1000 * quantiles(times[which], n=20)[-1] for which in (0, 1))
            row = {"engine": engine, "round": number, "with_ms": with_ms, "without_ms": without_ms}
            rows.append(row | {"ratio": with_ms / without_ms})
    return rows


def measure_plans(engine: str, *, rounds: int, rows: int) -> list[dict[str, Any]]:
    """Measure the plan of a summary of a whole history, and its application.

    Args:
        engine: ``sqlite`` or ``postgres``.
        rounds: how often, each time in a new conversation.
        rows: messages of the history.

    Returns:
        for each round ``plan_s``, ``apply_s`` and ``both_s``.
    """
    found: list[dict[str, Any]] = []
    for number in range(rounds):
        with new_place(engine) as place:
            conversation = new_conversation(_WINDOW, rows)
            settle(place)
            start = perf_counter()
            plan = conversation.memory.plan_compaction(keep=0)
            planned = perf_counter()
            assert plan is not None, "there is something to summarise"
            assert conversation.memory.apply_compaction(plan, _SUMMARY) is not None
            end = perf_counter()
            taken = {"plan_s": planned - start, "apply_s": end - planned, "both_s": end - start}
            found.append({"engine": engine, "round": number, **taken, "messages": len(plan.messages)})
    return found


def measure_turns(engine: str, *, rounds: int, turns: int, histories: list[int]) -> list[dict[str, Any]]:
    """Measure turns of conversations that are summarised when it is due, a short one and a long one in turns.

    A turn is two additions, a read, and the question whether a summary is due, which is made if so.

    Args:
        engine: ``sqlite`` or ``postgres``.
        rounds: how often all is timed; the conversations go on.
        turns: timed turns of each.
        histories: the messages of each before.

    Returns:
        for each round ``short_ms`` and ``long_ms``, the mean of a turn, and their ``ratio``.
    """
    rows: list[dict[str, Any]] = []
    with new_place(engine) as place:
        conversations = [new_conversation(_WINDOW, history) for history in histories]
        for conversation in conversations:
            conversation.memory.set_window(compact_at=80, whole_turns=True)
            conversation.memory.compact(lambda *_: _SUMMARY, keep=_KEEP)
        settle(place)
        for number in range(rounds + 1):
            times: list[list[float]] = [[], []]
            for turn in range(turns):
                for which in (0, 1) if turn % 2 else (1, 0):
                    times[which].append(_timed(lambda: _turn(conversations[which], turn)))  # noqa: B023
            short, long = (1000 * fmean(taken) for taken in times)
            if number:  # the first warms up
                rows.append({"engine": engine, "round": number, "short_ms": short, "long_ms": long})
                rows[-1]["ratio"] = long / short
    return rows


def _turn(conversation: Conversation, number: int) -> None:
    memory = conversation.memory
    memory.add(UserMessage(user_text(number)))
    memory.messages()
    memory.add(AiMessage(ai_text(number)))
    memory.compact(lambda *_: _SUMMARY, if_due=True)


def _compact(conversation: Conversation, write: Any) -> None:
    try:
        Conversation.objects.get(pk=conversation.pk).memory.compact(write)
    finally:
        connections.close_all()


def _timed(act: Callable[[], object]) -> float:
    start = perf_counter()
    act()
    return perf_counter() - start
