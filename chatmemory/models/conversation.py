"""A conversation: its row, and attributes that a rollback restores."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Any, Self
from weakref import ref

from django.conf import settings
from django.db import NotSupportedError, connections, models, router, transaction
from django.db.models import F, Q
from django.db.models.functions import Cast, Coalesce
from django.utils.translation import gettext_lazy as _

from chatmemory.conf import default_limit
from chatmemory.core.window import SETTINGS, Kind, Window, WindowKind, check
from chatmemory.models.conversation_names import claiming_names, exchanging_name, kept_names, located
from chatmemory.models.deletion import cascade
from chatmemory.models.fields import MEMORY_ID_CHARS, ExactCharField, memory_id_text, new_memory_id, uuid7
from chatmemory.models.window_settings import WINDOW_SETTINGS, WINDOWS, DefaultLimit, column

if TYPE_CHECKING:
    from chatmemory.branches import methods
    from chatmemory.database.conversation_memory import ConversationMemory


def require_owner(owner: Any) -> Any:
    """Return ``owner`` if it is a saved user, or None.

    Raises:
        ValueError: ``owner`` is an anonymous or unsaved user, who would share the conversations without an owner.
    """
    if owner is not None and (getattr(owner, "pk", None) is None or owner._state.adding):
        raise ValueError(f"owner must be a saved user, or None for no owner, but is: {owner!r}")
    return owner


COUNTERS = (
    "version",
    "prefix_version",
    "next_position",
    "message_count",
    "retained_count",
    "retained_tokens",
    "purged_count",
    "compacted_to",
)
"""The columns that every change writes, in addition to ``updated_at``."""

DESCRIBED = ("title", "metadata")
"""The columns in which the application describes a conversation.

