"""Messages in the formats of models' APIs, to and fro.

All but ``chatmemory.formats.registry``, which reads a setting, are pure functions that need neither Django nor
anybody's SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chatmemory.core.exceptions import CodedError, InvalidValueError
from chatmemory.core.messages import ChatMessage

if TYPE_CHECKING:
    from chatmemory.formats.validity import Repair

__all__ = ["CannotExpressError", "MessageFormat", "UnsupportedContentError", "naming_message"]


class UnsupportedContentError(CodedError, ValueError):
    """A message that a format cannot express, and that the model would miss if it were left out."""

    code = "not_expressible"

    def __init__(self, problem: CannotExpressError, index: int, message: ChatMessage) -> None:
        """
        Args:
            problem: what the format cannot express.
            index: the message's index among those to be written.
            message: the message.
        """
        self.problem = str(problem)
        self.index = index
        super().__init__(
            "message %(index)s (%(type)s): %(problem)s", index=index, type=str(message.type), problem=problem
        )


class CannotExpressError(CodedError):
    """The error of ``naming_message``, raised where the message's index is not known."""

    code = "not_supported"


@contextmanager
def naming_message(messages: Sequence[ChatMessage] | Mapping[int, ChatMessage], index: int) -> Iterator[None]:
    """Raise an ``UnsupportedContentError``, which names the message, for a ``CannotExpressError``."""
    try:
        yield
    except CannotExpressError as error:
        raise UnsupportedContentError(error, index, messages[index]) from None


@dataclass(frozen=True, kw_only=True)
class MessageFormat:
    """A way to write messages as JSON."""

    title: str
    """The name for people."""

    write: Callable[..., Any]
    """The writer of a whole memory, made acceptable to a model: it is called with the messages, and with a function (or
    None) that it calls with each repair.

    It raises ``UnsupportedContentError``.
    """

    binds_thinking: bool = False
    """Whether the API binds thinking to all that was said before it.

    Then ``write`` takes ``thinking=`` as well: the indexes of the messages before which nothing has changed.
    """

    marks_cache: bool = False
    """Whether requests need marks for the provider's prompt cache, which ``write`` sets with ``cache=``."""

    write_each: Callable[[Sequence[ChatMessage]], list[Any]] | None = None
    """The writer of one JSON value a message, as a record of what was said; None if the format has no such values.

    It raises ``UnsupportedContentError``.
    """

    write_history: Callable[[Callable[[], Iterable[ChatMessage]]], Iterator[Any]] | None = None
    """The writer of the same values for messages that need not be in memory all at once; None if there is none.

    It is called with a function that returns the messages, each time that it is called.
    """

    read: Callable[[Any, str], list[ChatMessage]] | None = None
    """The reader of parsed JSON, which errors call the second argument; None if the format cannot be read.

    It raises ``InvalidMessageError``. REST passes a list of values such as ``write_each`` returns.
    """

    attributes: tuple[str, ...] = ()
    """The attributes in which ``read`` keeps what messages have no place for, and from which ``write`` takes it.

    What a browser says in a turn has none of them.
    """

    schemas: Mapping[str, Any] = field(default_factory=dict)
    """The JSON Schemas of the format by name, for OpenAPI documents: first that of a value of ``write_each``, or
    without it of what ``write`` returns; then those that it refers to, as ``{"$ref": name}``. Empty: it is anything.
    """

    def write_memory(
        self,
        messages: Sequence[ChatMessage],
        fresh: Collection[int],
        on_repair: Callable[[Repair], object] | None = None,
        *,
        cache: Any = False,
    ) -> Any:
        """Write a whole memory with the thinking that the API still takes.

        Args:
            messages: the memory.
            fresh: the indexes of the messages before which nothing has changed since they were added.
            on_repair: is called with each repair.
            cache: the argument of ``write`` if the format marks what is cached.

        Raises:
            UnsupportedContentError: the format cannot express a message.
            InvalidValueError: ``cache`` for a format without marks.
        """
        if cache is not False and not self.marks_cache:
            raise InvalidValueError("%(format)s has no marks for a cache; leave cache out", format=self.title)
        options: dict[str, Any] = {"thinking": fresh} if self.binds_thinking else {}
        return self.write(messages, on_repair, **options, **({"cache": cache} if self.marks_cache else {}))
