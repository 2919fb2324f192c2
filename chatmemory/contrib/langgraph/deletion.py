"""The deletion of namespaces with the rows in them."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db.models import ForeignKey
from django.db.models.signals import post_delete, pre_delete

from chatmemory.database.reading import ROWS_AT_ONCE, chunks
from chatmemory.models import Conversation
from chatmemory.models.deletion import cascade

_ROWS = ("Write", "ChannelValue", "Checkpoint")


def cascade_with_rows(collector: Any, field: ForeignKey[Any, Any], namespaces: Any, using: str) -> None:
    """Delete the namespaces of conversations as ``cascade`` does, after their rows.

    Each statement names the conversations, by which the tables may be distributed, and the namespaces, which the
    indexes of the rows begin with.
    """
    if not hasattr(collector, "add_edge"):  # the admin's page that asks before it deletes only counts namespaces
        for rows in _rows_in(namespaces):
            collector.collect(rows, source=namespaces.model, nullable=False, fail_on_restricted=False)
        if any(signal.has_listeners(model) for signal in (pre_delete, post_delete) for model in _row_models()):
            # Rows that a receiver hears of are deleted after whatever no receiver hears of, which a list never is.
            namespaces = list(namespaces)
    cascade(collector, field, namespaces, using)


cascade_with_rows.lazy_sub_objs = True  # type: ignore[attr-defined]  # see cascade


def delete_namespaces(conversation: Conversation) -> None:
    """Delete the namespaces of a conversation with their rows."""
    model = apps.get_model("chatmemory_langgraph", "Namespace")
    namespaces = model._default_manager.using(conversation._state.db).filter(conversation=conversation)
    for rows in _rows_in(namespaces):
        rows.delete()
    namespaces.delete()


def _rows_in(namespaces: Any) -> Any:
    found = list(namespaces.values_list("pk", "conversation_id"))
    for part in chunks(found, ROWS_AT_ONCE // 2):  # each has two keys in a statement
        keys, conversations = (set(column) for column in zip(*part, strict=True))
        for model in _row_models():
            yield model._default_manager.using(namespaces.db).filter(conversation__in=conversations, namespace__in=keys)


def _row_models() -> list[Any]:
    return [apps.get_model("chatmemory_langgraph", name) for name in _ROWS]
