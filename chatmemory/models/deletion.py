"""The deletion of rows together with the row to which they belong."""

from __future__ import annotations

from typing import Any

from django.db.models import DO_NOTHING, Count, ForeignKey, Model
from django.db.models.deletion import Collector, get_candidate_relations_to_delete
from django.utils.formats import number_format


def cascade(collector: Collector, field: ForeignKey[Any, Any], rows: Any, using: str) -> None:
    """Delete the rows like ``CASCADE``, but do not set the column to null first, and do not list millions of rows.

    If constraints cannot be deferred, as on MariaDB, Django's ``CASCADE`` first sets a nullable column to null. For a
    moment, the conversations would have no owner, and their memory IDs could collide.

    Before a user is deleted, the admin's page lists every row. Conversations are still listed, because their admin
    decides who may delete them. The rows in the conversations are only counted.
    """
    if hasattr(collector, "add_edge") and _is_referred_to_by_nobody(rows.model):
        _count(collector, field, rows)
        return
    source = field.remote_field.model
    # If ``rows`` is not evaluated before, and no other rows or signals depend on them, this is one DELETE.
    collector.collect(rows, source=source, source_attr=field.name, nullable=False, fail_on_restricted=False)


cascade.lazy_sub_objs = True  # type: ignore[attr-defined]  # Django then does not read the rows before it calls


class _CountedRows:
    """The number of rows of a model, instead of the rows, on the admin's page."""

    def __init__(self, model: type[Model], count: int) -> None:
        self._count = count
        self._meta = _PluralName(model)

    def __str__(self) -> str:
        return number_format(self._count, force_grouping=True)


class _PluralName:
    """The plural name of a model, which the admin's page reads as the singular name of a row."""

    def __init__(self, model: type[Model]) -> None:
        self.verbose_name = model._meta.verbose_name_plural


class _CountedSet(set[Any]):
    """A set of a model's rows. Its length, which the admin's page shows, includes rows that are only counted."""

    more = 0

    def __len__(self) -> int:
        return super().__len__() + self.more


def _is_referred_to_by_nobody(model: type[Model]) -> bool:
    others: Any = get_candidate_relations_to_delete(model._meta)
    return all(other.field.remote_field.on_delete is DO_NOTHING for other in others) and not any(
        hasattr(generic, "bulk_related_objects") for generic in model._meta.private_fields
    )


def _count(collector: Any, field: ForeignKey[Any, Any], rows: Any) -> None:
    """Add the numbers of rows to the admin's page, each below the object to which the rows belong."""
    owner, model = field.remote_field.model, rows.model
    counts = rows.select_related(None).order_by().values_list(field.attname).annotate(count=Count("pk"))
    for key, count in counts:
        collector.add_edge(owner(pk=key), _CountedRows(model, count))
        found = collector.model_objs[model]
        if not isinstance(found, _CountedSet):
            found = collector.model_objs[model] = _CountedSet(found)
        found.more += count
