"""What must be true of a conversation with the model of ``tests.support.asgi_site``, whoever failed or went away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chatmemory import AiMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.models import Message

__all__ = ["check_talk"]


def check_talk(rows: Iterable[Message], asked: set[str], answered: Mapping[str, str]) -> None:
    """
    Args:
        rows: all messages of the conversation, in order. A question that was asked again is there as a synthetic copy.
        asked: what clients sent.
        answered: of these, what was acknowledged, and the answer.

    Raises:
        AssertionError: something is lost, there twice, out of place, or was never said.
    """
    rows = list(rows)
    users = [row.text for row in rows if isinstance(row.message, UserMessage) and not row.synthetic]
    assert len(users) == len(set(users)), "something is there twice"
    assert asked.issuperset(users), "something is there that nobody sent"
    answers: dict[str, str] = {}
    pending: list[str] = []
    calls: list[str | None] = []
    for message in [row.message for row in rows]:
        if isinstance(message, ToolExecutionResultMessage):
            assert calls, "a result without a call"
            assert calls.pop(0) == message.id
            continue
        assert not calls, "a call without a result"
        if isinstance(message, UserMessage):
            pending.append(message.single_text())
        elif isinstance(message, AiMessage) and message.tool_execution_requests:
            calls = [request.id for request in message.tool_execution_requests]
        elif isinstance(message, AiMessage):
            assert pending, "an answer that nobody waited for"
            assert message.text == f"Re: {' | '.join(pending)}"
            answers |= dict.fromkeys(pending, message.text)
            pending = []
    assert answered.items() <= answers.items(), "what was acknowledged is not what was stored"
