"""The common parts of the readers of models' answers: errors that quote the answer, its end, and its figures."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from chatmemory.assistant.errors import ModelError
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.exceptions import gettext_noop as _
from chatmemory.core.messages import AiMessage

__all__ = ["as_it_came", "broken_off", "fields_of", "readable", "token_count", "unbroken", "understood", "whole_answer"]

_MOST_SHOWN = 300

_MOST_TOKENS = 2**31 - 1
"""The most that a column of a database holds. No model reads more."""

_logger = logging.getLogger("chatmemory.assistant")


def as_it_came(answer: Any) -> str:
    """Return the beginning of what a server answered, in its own words."""
    if hasattr(answer, "model_dump"):
        answer = answer.model_dump(exclude_none=True, warnings=False)
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


@contextmanager
def understood(name: str, invalid: type[Exception]) -> Iterator[None]:
    """Raise a ``ModelError`` for an answer in the ``with`` block that is not what its header says it is.

    Args:
        name: the name of the model.
        invalid: the exception of the model's package for this; its attribute ``body`` has what came.
    """
    try:
        yield
    except invalid as error:
        answer = as_it_came(getattr(error, "body", None))
        raise ModelError(
            _("%(name)s did not answer as its header says, but: %(answer)s"), name=name, answer=answer
        ) from error
    except json.JSONDecodeError as error:
        raise ModelError(
            _("%(name)s answered with broken JSON: %(answer)s"), name=name, answer=as_it_came(error.doc)
        ) from error
    except UnicodeDecodeError as error:
        raise ModelError(
            _("%(name)s answered with text that is not %(encoding)s: %(text)s"),
            name=name,
            encoding=error.encoding,
            text=repr(error.object[:60]),
        ) from error


@contextmanager
def unbroken(name: str, passes: Callable[[Exception], bool]) -> Iterator[None]:
    """Raise a ``ModelError`` if the connection breaks in the ``with`` block, in which a stream is read.

    Args:
        name: the name of the model.
        passes: returns whether an exception says more than that the connection broke.
    """
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        # Some versions of the packages let through exceptions of their HTTP libraries.
        if passes(error):
            raise
        _logger.warning("The stream of %s broke off", name, exc_info=True)
        raise broken_off(name) from error


def broken_off(name: str) -> ModelError:
    """Return the error for an answer without an end."""
    return ModelError(_("%(name)s broke off in the middle of its answer."), name=name)


@contextmanager
def readable(name: str, answer: Any) -> Iterator[None]:
    """Raise a ``ModelError`` that quotes ``answer`` if it cannot be read in the ``with`` block."""
    try:
        yield
    except ModelError:
        raise
    except InvalidMessageError as error:
        raise ModelError(
            _("%(name)s gave an answer that cannot be kept: %(error)s"), name=name, error=str(error)
        ) from error
    except Exception as error:  # most packages check no types
        raise ModelError(
            _("%(name)s gave an answer that cannot be understood: %(answer)s"), name=name, answer=as_it_came(answer)
        ) from error


def whole_answer(name: str, message: AiMessage, why: str | None) -> AiMessage:
    """Return an answer, which says in its attribute ``cut_off`` if it was cut off.

    Args:
        name: the name of the model.
        message: what it said.
        why: why it was cut off, in words; None if it was not.

    Raises:
        ModelError: calls of tools were cut off, or the answer is empty.
    """
    if message.tool_execution_requests and why:
        raise ModelError(_("The tool calls of %(name)s were cut off: %(reason)s."), name=name, reason=why)
    if not (message.text or message.tool_execution_requests):
        raise ModelError(_("%(name)s returned an empty answer%(reason)s."), name=name, reason=f": {why}" if why else "")
    if why is None:
        return message
    # Beside the text, which stays what the model said.
    return AiMessage(
        message.text,
        message.tool_execution_requests,
        thinking=message.thinking,
        attributes={**message.attributes, "cut_off": why},
    )


def fields_of(value: Any) -> Mapping[str, Any]:
    """Return the fields of an object that a package has read; an empty mapping if the server sent no object."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(warnings=False)
    return value if isinstance(value, Mapping) else {}


def token_count(value: Any) -> int | None:
    """Return ``value`` if it is a number of tokens, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS else None
