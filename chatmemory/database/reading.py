"""Read the rows of conversations: in batches, as a memory, and as the request before an answer.

The prefix of an answer is everything before it in the memory. Anthropic signs a model's thinking for its prefix, and
may refuse a request with thinking whose prefix has changed. An addition at the end leaves every prefix unchanged. After
any other change, the thinking of all existing messages is stale. Therefore, one number for each conversation is enough:
the version of the last such change.

The request before an answer contains the memory of the version before, and the messages that the answer's own change
added before the answer and kept. It does not contain placeholders of that change, which were inserted at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from django.db.models import BigIntegerField, F, Max, Model, Q, QuerySet, Value
from django.db.models.functions import Coalesce, Left, Length

from chatmemory.conf import setting
from chatmemory.core.exceptions import MemoryTooLargeError
from chatmemory.core.messages import ChatMessage, ChatMessageType
from chatmemory.database.connections import retry
from chatmemory.formats.registry import message_format
from chatmemory.models import ORDER_STEP, Conversation, ConversationQuerySet, Message, MessageQuerySet, Origin
from chatmemory.models.branch import PLACE, on_current_branch
from chatmemory.models.conversation import alias_for_writes
from chatmemory.signals import memory_repaired

if TYPE_CHECKING:
    from chatmemory.formats.validity import Repair

ROWS_AT_ONCE = 500
"""The maximum number of rows in one statement: SQLite limits parameters, MariaDB limits bytes."""

CHARS = Length("text") + Coalesce(Length("payload"), 0) + Coalesce(Length("native"), 0)
"""The number of characters of a message, counted by the database."""

_ROWS = 500
_CHARS = 1_000_000

# With a column of 32 bits, PostgreSQL's driver may send the number as 32 bits, and drop the rest.
_ORDER_AT_THE_END = F("position") * Value(ORDER_STEP, BigIntegerField())
_MOVED = Q(type=ChatMessageType.SYSTEM.value) | ~Q(memory_order=_ORDER_AT_THE_END)

NOT_AT_THE_END = Q(position__gt=0) & _MOVED
"""The condition for rows for which ``is_at_the_end`` is false."""

_NEAR = 1000

WORDS_READ = 200
"""The maximum number of characters that are read of a message for its beginning in a list."""

_LONGEST_NAME = 60
_BEGINNING = 10  # messages, one of which is the user's
_END = 20  # messages, one of which is not a tool's

ANSWERS = Q(type=ChatMessageType.AI.value, origin=Origin.SAID)
"""The condition for rows for which ``is_answer`` is true."""

T = TypeVar("T")
M = TypeVar("M", bound=Model)
Row = TypeVar("Row", bound="PastRow")
Kept = TypeVar("Kept")


@dataclass(frozen=True)
class MemoryBound:
    """The maximum memory that a caller reads at once.

    A window does not bound characters: thinking, attributes and media may be long, with few tokens or none.
    """

    messages: int

    chars: int
    """The characters of text, attributes and native forms, as in ``CHARS``."""

    def allows(self, messages: int, chars: int) -> bool:
        """Return whether a memory of this size is small enough."""
        return messages <= self.messages and chars <= self.chars

    def check(self, messages: int, chars: int) -> None:
        """Raise an error if a memory of this size is too large.

        Raises:
            MemoryTooLargeError: the memory is too large.
        """
        if not self.allows(messages, chars):
            raise MemoryTooLargeError(messages, chars, self.messages, self.chars)


def request_bound() -> MemoryBound:
    """Return the maximum memory that one request reads, from the settings."""
    return MemoryBound(setting("MAX_MEMORY_MESSAGES"), setting("MAX_MEMORY_CHARS"))


def rows_of(conversation: Conversation) -> MessageQuerySet:
    """Return the messages of a conversation, in the database from which it was read."""
    return Message.objects.using(conversation._state.db).filter(conversation=conversation)


def on_primary(conversations: QuerySet[Conversation] | None) -> ConversationQuerySet:
    """Return ``conversations`` (None means all) in the database for writes, unless ``using()`` named another."""
    chosen: Any = Conversation.objects.all() if conversations is None else conversations
    rows: ConversationQuerySet = chosen.using(alias_for_writes(chosen))
    return rows


def display_titles(conversations: Iterable[Conversation]) -> dict[Any, str]:
    """Return the names of conversations without a title, by primary key, in one statement: see ``name_from``.

    A conversation is left out if it has a title, or if none of its first messages is a text of the user, for example
    because they were erased. The names may be shown only to users who may read message text.
    """
    untitled = [each for each in conversations if not each.title and each.message_count]
    if not untitled:
        return {}
    rows = Message.objects.using(untitled[0]._state.db).filter(
        conversation__in=[each.pk for each in untitled],
        position__lt=_BEGINNING,
        type=ChatMessageType.USER.value,
        origin=Origin.SAID,
    )
    texts = rows.order_by("-position").values_list("conversation_id", Left("text", WORDS_READ))
    return {pk: name for pk, text in texts if (name := name_from(text))}


def last_words(conversations: Sequence[Conversation]) -> dict[Any, str]:
    """Return the beginnings of the last texts of the user or the model, by the conversation's primary key.

    In one statement. A conversation is left out if none of its last messages has such a text.
    """
    if not conversations:
        return {}
    ends = [Q(conversation=each.pk, position__gte=max(0, each.next_position - _END)) for each in conversations]
    rows = Message.objects.using(conversations[0]._state.db).filter(
        Q(*ends, _connector=Q.OR),
        on_current_branch(),
        type__in=(ChatMessageType.USER.value, ChatMessageType.AI.value),
        origin__in=(Origin.SAID, Origin.RESTORED),
    )
    texts = rows.exclude(text="").order_by(PLACE).values_list("conversation_id", Left("text", WORDS_READ))
    return dict(texts)


def name_from(words: str | None) -> str:
    """Return the name of a conversation without a title from its first words: a line of at most 60 characters."""
    line = " ".join((words or "").split())
    if len(line) <= _LONGEST_NAME:
        return line
    start, _, _ = line[: _LONGEST_NAME - 1].rpartition(" ")
    # Without a space near the end, as in Chinese, it is cut within a word.
    return f"{start if len(start) > _LONGEST_NAME // 2 else line[: _LONGEST_NAME - 1]}…"


def chunks(rows: list[T], size: int = ROWS_AT_ONCE) -> Iterator[list[T]]:
    """Yield ``rows`` in batches for one statement each."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def pages(rows: QuerySet[M], size: int = 100, by: str = "pk") -> Iterator[list[M]]:
    """Yield every row once, in pages by a key.

    ``iterator()`` would take one statement, but MariaDB's driver fetches all its rows at once, and PostgreSQL's driver
    opens a server-side cursor, which reads rows of other processes behind a pooler in transaction mode.

    Args:
        rows: the rows, in any order. Rows may be added and deleted meanwhile.
        size: the number of rows of a page, greater than zero.
        by: a unique field, by which the rows are ordered.
    """
    ordered = rows.order_by(by)
    page = retry(rows.db, lambda: list(ordered[:size]))
    while page:
        last = getattr(page[-1], by)
        yield page
        if len(page) < size:
            return
        following = ordered.filter(**{f"{by}__gt": last})[:size]
        page = retry(rows.db, partial(list, following))


