"""The history of a conversation, in the formats of other programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any
from zlib import compress, decompress

from django.db.models import Q

from chatmemory.core.json_text import dumps
from chatmemory.core.messages import ChatMessage, ChatMessageType
from chatmemory.core.serialization import message_to_json
from chatmemory.database.reading import read_in_parts, rows_of
from chatmemory.formats import MessageFormat, UnsupportedContentError
from chatmemory.formats.registry import BUILT_IN
from chatmemory.models import Conversation, Message
from chatmemory.transfer.export import message_or_problem
from chatmemory.transfer.records import BadRecordError

WriteEach = Callable[[list[ChatMessage]], list[Any]]
"""A format's ``write_each``: one JSON value for each message."""

_AT_ONCE = 100

# Rows whose columns are a message whatever they say: these can always be read.
_PLAIN = Q(payload__isnull=True, type__in=[ChatMessageType.SYSTEM, ChatMessageType.USER, ChatMessageType.AI])


class NotExportableError(BadRecordError):
    """A message that a format cannot express, or whose row cannot be read."""

    def __init__(self, row: Message, problem: str) -> None:
        """
        Args:
            row: the message's row.
            problem: what is wrong.
        """
        self.row = row
        super().__init__(f"conversation {row.conversation_id}, message {row.position}", problem)


def history_text(conversation: Conversation, format: MessageFormat) -> Iterable[str]:
    """Return the parts of a JSON array with one value for each message of the history.

    LangChain4j's array is read and written while the caller iterates; that of the other built-in formats is written
    before, and kept compressed. One of a project's format is in memory at once, since its values may depend on each
    other. In any case a problem is raised here, before the first part.

    Args:
        conversation: the conversation.
        format: a format with ``write_each``.

    Raises:
        NotExportableError: the format cannot express a message, or a row cannot be read.
    """
    if format is BUILT_IN["langchain4j"]:
        for row in read_in_parts(rows_of(conversation).history().exclude(_PLAIN)):
            _message(row)
        return langchain4j_lines(conversation)
    if format.write_history is None:
        assert format.write_each is not None
        return [dumps(_values(conversation, format.write_each))]
    try:
        texts = map(dumps, format.write_history(lambda: map(_message, _history(conversation))))
        kept = [compress(",".join(some).encode("utf-8", "surrogatepass"), 1) for some in _chunks(texts)]
    except UnsupportedContentError as error:
        raise NotExportableError(_nth(conversation, error.index), error.problem) from error
    return _array(kept)


def _chunks(texts: Iterator[str]) -> Iterator[list[str]]:
    while some := list(islice(texts, _AT_ONCE)):
        yield some


def _array(kept: list[bytes]) -> Iterator[str]:
    yield "["
    for number, some in enumerate(kept):
        yield f"{',' if number else ''}{decompress(some).decode('utf-8', 'surrogatepass')}"
    yield "]"


def _nth(conversation: Conversation, index: int) -> Message:
    return next(islice(_history(conversation), index, None))


def langchain4j_lines(conversation: Conversation) -> Iterator[str]:
    """Yield a JSON array as LangChain4j's ``ChatMessageSerializer`` writes it, with one message on each line.

    Raises:
        NotExportableError: a row cannot be read.
    """
    line = ""
    for row in _history(conversation):
        yield f"{line},\n" if line else "[\n"
        line = message_to_json(_message(row))
    yield f"{line}\n]\n" if line else "[]"


def openai_line(conversation: Conversation) -> str:
    """Return a line of JSON with the key ``messages``, as OpenAI's fine-tuning takes it.

    It takes what the API takes, and the last message must be an answer: what comes after the last one is left out.

    Raises:
        NotExportableError: the format cannot express a message, or a row cannot be read.
        BadRecordError: there is no answer.
    """
    from chatmemory.formats.openai import to_openai

    messages = _values(conversation, partial(to_openai, extras=False))
    while messages and (messages[-1]["role"] != "assistant" or "tool_calls" in messages[-1]):
        messages.pop()
    if not messages:
        problem = "there is no answer in it, and fine-tuning takes no conversation without one"
        raise BadRecordError(f"conversation {conversation.pk}", problem)
    return f"{dumps({'messages': messages})}\n"


def _values(conversation: Conversation, write_each: WriteEach) -> list[Any]:
    rows = list(_history(conversation))
    try:
        return write_each([_message(row) for row in rows])
    except UnsupportedContentError as error:
        raise NotExportableError(rows[error.index], error.problem) from error


def _history(conversation: Conversation) -> Iterator[Message]:
    return read_in_parts(rows_of(conversation).history())


def _message(row: Message) -> ChatMessage:
    message, problem = message_or_problem(row)
    if message is None:
        raise NotExportableError(row, problem)
    return message
