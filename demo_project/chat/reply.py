"""Makes the model answer, from wherever the conversation stands: after a failure the same call goes on from there."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from django.db import OperationalError

from chatmemory.exceptions import IdempotencyConflictError
from chatmemory.formats.registry import message_format
from chatmemory.ledger import Change
from chatmemory.messages import AiMessage, ChatMessage
from chatmemory.models import Conversation, Message
from chatmemory.rest.serializers import change_to_data
from demo_project.chat.speakers import Speaker, SpeakerError
from demo_project.chat.tools import run_tool

__all__ = ["reply_events"]

_MAX_STEPS = 12
"""Answers and rounds of tools in a row, for a model that never stops calling tools."""

_logger = logging.getLogger("demo_project.chat")


def reply_events(conversation: Conversation, speaker: Speaker) -> Iterator[dict[str, Any]]:
    """What happens until nobody waits for the model any more.

    - ``delta``: more ``text`` of the answer that is being made
    - ``change``: what was added and evicted, as ``POST messages/`` of the API says it
    - ``stale``: somebody else made the model answer at the same time; read the conversation again
    - ``error``: ``detail`` says why there is no answer; everything said so far is kept. Without ``again`` there
      never will be one, and one has to say it anew
    - ``done``: the model has answered
    """
    try:
        for _step in range(_MAX_STEPS):
            last = conversation.messages.history().last()
            if last is None or not _waits(last.message):
                yield {"event": "done"}
                return
            yield from _go_on(conversation, last, speaker)
        yield _error(f"The model called tools {_MAX_STEPS // 2} times in a row. Ask it again if it may go on.")
    except IdempotencyConflictError:
        yield {"event": "stale"}
    except SpeakerError as error:
        yield _error(str(error), again=error.again)
    except Conversation.DoesNotExist:
        yield _error("This conversation has been erased.")
    except OperationalError:
        _logger.exception("The database does not answer")
        yield _error("The database does not answer.")
    except Exception:
        _logger.exception("The demo failed")
        yield _error("The demo itself failed. What happened is in the terminal that it runs in.")


def _waits(message: ChatMessage) -> bool:
    """Whether something has to follow ``message``."""
    if isinstance(message, AiMessage):
        return bool(message.tool_execution_requests)
    return message.type in ("USER", "TOOL_EXECUTION_RESULT")


def _go_on(conversation: Conversation, last: Message, speaker: Speaker) -> Iterator[dict[str, Any]]:
    """One step: run the tools that were called, or have the model speak.

    The keys name the message that the step follows, so that two that go on at the same time add one outcome.
    """
    message = last.message
    if isinstance(message, AiMessage):
        results = [run_tool(request) for request in message.tool_execution_requests]
        yield _change(conversation.add_messages(results, idempotency_key=f"demo-results-{last.position}"))
        return
    if not last.is_retained:
        raise SpeakerError(
            "The window is too small for the last message: it left the memory at once, and the model never sees it. "
            "Make the window larger or the message shorter, then say it again.",
            again=False,
        )
    for piece in (pieces := _Pieces(speaker, conversation.memory.messages())):
        yield {"event": "delta", "text": piece}
    yield _change(conversation.add_messages([pieces.whole], idempotency_key=f"demo-answer-{last.position}"))


class _Pieces:
    """The pieces of an answer, and then the whole."""

    whole: AiMessage

    def __init__(self, speaker: Speaker, messages: list[ChatMessage]) -> None:
        self._spoken = speaker.speak(messages)

    def __iter__(self) -> Iterator[str]:
        self.whole = yield from self._spoken


def _change(change: Change) -> dict[str, Any]:
    return {"event": "change", **change_to_data(change, message_format("langchain4j"))}


def _error(detail: str, *, again: bool = True) -> dict[str, Any]:
    return {"event": "error", "detail": detail, "again": again}
