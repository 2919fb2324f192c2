"""The lease of whoever makes a summary of a conversation, by the database's clock, and the notes of failures."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet

from chatmemory.database.change import Change
from chatmemory.database.connections import UtcNow, require_no_transaction
from chatmemory.database.key import Key
from chatmemory.database.operations.compaction.plan import CompactionPlan
from chatmemory.database.reading import chunks, rows_of
from chatmemory.database.retry import retry
from chatmemory.database.target import Target
from chatmemory.models import Compaction, Conversation
from chatmemory.models.compaction import LONGEST_ERROR

__all__ = ["BACK_OFF", "Lease", "error_text"]

BACK_OFF = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=30))
"""The pauses after the first, the second, and each further failure in a row."""

_IN_TRANSACTION = (
    "A summary cannot be made within a transaction: nobody else would see the lease, and its row would be locked while "
    "the model works. Call compact() outside of transaction.atomic(). If the setting ATOMIC_REQUESTS opened the "
    "transaction, mark the view with @transaction.non_atomic_requests."
)
_ERASED = "the conversation has been erased"


def error_text(error: BaseException) -> str:
    """Return the class and the text of an exception, as every database and page can hold them."""
    try:
        said = str(error)
    except Exception:  # a package's own exception may fail at that, and its failure counts all the same
        said = "without a text"
    text = f"{type(error).__name__}: {said}".replace("\x00", "")
    return text.encode("utf-8", "backslashreplace").decode()[:LONGEST_ERROR]


class Lease:
    """The right to make the next summary of a conversation. It ends by itself, so that no killed process keeps it."""

    def __init__(self, conversation: Conversation, database: str, seconds: float) -> None:
        """
        Args:
            conversation: the conversation that is summarised.
            database: the alias of the database that has its row.
            seconds: how long the lease lasts unless it is released.
        """
        self._conversation = conversation
        self._database = database
        self._seconds = seconds
        self._number = 0

    def try_take(self, *, also_after_failure: bool) -> bool:
        """Take the lease, unless another has it, and return whether it is taken.

        Args:
            also_after_failure: whether to take it before the pause after a failure is over.

        Raises:
            Conversation.DoesNotExist: the conversation has been erased.
            RuntimeError: the caller is within a transaction.
        """
        require_no_transaction(self._database, _IN_TRANSACTION)
        rows = self._rows()
        conversations = Conversation.objects.using(self._database).filter(pk=self._conversation.pk)
        is_free = rows.filter(Q(leased_until__isnull=True) | Q(leased_until__lte=UtcNow()))
        if not also_after_failure:
            is_free = is_free.filter(Q(retry_at__isnull=True) | Q(retry_at__lte=UtcNow()))

        def take() -> int:
            with transaction.atomic(using=self._database):
                if not rows.exists() and conversations.exists():
                    row = Compaction(conversation=self._conversation)
                    Compaction.objects.using(self._database).bulk_create([row], ignore_conflicts=True)
                end: Any = UtcNow() + timedelta(seconds=self._seconds)
                if is_free.update(lease=F("lease") + 1, leased_until=end):
                    return rows.values_list("lease", flat=True).get()
                if not rows.exists():  # MariaDB ignores a missing conversation like a row that is there
                    raise Conversation.DoesNotExist(_ERASED)
                return 0

        try:
            self._number = retry(self._database, take)
        except IntegrityError as error:  # it was erased between the two statements
            raise Conversation.DoesNotExist(_ERASED) from error
        return bool(self._number)

    def release(self) -> None:
        """Release the lease, unless another has taken it over."""
        own = self._rows().filter(lease=self._number)
        retry(self._database, lambda: own.update(leased_until=None))

    def note_success(self) -> None:
        """Forget earlier failures."""
        rows = self._rows().filter(failures__gt=0)
        retry(self._database, lambda: rows.update(failures=0, failed_at=None, retry_at=None, error=""))

    def note_failure(self, error: BaseException, plan: CompactionPlan) -> None:
        """Note a failure, and when to try again at the earliest.

        The text of ``error`` may quote messages of ``plan``. It is left out if one of them has been erased since.

        Raises:
            Conversation.DoesNotExist: the conversation has been erased or anonymised meanwhile.
        """

        def note(change: Change) -> None:
            row = self._rows().select_for_update().first()
            if row is None:
                raise Conversation.DoesNotExist(_ERASED) from error
            pause: Any = UtcNow() + BACK_OFF[min(row.failures, len(BACK_OFF) - 1)]
            text = error_text(error) if _is_whole(plan, change.conversation) else type(error).__name__
            self._rows().update(failures=F("failures") + 1, failed_at=UtcNow(), retry_at=pause, error=text)

        # A purge holds the same lock, so it cannot come in between.
        Target(Key.of(self._conversation, self._database)).change(note)

    def _rows(self) -> QuerySet[Compaction]:
        return Compaction.objects.using(self._database).filter(conversation=self._conversation.pk)


def _is_whole(plan: CompactionPlan, conversation: Conversation) -> bool:
    """Return whether all that ``plan`` was made of is still there, and the owner is the same."""
    positions = [*plan.positions, *plan.summaries]
    found = sum(rows_of(conversation).filter(position__in=chunk).count() for chunk in chunks(positions))
    return conversation.owner_id == plan.owner and found == len(positions)
