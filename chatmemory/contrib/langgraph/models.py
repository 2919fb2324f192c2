"""LangGraph's checkpoints in four tables: namespaces, states, the values of channels, and pending writes.

A value is stored once for each version of its channel, however many checkpoints have it. Identifiers are compared
character by character; their lengths are the most that MariaDB's indexes allow. Each row names its conversation, by
which the tables may be divided or distributed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from django.db import models

from chatmemory.contrib.langgraph.deletion import cascade_with_rows
from chatmemory.models import Conversation
from chatmemory.models.fields import ExactCharField


class Namespace(models.Model):
    """One graph of a thread: the root graph, whose name is empty, or a run of a subgraph."""

    conversation = models.ForeignKey(
        Conversation, on_delete=cascade_with_rows, related_name="langgraph_namespaces", db_index=False
    )
    name = ExactCharField(max_length=700, blank=True)
    mirrored = ExactCharField(
        max_length=64,
        blank=True,
        default="",
        help_text="The version of the messages that the memory mirrors; empty if they are none.",
    )

    if TYPE_CHECKING:
        conversation_id: Any

    class Meta:
        # Not found by its place: where only chatmemory is installed, an import would give the tables to chatmemory.
        app_label = "chatmemory_langgraph"
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["conversation", "name"], name="chatmemory_lg_namespace_unique"),
        ]

    def __str__(self) -> str:
        return str(self.name)

    @property
    def namespace_id(self) -> int:
        """Its primary key, under the name that rows in it have for it."""
        return int(self.pk)

    @property
    def place(self) -> dict[str, Any]:
        """The columns that place a row in it."""
        return {"conversation_id": self.conversation_id, "namespace": self}


class RowQuerySet(models.QuerySet[Any]):
    """Rows of namespaces."""

    def of(self, place: Namespace | Checkpoint) -> Self:
        """Return those of a namespace, or of the namespace of a checkpoint, on the database that it was read from."""
        found = self.filter(conversation=place.conversation_id, namespace=place.namespace_id)
        return found.using(place._state.db)


class _Row(models.Model):
    """A row in a namespace, which ``deletion.delete_namespaces`` deletes with it."""

    # The namespace's foreign key guards it, and by the namespace it is found: it needs no constraint and no index.
    conversation = models.ForeignKey(
        Conversation, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    namespace = models.ForeignKey(Namespace, on_delete=models.DO_NOTHING, related_name="+", db_index=False)

    objects = RowQuerySet.as_manager()

    if TYPE_CHECKING:
        conversation_id: Any
        namespace_id: int

    class Meta:
        abstract = True
        app_label = "chatmemory_langgraph"
        default_permissions = ()


class Checkpoint(_Row):
    """The state of a graph after a step, without the values of its channels."""

    checkpoint_id = ExactCharField(max_length=64, help_text="Later ones are greater.")
    parent_checkpoint_id = ExactCharField(max_length=64, blank=True, default="")
    run_id = ExactCharField(max_length=255, blank=True, default="", db_index=True)
    state_type = models.CharField(max_length=64)
    state = models.BinaryField(
        help_text="Serialised. Of the channels' values it has only numbers and nulls; the others are in ChannelValue."
    )
    versions = models.JSONField(
        help_text="The version of each channel that is stored separately; null if older checkpoints make up its value."
    )
    metadata_type = models.CharField(max_length=64)
    metadata = models.BinaryField(help_text="Serialised.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta(_Row.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["namespace", "checkpoint_id", "conversation"], name="chatmemory_lg_checkpoint_unique"
            ),
        ]

    def __str__(self) -> str:
        return str(self.checkpoint_id)


class ChannelValue(_Row):
    """The value that a channel had in one of its versions."""

    channel = ExactCharField(max_length=600)
    version = ExactCharField(max_length=64)
    type = models.CharField(max_length=64)
    value = models.BinaryField(help_text="Serialised.")

    class Meta(_Row.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["namespace", "channel", "version", "conversation"], name="chatmemory_lg_value_unique"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.channel} {self.version}"


class Write(_Row):
    """A value that a task wrote on a checkpoint, before the step ended. It may be stored before the checkpoint is."""

    checkpoint_id = ExactCharField(max_length=64)
    task_id = ExactCharField(max_length=64)
    index = models.IntegerField(help_text="Below zero for errors, interrupts and the like.")
    task_path = models.TextField(blank=True, default="")
    channel = models.TextField()
    type = models.CharField(max_length=64)
    value = models.BinaryField(help_text="Serialised.")

    class Meta(_Row.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["namespace", "checkpoint_id", "task_id", "index", "conversation"],
                name="chatmemory_lg_write_unique",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task_id} {self.channel}"
