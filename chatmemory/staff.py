"""The rules for staff, in the admin and over REST: what they may do with other users' conversations, and the log of it.

The setting ``STAFF_CONVERSATIONS`` determines which conversations a staff user can reach, and permissions determine
what the user may do with them. ``read_text`` covers message text and metadata, but not titles, owners and figures.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import router, transaction
from django.db.models import QuerySet
from django.utils.module_loading import import_string

from chatmemory.conf import setting
from chatmemory.database.connections import retry
from chatmemory.models import Conversation

if TYPE_CHECKING:
    from typing import TypeVar

    Rows = TypeVar("Rows", bound=QuerySet[Any])

Act = Literal["view", "add", "change", "delete", "read_text", "write_text", "compact"]

# One of the permissions for an act is enough.
_PERMISSIONS: dict[Act, tuple[str, ...]] = {
    "view": ("chatmemory.view_conversation", "chatmemory.change_conversation"),
    "add": ("chatmemory.add_conversation",),
    "change": ("chatmemory.change_conversation",),
    "delete": ("chatmemory.delete_conversation",),
    "read_text": ("chatmemory.read_message_text",),
    "write_text": ("chatmemory.write_message_text",),
    "compact": ("chatmemory.compact_conversation",),
}

READ_TEXT: tuple[Act, ...] = ("view", "read_text")

# An addition returns the evicted messages, so only users who may read may write.
WRITE_TEXT: tuple[Act, ...] = ("change", "read_text", "write_text")

# The response contains the summary and the messages that it replaced.
SUMMARIZE: tuple[Act, ...] = (*READ_TEXT, "compact")

_FLAGS = {"add": 1, "delete": 3}
"""The flags of the admin's log; other acts are changes."""

_CHANGE_FLAG = 2

_logger = logging.getLogger("chatmemory.staff")


def may(user: Any, act: Act) -> bool:
    """Return whether a staff user may do ``act`` with the conversations that the user can reach."""
    return any(map(user.has_perm, _PERMISSIONS[act]))


def is_free(user: Any, *acts: Act) -> bool:
    """Return whether a user may do all of ``acts`` with their own conversations, and not only chat.

    All users may with ``USERS = "all"``; otherwise staff with the permissions that they need for other conversations.
    """
    return setting("USERS") == "all" or (getattr(user, "is_staff", False) and all(may(user, act) for act in acts))


def sees(user: Any, what: Literal["instructions", "tools"]) -> bool:
    """Return whether a user sees system messages, or calls of tools and their results, in their own conversations."""
    return what in setting("USERS_SEE") or is_free(user, *READ_TEXT)


def permission(act: Act) -> str:
    """Return the permission that an error about ``act`` names."""
    return _PERMISSIONS[act][0]


def reachable(user: Any, rows: Rows, conversation: str = "pk") -> Rows:
    """Return those of ``rows`` whose conversations a staff user can reach.

    If ``STAFF_CONVERSATIONS`` is set, these are no rows without a conversation.

    Args:
        user: the staff user.
        rows: a queryset of conversations, or of rows that belong to conversations.
        conversation: the field with the primary key of the conversation.

    Raises:
        ImproperlyConfigured: the function of ``STAFF_CONVERSATIONS`` returned no queryset of conversations, or a slice.
    """
    path = setting("STAFF_CONVERSATIONS")
    if path is None:
        return rows
    theirs = import_string(path)(user)
    named = f'CHATMEMORY["STAFF_CONVERSATIONS"] = {path!r}'
    if not (isinstance(theirs, QuerySet) and issubclass(theirs.model, Conversation)):
        raise ImproperlyConfigured(
            f"{named} must return a queryset of Conversation, but returned: {theirs!r:.100}. "
            "Return Conversation.objects.all() for all conversations, or Conversation.objects.none() for none."
        )
    if theirs.query.is_sliced:
        raise ImproperlyConfigured(f"{named} must return an unsliced queryset: filter it instead.")
    # A subquery, because a join in the project's queryset would repeat rows. It uses the database of ``rows``.
    return rows.filter(**{f"{conversation}__in": theirs.using(None).values("pk")})


def record(user: Any, what: str, conversations: Iterable[Conversation] | None = None, *, act: Act = "change") -> None:
    """Write what a staff user did to the admin's log, or without the admin, to the logger ``chatmemory.staff``.

    With ``STAFF_CONVERSATIONS``, the log names conversations by their primary keys: the page that deletes a staff user
    lists the user's entries, also to staff who do not reach the conversations.

    Args:
        user: the staff user.
        what: what the user did or read, without message text, because other staff read the log too.
        conversations: the conversations, with an entry for each; by default one entry for a list.
        act: what the user did. Reading is logged as a change, because the admin's log has no flag for it.
    """
    found: list[Conversation | None] = [None] if conversations is None else list(conversations)
    if not apps.is_installed("django.contrib.admin"):
        for conversation in found:
            # Django's default logging shows nothing below a warning.
            _logger.warning("user %s, conversation %s: %s", user.pk, getattr(conversation, "pk", "(a list)"), what)
        return
    from django.contrib.admin.models import LogEntry  # this app is optional
    from django.contrib.contenttypes.models import ContentType

    def name(conversation: Conversation | None) -> str:
        if conversation is None:
            return str(Conversation._meta.verbose_name_plural)
        return str(conversation if setting("STAFF_CONVERSATIONS") is None else conversation.pk)[:200]

    kind = ContentType.objects.get_for_model(Conversation)
    entries = [
        LogEntry(
            user_id=user.pk,
            content_type=kind,
            object_id=None if conversation is None else str(conversation.pk),
            object_repr=name(conversation),
            action_flag=_FLAGS.get(act, _CHANGE_FLAG),
            change_message=what,
        )
        for conversation in found
    ]
    database = router.db_for_write(LogEntry)

    def write() -> None:
        with transaction.atomic(using=database):
            LogEntry.objects.using(database).bulk_create(entries)

    retry(database, write)
