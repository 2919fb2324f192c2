"""Random changes of a conversation: additions, rewrites, windows, pins, summaries, and going back."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import strategies as st

from chatmemory import UserMessage
from chatmemory.contrib.native_memory import NativeMemory
from chatmemory.database.operations.compaction_plan import plan_compaction
from chatmemory.models import Conversation
from tests.support.strategies import json_values, messages, tool_groups

__all__ = ["do", "steps"]


@st.composite
def steps(draw: st.DrawFn) -> list[Any]:
    """What is done to a conversation, one after the other."""
    additions = st.tuples(st.just("add"), st.lists(messages(), max_size=3) | tool_groups())
    keyed = st.tuples(st.just("key"), st.lists(messages(), min_size=1, max_size=2))
    natively = st.tuples(st.just("native"), messages(), json_values())
    sets = st.tuples(st.just("set"), st.lists(messages(), max_size=3))
    windows = st.tuples(st.just("window"), st.sampled_from(["messages", "tokens"]), st.integers(1, 60))
    marks = st.tuples(st.just("marks"), st.integers(1, 100), st.booleans(), st.none() | st.integers(0, 2))
    pins = st.tuples(st.sampled_from(["pin", "unpin"]), st.integers(0, 5))
    others = st.sampled_from([("clear",), ("clear results",), ("compact",)])
    back = st.tuples(st.sampled_from(["rewind", "switch", "edit"]), st.integers(0, 12))
    return draw(st.lists(additions | keyed | natively | sets | windows | marks | pins | others | back, max_size=10))


def do(conversation: Conversation, all_steps: list[Any]) -> None:
    for number, (what, *details) in enumerate(all_steps):
        if what == "add":
            conversation.memory.add(*details[0])
        elif what == "key":
            conversation.memory.add(*details[0], idempotency_key=f"key {number}")
        elif what == "native":
            NativeMemory("fw", conversation.memory_id, conversation.owner).add([details[0]], [details[1]])
        elif what == "set":
            conversation.memory.set([*conversation.memory.messages()[-2:], *details[0]])
        elif what == "window":
            with suppress(ValueError):  # pins may need more
                conversation.memory.set_window(window=details[0], limit=details[1])
        elif what == "marks":
            low_water, whole_turns, keep = details
            conversation.memory.set_window(low_water=low_water, whole_turns=whole_turns, keep_tool_results=keep)
        elif what in ("pin", "unpin"):
            with suppress(ValueError):
                getattr(conversation.memory, what)(details[0])
        elif what == "rewind":
            with suppress(ValueError):  # there may be no such message, or it may be a tool result
                conversation.rewind(before=details[0])
        elif what == "switch":
            with suppress(ValueError):
                conversation.switch(details[0])
        elif what == "edit":
            with suppress(ValueError):
                conversation.edit(details[0], UserMessage(f"edit {number}"))
        elif what == "clear results":
            conversation.memory.clear_tool_results(keep=0, placeholder="x")
        elif what == "compact":
            plan = plan_compaction(conversation, keep=0, summary_tokens=0)
            with suppress(ValueError):  # it may be no smaller, or the window too small
                if plan is not None:
                    conversation.memory.apply_compaction(plan, "So far.")
        else:
            conversation.memory.clear()
