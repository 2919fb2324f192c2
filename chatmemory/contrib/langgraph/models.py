"""LangGraph's checkpoints in four tables: namespaces, states, the values of channels, and pending writes.

A value is stored once for each version of its channel, however many checkpoints have it. Identifiers are compared
character by character; their lengths are the most that MariaDB's indexes allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

from chatmemory.models import Conversation
from chatmemory.models.deletion import cascade
from chatmemory.models.fields import ExactCharField

__all__ = ["ChannelValue", "Checkpoint", "Namespace", "Write"]


class Namespace(models.Model):
    """One graph of a thread: the root graph, whose name is empty, or a run of a subgraph."""

    conversation = models.ForeignKey(
        Conversation, on_delete=cascade, related_name="langgraph_namespaces", db_index=False
    )
    name = ExactCharField(max_length=700, blank=True)

    if TYPE_CHECKING:
        conversation_id: Any

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["conversation", "name"], name="chatmemory_lg_namespace_unique"),
        ]

    def __str__(self) -> str:
        return str(self.name)


class Checkpoint(models.Model):
    """The state of a graph after a step, without the values of its channels."""

    namespace = models.ForeignKey(Namespace, on_delete=cascade, related_name="checkpoints", db_index=False)
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

    if TYPE_CHECKING:
        namespace_id: int

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["namespace", "checkpoint_id"], name="chatmemory_lg_checkpoint_unique"),
        ]

    def __str__(self) -> str:
        return str(self.checkpoint_id)


class ChannelValue(models.Model):
    """The value that a channel had in one of its versions."""

    namespace = models.ForeignKey(Namespace, on_delete=cascade, related_name="values", db_index=False)
    channel = ExactCharField(max_length=600)
    version = ExactCharField(max_length=64)
    type = models.CharField(max_length=64)
    value = models.BinaryField(help_text="Serialised.")

    if TYPE_CHECKING:
        namespace_id: int

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["namespace", "channel", "version"], name="chatmemory_lg_value_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.channel} {self.version}"


class Write(models.Model):
    """A value that a task wrote on a checkpoint, before the step ended. It may be stored before the checkpoint is."""

    namespace = models.ForeignKey(Namespace, on_delete=cascade, related_name="writes", db_index=False)
    checkpoint_id = ExactCharField(max_length=64)
    task_id = ExactCharField(max_length=64)
    index = models.IntegerField(help_text="Below zero for errors, interrupts and the like.")
    task_path = models.TextField(blank=True, default="")
    channel = models.TextField()
    type = models.CharField(max_length=64)
    value = models.BinaryField(help_text="Serialised.")

    if TYPE_CHECKING:
        namespace_id: int

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["namespace", "checkpoint_id", "task_id", "index"], name="chatmemory_lg_write_unique"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task_id} {self.channel}"
