"""Messages that left a memory for each reason there is, and what their rows say."""

from __future__ import annotations

from django.utils import timezone

from chatmemory import (
    AiMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.admin.display.memory_map import short_day
from chatmemory.models import Conversation
from tests.support.factories import ConversationFactory

__all__ = ["CALL", "EVICTED", "RESULT", "SECRETS", "today", "tokens"]

Evicted = tuple[Conversation, int, str, str]
"""A conversation, the position of the message, its folded line, and how its reason begins when it is open."""

SECRETS = ["sesame", "look_up", "theo", "c-42", "query", "mood"]

CALL = AiMessage(
    "sesame one",
    [ToolExecutionRequest("c-42", "look_up", '{"query": "sesame", "page": 2}'), ToolExecutionRequest("2", "now", "")],
    attributes={"mood": "sesame"},
)
RESULT = ToolExecutionResultMessage("c-42", "look_up", "sesame failed", is_error=True)


def today() -> str:
    return short_day(timezone.now())


def tokens(made: Conversation, position: int) -> str:
    return f"{made.messages.get(position=position).token_count} tokens"


def evicted_by_the_window() -> Evicted:
    made = ConversationFactory(window="messages", limit=1)
    made.memory.add(UserMessage("sesame", name="theo"))
    made.memory.add(UserMessage("next"))
    why = "pushed out by message 1"
    return made, 0, f"0 User theo sesame {tokens(made, 0)} {why}, {today()}", f"Evicted {why} in version 2"


def evicted_by_several() -> Evicted:
    made = ConversationFactory(window="messages", limit=2)
    made.memory.add(UserMessage("sesame"))
    made.memory.add(UserMessage("next"), AiMessage("and next"))
    why = "pushed out by messages 1 to 2"
    return made, 0, f"0 User sesame {tokens(made, 0)} {why}, {today()}", f"Evicted {why} in version 2"


def evicted_by_a_smaller_window() -> Evicted:
    made = ConversationFactory(window="messages", limit=2)
    made.memory.add(UserMessage("sesame"), UserMessage("next"))
    made.memory.set_window(limit=1)
    why = "no room in the window"
    return made, 0, f"0 User sesame {tokens(made, 0)} {why}, {today()}", f"Evicted: {why} in version 2"


def never_fitted() -> Evicted:
    made = ConversationFactory(window="tokens", limit=50)
    made.memory.add(UserMessage("hello " * 200 + "sesame"), AiMessage("yes"))
    count = made.messages.get(position=0).token_count
    why = f"larger than the whole window ({count} of 50)"
    start = " ".join(["hello"] * 26)
    return made, 0, f"0 User {start} hell… {count} tokens {why}, {today()}", f"Evicted: {why} in version 1"


def evicted_call() -> Evicted:
    made = ConversationFactory(window="messages", limit=2)
    made.memory.add(CALL, RESULT)
    made.memory.add(UserMessage("next"))
    why = "pushed out by message 2"
    line = f'0 AI look_up(query="sesame", page=2) now() sesame one {tokens(made, 0)} {why}, {today()}'
    return made, 0, line, f"Evicted {why}"


def evicted_with_its_call() -> Evicted:
    made, *_ = evicted_call()
    why = "its tool call was evicted"
    line = f"1 Tool result look_up error sesame failed {tokens(made, 1)} {why}, {today()}"
    return made, 1, line, f"Evicted: {why} pushed out by message 2"


def cleared_result() -> Evicted:
    made = ConversationFactory()
    made.memory.add(CALL, ToolExecutionResultMessage("c-42", "look_up", "sesame " * 300), AiMessage("x"))
    made.memory.add(UserMessage("next"))
    made.memory.clear_tool_results(keep=0)
    placeholder = made.messages.get(origin="cleared").position
    why = "old tool result, cleared"
    start = " ".join(["sesame"] * 22)
    line = f"1 Tool result look_up {start} sesame… {tokens(made, 1)} {why}, {today()}"
    return made, 1, line, f"Evicted: {why} message {placeholder} took its place"


def replaced_system_message() -> Evicted:
    made = ConversationFactory()
    made.memory.add(SystemMessage("sesame"))
    made.memory.add(SystemMessage("new"))
    why = "replaced by a new system message"
    return made, 0, f"0 System sesame {tokens(made, 0)} {why}, {today()}", f"Evicted: {why} pushed out by message 1"


def dropped_synthetic() -> Evicted:
    made = ConversationFactory()
    made.memory.set([UserMessage("sesame")])
    made.memory.set([UserMessage("another")])
    why = "dropped by a rewrite"
    return made, 0, f"0 User synthetic sesame {tokens(made, 0)} {why}, {today()}", f"Evicted: {why} in version 2"


def cleared_with_the_memory() -> Evicted:
    made = ConversationFactory()
    made.memory.add(CustomMessage({"mood": "sesame"}))
    made.memory.clear()
    why = "the memory was cleared"
    return made, 0, f"0 Custom {tokens(made, 0)} {why}, {today()}", f"Evicted: {why} in version 2"


EVICTED = [
    evicted_by_the_window,
    evicted_by_several,
    evicted_by_a_smaller_window,
    never_fitted,
    evicted_call,
    evicted_with_its_call,
    cleared_result,
    replaced_system_message,
    dropped_synthetic,
    cleared_with_the_memory,
]
