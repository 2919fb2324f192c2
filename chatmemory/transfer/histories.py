"""What was said in a conversation, as other programs read it."""

from __future__ import annotations

from collections.abc import Iterator

from chatmemory.core.json_text import dumps
from chatmemory.core.messages import ChatMessage
from chatmemory.core.serialization.codec import message_to_json
from chatmemory.database.rows import read_in_parts
from chatmemory.formats import UnsupportedContentError
from chatmemory.formats.openai import to_openai
from chatmemory.models import Conversation, Message
from chatmemory.transfer.json_lines.write import message_or_problem
from chatmemory.transfer.reports import BadRecordError

__all__ = ["langchain4j_text", "openai_line"]


def langchain4j_text(conversation: Conversation) -> Iterator[str]:
    """Lines of a JSON array, as LangChain4j's ``ChatMessageSerializer`` reads it.

    Raises:
        BadRecordError: other hands wrote a row that nobody can read.
    """
    yield "[\n"
    before = ""
    for row in _rows(conversation):
        if before:
            yield f"{before},\n"
        before = message_to_json(_readable(row))
    if before:
        yield f"{before}\n"
    yield "]\n"


def openai_line(conversation: Conversation) -> str:
    """A line with the key ``messages``, as fine-tuning at OpenAI takes it. It is made at once.

    Raises:
        BadRecordError: the format has no place for a message, or nobody can read a row.
    """
    rows = list(_rows(conversation))
    try:
        return f"{dumps({'messages': to_openai([_readable(row) for row in rows], repair=False)})}\n"
    except UnsupportedContentError as error:
        raise BadRecordError(_place(rows[error.index]), error.problem) from error


def _rows(conversation: Conversation) -> Iterator[Message]:
    rows = Message.objects.using(conversation._state.db).filter(conversation=conversation)
    return read_in_parts(rows.history())


def _readable(row: Message) -> ChatMessage:
    message, problem = message_or_problem(row)
    if message is None:
        raise BadRecordError(_place(row), problem)
    return message


def _place(row: Message) -> str:
    return f"conversation {row.conversation_id}, message {row.position}"
