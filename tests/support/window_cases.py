"""Hypothesis strategies for windows, for what is said to them, and for what else is done to a memory."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    ChatMemory,
    ChatMessage,
    CustomMessage,
    MessageWindowChatMemory,
    OpenAiTokenCountEstimator,
    SystemMessage,
    TokenWindowChatMemory,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.window import Window, WindowKind
from tests.support import budget
from tests.support.naive_window import Item, NaiveWindow, Settings, Step

__all__ = [
    "ESTIMATOR",
    "batches_of",
    "calls_of",
    "conversations",
    "examples",
    "left_behind",
    "memory_of",
    "naive_settings",
    "ops",
    "perform",
    "said",
    "window_of",
    "windows",
]

ESTIMATOR = OpenAiTokenCountEstimator("gpt-4o")
_tokens = cache(ESTIMATOR.estimate_token_count_in_message)  # the naive model counts everything at each look

_KINDS = ["system", "user", "user", "answer", "call", "calls", "result", "result", "error", "custom"]
_TOOLS = ["weather", "clock"]


def examples(usual: int) -> settings:
    """Settings with so many examples, unless the suite has fewer."""
    return settings(max_examples=budget.examples(usual), suppress_health_check=list(HealthCheck))


def windows(**fixed: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Settings of a window, as keyword arguments of a conversation. Small windows, because they are full soon."""
    of_messages = {"window": st.just("messages"), "limit": st.integers(1, 12)}
    of_tokens = {"window": st.just("tokens"), "limit": st.integers(4, 250)}
    shared: dict[str, st.SearchStrategy[Any]] = {
        "low_water": st.sampled_from([100, 99, 75, 50, 25, 1]) | st.integers(1, 100),
        "whole_turns": st.booleans(),
        "keep_tool_results": st.none() | st.integers(0, 3),
        "always_keep_system_message_first": st.booleans(),
        "reserve": st.sampled_from([0, 0, 0, 7, 40]) | st.integers(0, 200),
        "compact_keep_calls": st.sampled_from([None, None, 1, 2, 3]),
    }
    shared |= {name: st.just(value) for name, value in fixed.items()}
    return st.one_of(st.fixed_dictionaries(of_messages | shared), st.fixed_dictionaries(of_tokens | shared))


def naive_settings(window: dict[str, Any]) -> Settings:
    """The settings for the naive model."""
    return Settings(
        tokens=_tokens,
        request_tokens=ESTIMATOR.estimate_token_count_in_messages([]),
        **window,
    )


def memory_of(window: dict[str, Any], store: Any) -> ChatMemory:
    """A memory over a store."""
    settings = {name: value for name, value in window.items() if name not in ("window", "limit")}
    if window["window"] == "messages":
        return MessageWindowChatMemory(max_messages=window["limit"], store=store, **settings)
    return TokenWindowChatMemory(max_tokens=window["limit"], token_count_estimator=ESTIMATOR, store=store, **settings)


def window_of(window: dict[str, Any]) -> Window:
    """The window as memories have it inside."""
    settings = {name: value for name, value in window.items() if name != "window"}
    return Window(kind=WindowKind(window["window"]), estimator=ESTIMATOR, **settings)


@st.composite
def said(draw: st.DrawFn, most: int = 30) -> list[ChatMessage]:
    """Messages in any order, no two of them equal but for system messages: calls and results need not belong together.

    So an equal message is the same message, whichever of them is asked for.
    """
    sizes = st.sampled_from([0, 1, 5, 12, 40])
    kinds = draw(st.lists(st.tuples(st.sampled_from(_KINDS), sizes), max_size=most))
    return [_message(kind, number, words) for number, (kind, words) in enumerate(kinds)]


def _message(kind: str, number: int, words: int) -> ChatMessage:
    text = f"m{number}" + " word" * words
    tool = _TOOLS[number % 2]
    match kind:
        case "system":
            return SystemMessage("be kind" + " word" * words)
        case "user":
            return UserMessage(text)
        case "answer":
            return AiMessage(text)
        case "call":
            return AiMessage(text, [ToolExecutionRequest(f"id{number}", tool, "{}")])
        case "calls":
            return AiMessage(text, [ToolExecutionRequest(f"id{number}.{which}", tool, "{}") for which in (0, 1)])
        case "result" | "error":
            is_error = kind == "error" if number % 2 else True if kind == "error" else None
            attributes = {"n": 1} if number % 3 == 0 else None
            return ToolExecutionResultMessage(f"id{number}", tool, text, is_error=is_error, attributes=attributes)
    return CustomMessage({"text": text})


def batches_of(messages: list[ChatMessage]) -> st.SearchStrategy[list[list[ChatMessage]]]:
    """The messages in batches, in order."""
    cuts = st.sets(st.integers(1, max(1, len(messages) - 1)))
    return cuts.map(lambda places: _cut(messages, sorted(places)))


def _cut(messages: list[ChatMessage], places: list[int]) -> list[list[ChatMessage]]:
    ends = [*places, len(messages)]
    return [batch for begin, end in zip([0, *places], ends, strict=True) if (batch := messages[begin:end])]


