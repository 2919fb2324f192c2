"""Making the model answer, from wherever the conversation stands; after a failure the same call continues."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from django.db import InterfaceError, OperationalError

from chatmemory import AiMessage, SystemMessage
from chatmemory.assistant import Added, Assistant, AssistantError, ChatModel, TurnLostError, WindowTooSmallError
from chatmemory.compaction import project_summarizer
from chatmemory.models import Conversation
from demo_project.chat.speakers import EmbeddedBot
from demo_project.chat.tools import TOOLS

__all__ = ["reply_events", "stop"]

_MAX_INVOCATIONS = 6
"""Rounds of tools in a row, for a model that never stops calling tools."""

_WAIT = 30.0
"""Seconds to wait while another page has the model answer."""

_FORGOTTEN = (
    "The window is too small: the last message was forgotten before it was answered. Make the window larger or the "
    "message shorter, then say it again."
)

_logger = logging.getLogger("demo_project.chat")


def reply_events(conversation: Conversation, model: ChatModel) -> Iterator[dict[str, Any]]:
    """Yield what happens until the model has answered or cannot.

    - ``delta``: more ``text`` of the answer that is being made
    - ``change``: what was added and evicted, as ``POST messages/`` of the API answers it
    - ``stale``: somebody else made the model answer at the same time; read the conversation again
    - ``error``: ``detail`` says why there is no answer; all messages so far are kept. Without ``again`` trying again
      is of no use: the message has to be sent once more
    - ``done``: the model has answered
    """
    try:
        yield from _events(conversation, model)
    except TurnLostError:
        yield {"event": "stale"}
    except AssistantError as error:
        yield _error(str(error), again=not isinstance(error, WindowTooSmallError))
    except Conversation.DoesNotExist:
        yield _error("This conversation has been erased.")
    except (InterfaceError, OperationalError):
        _logger.exception("The database does not answer")
        yield _error("The database does not answer.")
    except Exception:
        _logger.exception("The demo failed")
        yield _error("The demo itself failed. The error is in the terminal that it runs in.")


def stop(conversation: Conversation) -> None:
    """Stop the answer in progress. The server may not notice that nobody reads it any more."""
    _assistant(conversation, EmbeddedBot()).interrupt(conversation.pk)


def _assistant(conversation: Conversation, model: ChatModel) -> Assistant:
    return Assistant(
        model,
        memory=lambda _: conversation.memory,
        tools=TOOLS,
        max_sequential_tools_invocations=_MAX_INVOCATIONS,
        wait_timeout=_WAIT,
    )


def _events(conversation: Conversation, model: ChatModel) -> Iterator[dict[str, Any]]:
    last = conversation.messages.history().exclude(type=SystemMessage.type).last()
    if last is None or (isinstance(last.message, AiMessage) and not last.message.tool_execution_requests):
        yield {"event": "done"}
        return
    if not last.is_retained:
        yield _error(_FORGOTTEN, again=False)
        return
    has_answered = False
    for event in _assistant(conversation, model).stream(conversation.pk):
        if isinstance(event, Added):
            has_answered = True
            assert event.change is not None
            yield {"event": "change", **event.change.to_data("langchain4j")}
        else:
            yield {"event": "delta", "text": event}
    if has_answered:
        yield from _summarised(conversation)
    yield {"event": "done" if has_answered else "stale"}


def _summarised(conversation: Conversation) -> Iterator[dict[str, Any]]:
    """Yield what a summary changed, if one is due. The answer is there already: a failure takes nothing from it."""
    try:
        change = conversation.memory.compact(project_summarizer(), if_due=True)
    except (InterfaceError, OperationalError, Conversation.DoesNotExist):
        raise
    except Exception:
        _logger.exception("No summary was made")  # the admin shows it, and when it is tried again
        return
    if change is not None:
        yield {"event": "change", **change.to_data("langchain4j")}


def _error(detail: str, *, again: bool = True) -> dict[str, Any]:
    return {"event": "error", "detail": detail, "again": again}