def in_parts(rows: QuerySet[M], size: int = 200) -> Iterator[M]:
    """Yield every row once, read in ``pages``."""
    for page in pages(rows, size):
        yield from page


def read_in_parts(rows: QuerySet[Message, T], after: int = -1) -> Iterator[T]:
    """Yield the rows of one conversation after a position, in parts that stay small however long the messages are."""
    while True:
        sizes = list(rows.filter(position__gt=after).order_by("position").values_list("position", CHARS)[:_ROWS])
        chars = 0
        for index, (position, length) in enumerate(sizes):
            chars += length
            if index + 1 == len(sizes) or chars + sizes[index + 1][1] > _CHARS:
                yield from rows.filter(position__gt=after, position__lte=position).order_by("position")
                after, chars = position, 0
        if len(sizes) < _ROWS:
            return


def read_rows(conversation: Conversation) -> list[Message]:
    """Return the rows of a conversation's memory, in order.

    They are of the version in ``conversation``. If evicted rows are deleted, this version may be gone. Then
    ``conversation`` is refreshed, and the rows are of its new version.
    """
    while True:
        rows = list(rows_of(conversation).in_memory_at(conversation.version))
        if setting("KEEP_HISTORY"):
            return rows
        version = conversation.version
        conversation.refresh_from_db(using=conversation._state.db)
        if conversation.version == version:
            return rows


def is_at_the_end(row: Message) -> bool:
    """Return whether a row was added at the end of what the model gets.

    APIs take the system message separately, before all others, wherever it is in the memory.
    """
    return row.position == 0 or (row.type != ChatMessageType.SYSTEM and row.memory_order == row.position * ORDER_STEP)