def calls_of(conversation: Any) -> dict[int, int]:
    """The position of the call that each tool result of a memory stands behind, by the position of the result.

    A placeholder is at the position of its result.
    """
    calls: dict[int, int] = {}
    call = None
    for row in conversation.messages.retained():
        if row.type != "TOOL_EXECUTION_RESULT":
            call = row.position if getattr(row.message, "tool_execution_requests", None) else None
        elif call is not None:
            calls[_place(row)] = call
    return calls


def left_behind(conversation: Any, calls: dict[int, int]) -> list[int]:
    """The positions of results in the memory whose calls are gone, of those that stood behind them before a step.

    There are none but after a rewrite, which may say anything.
    """
    here = {_place(row) for row in conversation.messages.retained()}
    return [result for result, call in calls.items() if result in here and call not in here]


def _place(row: Any) -> int:
    return int(row.covers_from if row.origin == "cleared" else row.position)


@st.composite
def ops(draw: st.DrawFn, *, most: int = 30) -> list[dict[str, Any]]:
    """What is done to a memory: additions in batches, and between them pins, rewrites and all else."""
    batches = draw(batches_of(draw(said(most))))
    steps: list[dict[str, Any]] = []
    for batch in batches:
        steps.append({"op": "add", "messages": batch})
        steps += draw(st.lists(_other_ops(), max_size=2))
    return steps


def _other_ops() -> st.SearchStrategy[dict[str, Any]]:
    index = st.integers(0, 30)
    changed = {
        "limit": st.integers(1, 12) | st.integers(13, 250),
        "low_water": st.integers(1, 100),
        "whole_turns": st.booleans(),
        "keep_tool_results": st.none() | st.integers(0, 3),
        "reserve": st.integers(0, 150),
        "compact_keep_calls": st.none() | st.integers(1, 3),
    }
    arguments: list[tuple[str, dict[str, st.SearchStrategy[Any]]]] = [
        ("pin", {"index": index}),
        ("pin", {"index": index}),
        ("unpin", {"index": index}),
        ("clear_tool_results", {"keep": st.integers(0, 3), "exclude_tools": st.sampled_from([(), (), ("clock",)])}),
        ("set", {"left_out": st.sets(st.integers(0, 12)), "new": st.integers(0, 2)}),
        ("set_window", {"settings": st.fixed_dictionaries({}, optional=changed)}),
        ("clear", {}),
    ]
    return st.one_of(*[st.fixed_dictionaries({"op": st.just(op)} | given) for op, given in arguments])


def perform(window: NaiveWindow, op: dict[str, Any]) -> tuple[Step | None, dict[str, Any]]:
    """Do one step on the naive model.

    Returns:
        what came of it, None if it is refused or there is nothing to do it to; and the step with the messages that it
        is about.
    """
    stored = [item.message for item in window.items]
    match op["op"]:
        case "add":
            return window.add(*op["messages"]), op
        case "set":
            given = [message for index, message in enumerate(stored) if index not in op["left_out"]]
            given += [UserMessage(f"version {window.version}, {which}") for which in range(op["new"])]
            return window.set(given), op | {"messages": given}
        case "pin" | "unpin" if not stored:
            return None, {"op": "nothing"}
        case "pin":
            op = op | {"message": stored[op["index"] % len(stored)]}
            try:
                return window.pin(stored.index(op["message"])), op
            except ValueError:
                return None, op
        case "unpin":
            op = op | {"message": stored[op["index"] % len(stored)]}
            return window.unpin(stored.index(op["message"])), op
        case "clear_tool_results":
            return window.clear_tool_results(op["keep"], op["exclude_tools"]), op
        case "set_window":
            try:
                return window.set_window(**op["settings"]), op
            except ValueError:
                return None, op
    return window.clear(), op


@st.composite
def conversations(draw: st.DrawFn) -> list[Item]:
    """A conversation as applications have them, with pins: a system message perhaps, then questions and answers.

    Calls are directly followed by their results, in any order, unless the user asks on before these come. Drawn by a
    seed, for a hundred thousand of them would take hours otherwise.
    """
    random = Random(draw(st.integers(0, 2**64)))
    items = [Item(SystemMessage("be kind"), pinned=random.random() < 0.2)] if random.random() < 0.5 else []
    pins = random.choice([0, 0, 0.05, 0.2])
    for turn in range(draw(st.integers(1, 8))):
        messages: list[ChatMessage] = [UserMessage(f"question {turn}{_words(random)}")]
        for step in range(random.choice([0, 0, 1, 2, 5])):
            messages += _exchange(random, f"{turn}_{step}")
        end = random.choice(["answer", "answer", "answer", "nothing", "interrupted"])
        if end == "answer":
            messages.append(AiMessage(f"answer {turn}{_words(random)}"))
        if end == "interrupted":
            call, *results = _exchange(random, f"{turn}_last")
            messages += [call, *results[: random.randrange(len(results))]]
        items += [Item(message, pinned=random.random() < pins) for message in messages]
    return items


def _exchange(random: Random, name: str) -> list[ChatMessage]:
    ids = [f"call_{name}_{which}" for which in range(random.choice([1, 1, 1, 2, 3]))]
    call = AiMessage(random.choice([None, "let me see"]), [ToolExecutionRequest(id, "tool", "{}") for id in ids])
    random.shuffle(ids)
    return [call, *(ToolExecutionResultMessage(id, "tool", f"result{_words(random) * 2}") for id in ids)]


def _words(random: Random) -> str:
    return " word" * random.choice([0, 0, 2, 10, 30])
