"""The exceptions that several parts of this app raise, and the error for an extra that is not installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

CODES = {
    "invalid": "the value is invalid for another reason",
    "required": "a value is missing",
    "null": "the value must not be null",
    "blank": "the text has no characters other than whitespace",
    "empty": "a list has no items",
    "invalid_type": "the value has the wrong JSON type",
    "invalid_choice": "the value is not one of the allowed values",
    "unknown_field": "the field or parameter does not exist",
    "repeated": "the value was given more than once",
    "max_length": "the value is too long",
    "max_value": "the number is too large",
    "min_value": "the number is too small",
    "invalid_characters": "the text contains characters that databases cannot store",
    "not_supported": "the content cannot be stored, or the format cannot express it",
}
"""The codes of errors in values, with their meanings. They are those of Django REST framework where it has one."""


def gettext_noop(message: str) -> str:
    """Mark ``message`` for translation, like Django's function of this name, but without Django."""
    return message


class CodedError(Exception):
    """An error with a code for programs, and a message for people: a template and its parameters.

    It is constructed like Django's ``ValidationError``. ``str()`` returns English; ``text()`` translates.
    """

    code = "invalid"
    """The name of the error for programs. It stays the same when the message changes."""

    message: str
    """The English template, with placeholders such as ``%(name)s``."""

    params: dict[str, Any]
    """The values of the placeholders: JSON values (the items of a list are joined by commas), or errors."""

    def __init__(self, message: str, /, *, code: str | None = None, **params: Any) -> None:
        """Args:
        message: a template. If there are ``params``, write ``%%`` for a ``%``.
        code: by default the code of the class.
        params: the values of the placeholders.
        """
        # Exception.__new__ has stored the arguments, from which copy and pickle make the error again.
        self.message = message
        self.params = params
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return self.text()

    def text(self, gettext: Callable[[str], str] = gettext_noop) -> str:
        """Return the message, translated by ``gettext``."""
        told = {name: _told(value, gettext) for name, value in self.params.items()}
        text = gettext(self.message)
        # The text may quote input with a lone surrogate, which cannot be printed.
        return (text % told if told else text).encode("utf-8", "backslashreplace").decode()


def _told(value: Any, gettext: Callable[[str], str]) -> Any:
    if isinstance(value, CodedError):
        return value.text(gettext)
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


class InvalidValueError(CodedError, ValueError):
    """A value that is not valid for its argument or setting."""


class InvalidMessageError(CodedError, ValueError):
    """A message from outside that is not valid."""

    place: str
    """The path to the value in the JSON, such as ``[3].contents[0].text``. Empty for the whole document."""

    def __init__(self, problem: str | Exception, place: str = "", /, *, code: str | None = None, **params: Any) -> None:
        """Args:
        problem: the template of the message; or an error, whose message, code and parameters are used.
        place: the path to the value.
        code: as for ``CodedError``.
        params: as for ``CodedError``.
        """
        if isinstance(problem, CodedError):
            code, params, problem = problem.code, problem.params, problem.message
        super().__init__(str(problem), code=code, **params)
        self.place = place.encode("utf-8", "backslashreplace").decode()

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}" if self.place else self.problem

    @property
    def problem(self) -> str:
        """The message without the field path."""
        return self.text()


class IdempotencyConflictError(CodedError, ValueError):
    """An idempotency key that was already used for another request."""

    code = "idempotency_key_reused"


class MemoryTooLargeError(CodedError, ValueError):
    """A memory that is, or would become, larger than the caller allows."""

    code = "memory_too_large"

    def __init__(self, count: int, chars: int, most_messages: int, most_chars: int) -> None:
        """Args:
        count: the number of messages.
        chars: the number of their characters.
        most_messages: the maximum number of messages.
        most_chars: the maximum number of characters.
        """
        super().__init__(
            gettext_noop(
                "The memory has, or would have, %(count)s messages and %(chars)s characters; at most %(most_messages)s "
                "messages and %(most_chars)s characters are allowed. Clear the memory, or create the conversation with "
                "a smaller window."
            ),
            count=count,
            chars=chars,
            most_messages=most_messages,
            most_chars=most_chars,
        )


class NotRetainedError(CodedError, ValueError):
    """A position that is not in the memory."""

    code = "not_retained"


class PinnedTooMuchError(CodedError, ValueError):
    """Pinned messages, with the messages that stay with them, that would take more than half of the limit."""

    code = "pinned_too_much"

    def __init__(self, cost: int, limit: int, unit: str) -> None:
        """Args:
        cost: the part of ``limit`` that the messages take.
        limit: the limit of the window.
        unit: the unit of both, ``"messages"`` or ``"tokens"``.
        """
        self.cost = cost
        self.limit = limit
        self.unit = unit
        super().__init__(
            "pinned messages, with the calls, results and questions that stay with them, would take %(cost)s of "
            "%(limit)s %(unit)s, more than half; unpin some, or choose a limit of at least %(least)s",
            cost=cost,
            limit=limit,
            unit=str(unit),
            least=cost * 2,
        )


class UnusableSummaryError(CodedError, ValueError):
    """A summary that cannot replace messages. The messages stay unchanged."""


class SummarizerTimeoutError(TimeoutError):
    """A summarizer that took longer than the setting ``SUMMARIZER_TIMEOUT`` allows. Nothing has changed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the summarizer did not end within {seconds:g} seconds, the setting SUMMARIZER_TIMEOUT")


@contextmanager
def extra(name: str) -> Iterator[None]:
    """If an import in the ``with`` block fails, say in the error how to install the extra ``name``.

    Raises:
        ImportError: a package of the extra is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(f'{error}. Install it: pip install "django-chatmemory[{name}]"') from error