REST shows and sets them, exports contain them, and anonymising empties them.
"""

# The columns that save() never writes in a stored row, because another process may have changed them; with their values
# in a new row.
_NOT_SAVED: dict[str, Any] = {**dict.fromkeys(COUNTERS, 0), "turn": 0, "turn_until": None}


def alias_for_writes(rows: models.QuerySet[Any]) -> str:
    """Return the alias of the database for changes of these rows: from ``using()``, otherwise from the router."""
    return rows.select_for_update().db  # runs no statement


class ConversationQuerySet(models.QuerySet["Conversation"]):
    def owned_by(self, owner: Any) -> ConversationQuerySet:
        """Return the conversations of one user; with None, those without an owner.

        Raises:
            ValueError: ``owner`` is an anonymous or unsaved user.
        """
        return self.filter(owner=owner) if require_owner(owner) is not None else self.filter(owner__isnull=True)

    def named(self, owner: Any, memory_id: str) -> ConversationQuerySet:
        """Return a queryset of the conversation with this owner and memory ID; None means no owner.

        Raises:
            ValueError: ``owner`` is an anonymous or unsaved user.
        """
        found = self.owned_by(owner).filter(memory_id=memory_id)
        place = located(owner, memory_id, self.db)
        return found if place is None else found.filter(pk=place)

    def with_evicted(self, has: bool = True) -> ConversationQuerySet:
        """Return the conversations with evicted messages; with False, the others."""
        evicted = Q(next_position__gt=F("retained_count"))
        return self.filter(evicted if has else ~evicted)

    def bulk_create(self, objs: Iterable[Conversation], *args: Any, **kwargs: Any) -> list[Conversation]:
        """Insert conversations, and remember the stored values on the objects."""
        objs = list(objs)
        for conversation in objs:
            conversation.take_default_limit()
        with claiming_names(objs, alias_for_writes(self)):
            created = super().bulk_create(objs, *args, **kwargs)
        for conversation in created:
            conversation.note_stored()
        return created

    bulk_create.alters_data = True  # type: ignore[attr-defined]

    def update(self, **kwargs: Any) -> int:
        """Update columns of these conversations.

        Raises:
            NotSupportedError: the owner or the memory ID is updated, and names are stored in a separate table.
        """
        named = {"owner", "owner_id", "memory_id"}.intersection(kwargs)
        if named and kept_names(alias_for_writes(self)) is not None:
            raise NotSupportedError(
                f"update() cannot change {' and '.join(sorted(named))} if the names of conversations are in a "
                "separate table: change each conversation, and call its save()"
            )
        return super().update(**kwargs)

    update.alters_data = True  # type: ignore[attr-defined]

    def bulk_update(self, objs: Iterable[Conversation], fields: Iterable[str], *args: Any, **kwargs: Any) -> int:
        """Update columns of conversations, and remember the stored values on the objects."""
        conversations, names = list(objs), list(fields)
        count = super().bulk_update(conversations, names, *args, **kwargs)
        for conversation in conversations:
            restore_on_rollback(conversation, ["_stored"], self.db)
            conversation.note_stored(names)
        return count

    bulk_update.alters_data = True  # type: ignore[attr-defined]


class Conversation(models.Model):
    """A conversation: the messages of one memory ID, and the window that bounds the memory.

    Create one with ``Conversation.objects.create(owner=user, window="tokens", limit=4000)``; every field is optional.
    Use ``memory`` to read and change the memory. No other code may write the counters.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    memory_id = ExactCharField(
        _("memory ID"),
        max_length=MEMORY_ID_CHARS,
        default=new_memory_id,
        blank=True,
        help_text=_("What the application calls this conversation. Unique per owner."),
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("owner"),
        on_delete=cascade,
        null=True,
        blank=True,
        related_name="chatmemory_conversations",
    )
    # In a unique constraint, nulls are different: with a null owner, memory IDs would not be unique.
    owner_key = models.GeneratedField(
        expression=Coalesce(Cast("owner", models.CharField(max_length=255)), models.Value("")),
        output_field=ExactCharField(max_length=255),
        db_persist=True,
    )
    title = models.CharField(_("title"), max_length=255, blank=True, default="")
    metadata = models.JSONField(_("metadata"), blank=True, default=dict)

    window = models.CharField(**column("window"))
    limit = models.PositiveIntegerField(**column("limit"))
    model = ExactCharField(**column("model"))
    always_keep_system_message_first = models.BooleanField(**column("always_keep_system_message_first"))
    low_water = models.PositiveSmallIntegerField(**column("low_water"))
    whole_turns = models.BooleanField(**column("whole_turns"))
    keep_tool_results = models.PositiveIntegerField(null=True, **column("keep_tool_results"))
    reserve = models.PositiveIntegerField(**column("reserve"))
    compact_at = models.PositiveSmallIntegerField(null=True, **column("compact_at"))
    compact_keep = models.PositiveSmallIntegerField(**column("compact_keep"))
    compact_keep_calls = models.PositiveIntegerField(null=True, **column("compact_keep_calls"))

    version = models.PositiveIntegerField(_("version"), default=0, editable=False)
    # The version of the last change that did not only add messages at the end: see chatmemory.database.reading.
    prefix_version = models.PositiveIntegerField(default=0, editable=False)
    next_position = models.PositiveIntegerField(_("next position"), default=0, editable=False)
    message_count = models.PositiveIntegerField(_("messages said"), default=0, editable=False)
    retained_count = models.PositiveIntegerField(_("messages retained"), default=0, editable=False)
    retained_tokens = models.PositiveBigIntegerField(_("tokens retained"), default=0, editable=False)
    purged_count = models.PositiveIntegerField(
        _("messages deleted"), default=0, editable=False, help_text=_("Evicted ones, that history is not to keep.")
    )

    # Later summaries do not cover messages before this position: a summary covers them, or the memory was cleared.
    compacted_to = models.PositiveIntegerField(default=0, editable=False)

    forked_from = models.UUIDField(
        _("forked from"),
        null=True,
        blank=True,
        editable=False,
        help_text=_("The conversation of which this is a copy. It may have been erased."),
    )

    # The running turn of the assistant: see chatmemory.assistant.conversation_lease.
    turn = models.PositiveBigIntegerField(default=0, editable=False)
    turn_until = models.DateTimeField(null=True, editable=False)

    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("last activity"), auto_now=True)

    objects = ConversationQuerySet.as_manager()

    _stored: dict[str, Any] = {}
    """The known stored values of the columns that save() may write. The dict is never changed in place."""

    if TYPE_CHECKING:
        owner_id: Any
        messages: Any
        # Set by the app's ready(), because their modules import this one.
        memory: ConversationMemory
        rewind, edit, regenerate = methods.rewind, methods.edit, methods.regenerate
        switch, fork, tree = methods.switch, methods.fork, methods.tree
        arewind: Any
        aedit: Any
        aregenerate: Any
        aswitch: Any
        afork: Any
        atree: Any

    class Meta:
        verbose_name = _("conversation")
        verbose_name_plural = _("conversations")
        permissions = [("compact_conversation", _("Can summarise conversations"))]
        indexes = [
            models.Index(fields=["owner", "-updated_at"], name="chatmemory_conv_owner_updated"),
            # Contains all columns that the filters of the admin's list use, so that PostgreSQL reads only the index.
            models.Index(
                fields=[
                    "updated_at",
                    "id",
                    "window",
                    "limit",
                    "reserve",
                    "retained_count",
                    "retained_tokens",
                    "next_position",
                ],
                name="chatmemory_conv_updated",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["memory_id", "owner_key"],
                name="chatmemory_conv_memory_id_unique",
                violation_error_message=_("This owner has a conversation with this memory ID already."),
            ),
            models.CheckConstraint(
                condition=Q(window__in=[value for value, _label in WINDOWS]), name="chatmemory_conv_window_known"
            ),
            models.CheckConstraint(condition=Q(limit__gte=1), name="chatmemory_conv_limit_positive"),
            models.CheckConstraint(
                condition=Q(low_water__gte=1, low_water__lte=100), name="chatmemory_conv_low_water_percent"
            ),
            models.CheckConstraint(
                condition=Q(compact_at__isnull=True) | Q(compact_at__gte=1, compact_at__lte=100),
                name="chatmemory_conv_compact_at_percent",
            ),
            models.CheckConstraint(condition=Q(compact_keep__lte=100), name="chatmemory_conv_compact_keep_percent"),
            models.CheckConstraint(
                condition=Q(compact_keep_calls__isnull=True) | Q(compact_keep_calls__gte=1),
                name="chatmemory_conv_compact_keep_calls_positive",
            ),
            models.CheckConstraint(
                condition=Q(compacted_to__lte=F("next_position")), name="chatmemory_conv_compacted_to"
            ),
            models.CheckConstraint(
                condition=Q(message_count__lte=F("next_position")) & Q(retained_count__lte=F("next_position")),
                name="chatmemory_conv_counters",
            ),
        ]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not args and "limit" not in kwargs:
            kwargs["limit"] = DefaultLimit(default_limit(kwargs.get("window")))
        super().__init__(*args, **kwargs)

    def __str__(self) -> str:
        return self.title or self.memory_id

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Insert a new row, or update only the columns that were changed on this object.

        Other processes may have changed the row since this object was read. Therefore, a stored row's counters and
        window settings are not written either: use ``memory`` to change them. Changes by receivers of ``pre_save`` are
        not written.

        Raises:
            ValueError: the window, another setting or the memory ID of a new row is invalid; or a setting of the window
                was changed on a stored row.
        """
        kwargs.update(zip(("force_insert", "force_update", "using", "update_fields"), args, strict=False))
        names: Collection[str] | None = kwargs.get("update_fields")
        if names is not None:
            names = kwargs["update_fields"] = frozenset(names)  # it may be an iterator
        if self._state.adding:
            check("window", self.window)  # the default limit depends on it
            self.take_default_limit()
            for name, setting in SETTINGS.items():
                if setting.kind not in (Kind.FLAG, Kind.TEXT):  # flags and texts as in Django, where 1 is True
                    check(name, getattr(self, name))
            memory_id_text(self.memory_id)
            for name, value in _NOT_SAVED.items():  # a copy of another conversation has no messages
                setattr(self, name, value)
            kwargs["force_insert"] = True  # counters are only written with a new row
        elif not kwargs.get("force_insert"):
            changed = self._changed()
            self._refuse_window_settings(changed if names is None else changed & names)
            names = [*changed, "updated_at"] if names is None else names - set(WINDOW_SETTINGS)
            kwargs["update_fields"] = names
        database = kwargs.get("using") or router.db_for_write(type(self), instance=self)
        restore_on_rollback(self, ["_stored"], database)
        if self._state.adding:
            restore_on_rollback(self._state, ["adding"], database)
        if kwargs.get("force_insert"):
            with claiming_names([self], database):
                super().save(**kwargs)
        elif {"memory_id", "owner", "owner_id"}.intersection(names or ()):
            with exchanging_name(self, database):
                super().save(**kwargs)
        else:
            super().save(**kwargs)
        self.note_stored(names)

    @classmethod
    def from_db(cls, *args: Any, **kwargs: Any) -> Self:
        conversation = super().from_db(*args, **kwargs)
        conversation.note_stored()
        return conversation

    def refresh_from_db(self, *args: Any, **kwargs: Any) -> None:
        super().refresh_from_db(*args, **kwargs)
        fields = kwargs.get("fields", args[1] if len(args) > 1 else None)
        self.note_stored(fields)

    def note_stored(self, names: Collection[str] | None = None) -> None:
        """Remember that the row contains the current values of fields. ``save`` updates the fields that differ.

        Args:
            names: the names of the fields; by default all loaded fields.
        """
        loaded = vars(self)
        # A new dict, because copies of this object share the old one. A JSON value may change in place.
        self._stored = self._stored | {
            column: deepcopy(loaded[column]) if isinstance(loaded[column], (dict, list)) else loaded[column]
            for name, column in _saved_columns(type(self)).items()
            if column in loaded and (names is None or name in names or column in names)
        }

    def take_default_limit(self) -> None:
        """If no limit was given, set the default limit of the window, which may have been set after ``__init__``."""
        if isinstance(self.limit, DefaultLimit):
            self.limit = default_limit(self.window)

    def _changed(self) -> set[str]:
        if (owner := self._state.fields_cache.get("owner")) is not None and self.owner_id is None:
            self.owner = owner  # it may have been saved since
        loaded, stored, own = vars(self), self._stored, _saved_columns(Conversation)
        return {
            name
            for name, column in _saved_columns(type(self)).items()
            # A subclass may have fields whose values are set while they are saved, such as auto_now.
            if column in loaded and not (name in own and column in stored and _is_same(loaded[column], stored[column]))
        }

    def _refuse_window_settings(self, names: set[str]) -> None:
        changed = [f"{name}={getattr(self, name)!r}" for name in WINDOW_SETTINGS if name in names]
        if changed:
            raise ValueError(
                f"save() does not change the window of a stored conversation, because its messages must be evicted or "
                f"counted again: use conversation.memory.set_window({', '.join(changed)})"
            )

    @property
    def is_full(self) -> bool:
        """Whether the memory has reached the percent of its limit at which a summary is due."""
        window = Window(kind=WindowKind(self.window), limit=self.limit, reserve=self.reserve)
        used = self.retained_tokens if window.kind is WindowKind.TOKENS else self.retained_count
        return self.compact_at is not None and used * 100 >= window.room * self.compact_at

    @property
    def evicted_count(self) -> int:
        """The number of messages that were evicted from the memory, including synthetic ones."""
        return self.next_position - self.retained_count


def _is_same(value: Any, stored: Any) -> bool:
    if isinstance(value, (dict, list)):
        return repr(value) == repr(stored)  # 1, 1.0 and true differ in JSON
    return bool(value == stored)


@cache
def _saved_columns(model: type[Conversation]) -> dict[str, str]:
    """Return the columns that ``save()`` may write, by field name."""
    return {
        field.name: field.attname
        for field in model._meta.concrete_fields
        if not (field.primary_key or field.generated or field.attname in _NOT_SAVED)
    }


def restore_on_rollback(instance: object, names: Iterable[str], database: str) -> None:
    """Restore attributes to their current values if the open transaction or savepoint is rolled back.

    Args:
        instance: the object.
        names: the names of the attributes. An attribute that is not set now is deleted again.
        database: the alias of the database. Outside a transaction, nothing happens.
    """
    if connections[database].in_atomic_block:
        values = {name: vars(instance)[name] for name in names if name in vars(instance)}
        missing = [name for name in names if name not in values]
        transaction.on_commit(_Before(instance, values, missing), using=database)


class _Before:
    """The attributes before a change, as a callback for ``on_commit()``, while the object is in use.

    After the commit, Django calls it, and it forgets the values. On a rollback, Django drops it uncalled. Nothing else
    refers to it, so ``__del__`` restores the values at once.
    """

    __slots__ = ("_instance", "_missing", "_values")

    def __init__(self, instance: object, values: dict[str, Any], missing: list[str]) -> None:
        self._values = values
        self._missing = missing
        # Not a bound method: the object would refer to itself, and would not be deleted at once.
        self._instance = ref(instance, lambda _gone: values.clear())

    def __call__(self) -> None:
        self._values, self._missing = {}, []

    def __del__(self) -> None:
        instance = self._instance()
        if instance is None:
            return
        vars(instance).update(self._values)
        for name in self._missing:
            vars(instance).pop(name, None)