def prefix_version_at(conversation: Conversation, version: int, *, last: int | None = None) -> int:
    """Return the ``prefix_version`` at a past version of ``conversation``.

    Args:
        conversation: the conversation.
        version: the version.
        last: the last position of the version, if known. Then no later message is read.
    """
    if conversation.prefix_version <= version:
        return conversation.prefix_version
    if conversation.purged_count:
        return version  # unknown for deleted rows
    rows = rows_of(conversation).order_by()
    left = rows.filter(evicted_in__lte=version).order_by("-evicted_in", "-memory_order")
    latest, behind = left.values_list("evicted_in", "position").first() or (None, 0)
    # What was added in a later version than the last eviction comes after the evicted message. There is one lower bound
    # of the positions, because SQLite would use any of several.
    came = rows.filter(_MOVED, added_in__lte=version, position__gt=behind)
    if last is not None:
        came = came.filter(position__lte=last)
    return max(latest or 0, came.aggregate(version=Max("added_in"))["version"] or 0)


def fresh_rows(rows: Iterable[Message], prefix_version: int) -> list[int]:
    """Return the indexes of the rows that were added after ``prefix_version``."""
    return [index for index, row in enumerate(rows) if row.added_in > prefix_version]


class PastRow(Protocol):
    """The columns of a row that identify the speaker."""

    @property
    def type(self) -> str: ...

    @property
    def origin(self) -> str: ...


def is_answer(row: PastRow) -> bool:
    """Return whether the message is an answer of the model."""
    return row.type == ChatMessageType.AI and row.origin == Origin.SAID


def requests_among(added: Iterable[Row], kept: Callable[[Row], Kept | None]) -> Iterator[list[Kept]]:
    """Yield, for each answer among the messages of one change, what was added to its request since the answer before.

    Args:
        added: the messages of the change, by position.
        kept: returns the message in the memory after the change; None if it is not there, or is a placeholder.
    """
    joined: list[Kept] = []
    for row in added:
        if is_answer(row):
            yield joined
            joined = []
        found = kept(row)
        if found is not None:
            joined.append(found)


def request_before(answer: Message) -> MessageQuerySet:
    """Return the rows of the request before ``answer``, in memory order."""
    version = answer.added_in
    there = Q(evicted_in__isnull=True) | Q(evicted_in__gte=version)
    before = Q(added_in__lt=version)
    joined = Q(added_in=version) & ~Q(evicted_in=version) & ~Q(origin=Origin.CLEARED)
    rows: MessageQuerySet = answer.conversation.messages.filter(there, before | joined, position__lt=answer.position)
    return rows.order_by("memory_order")


def lost_with_answer(answer: Message) -> MessageQuerySet:
    """Return the rows that were added before ``answer`` and evicted in the same change. Their order is unknown.

    Only the last thousand messages before the answer are read.
    """
    version = answer.added_in
    near = (answer.position - _NEAR, answer.position - 1)
    rows: MessageQuerySet = answer.conversation.messages.filter(
        position__range=near, added_in=version, evicted_in=version
    )
    return rows.exclude(origin=Origin.CLEARED).order_by("position")


def fresh_rows_of_request(conversation: Conversation, answer: Message, rows: list[Message]) -> list[int]:
    """Return the indexes of the ``rows`` of a request that have an unchanged prefix since they were added."""
    before = answer.added_in - 1
    moved = any(row.added_in == answer.added_in and not is_at_the_end(row) for row in rows)
    if moved:
        return fresh_rows(rows, answer.added_in)
    return fresh_rows(rows, prefix_version_at(conversation, before, last=answer.position))


def written_memory(
    conversation: Conversation,
    messages: Sequence[ChatMessage],
    fresh: Collection[int],
    format: str,
    *,
    cache: Any = False,
) -> Any:
    """Return the messages in a registered format. If they had to be repaired, send ``memory_repaired``.

    Args:
        conversation: the conversation.
        messages: its memory.
        fresh: the indexes of the messages with an unchanged prefix.
        format: the name of the format.
        cache: see ``MessageFormat.write_memory``.

    Raises:
        ValueError: the format is unknown, or has no cache marks.
        UnsupportedContentError: a ``ValueError``; the format cannot express a message.
    """
    repairs: list[Repair] = []
    written = message_format(format).write_memory(messages, fresh, repairs.append, cache=cache)
    if repairs:
        memory_repaired.send_robust(sender=Conversation, conversation=conversation, format=format, repairs=repairs)
    return written
