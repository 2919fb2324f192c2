"""The deletion of rows together with the row that they belong to."""

from __future__ import annotations

from typing import Any

from django.db.models import DO_NOTHING, Count, ForeignKey, Model
from django.db.models.deletion import Collector, get_candidate_relations_to_delete
from django.utils.formats import number_format


def cascade(collector: Collector, field: ForeignKey[Any, Any], rows: Any, using: str) -> None:
    """Delete the rows as ``CASCADE`` does, but never set the column to null first, and never list millions of rows.

    Django's ``CASCADE`` sets a nullable column to null first where constraints cannot be deferred, as on MariaDB. For a
    moment the conversations would have no owner, and their memory IDs could collide with others without an owner.

    The admin's page that asks before it deletes a user lists every row. Conversations are still listed, because their
    admin decides who may delete which; the rows in them are only counted.
    """
    if hasattr(collector, "add_edge") and _is_referred_to_by_nobody(rows.model):
        _count(collector, field, rows)
        return
    source = field.remote_field.model
    # Without an evaluation of ``rows`` before it, this is one DELETE where no rows and no signals hang on them.
    collector.collect(rows, source=source, source_attr=field.name, nullable=False, fail_on_restricted=False)


cascade.lazy_sub_objs = True  # type: ignore[attr-defined]  # Django then does not read the rows before it calls


class _CountedRows:
    """The number of rows of a model, in place of the rows on the admin's page."""

    def __init__(self, model: type[Model], count: int) -> None:
        self._count = count
        self._meta = _PluralName(model)

    def __str__(self) -> str:
        return number_format(self._count, force_grouping=True)


class _PluralName:
    """The plural name of a model, where the admin's page reads the singular of a row."""

    def __init__(self, model: type[Model]) -> None:
        self.verbose_name = model._meta.verbose_name_plural


class _CountedSet(set[Any]):
    """The set of a model's rows whose length, which the admin's page shows, includes rows that are only counted."""

    more = 0

    def __len__(self) -> int:
        return super().__len__() + self.more


def _is_referred_to_by_nobody(model: type[Model]) -> bool:
    others: Any = get_candidate_relations_to_delete(model._meta)
    return all(other.field.remote_field.on_delete is DO_NOTHING for other in others) and not any(
        hasattr(generic, "bulk_related_objects") for generic in model._meta.private_fields
    )


def _count(collector: Any, field: ForeignKey[Any, Any], rows: Any) -> None:
    """Add the numbers of rows to the admin's page, each below the object that the rows belong to."""
    owner, model = field.remote_field.model, rows.model
    counts = rows.select_related(None).order_by().values_list(field.attname).annotate(count=Count("pk"))
    for key, count in counts:
        collector.add_edge(owner(pk=key), _CountedRows(model, count))
        found = collector.model_objs[model]
        if not isinstance(found, _CountedSet):
            found = collector.model_objs[model] = _CountedSet(found)
        found.more += count
