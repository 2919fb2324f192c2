"""The fields of serializers, as drf-spectacular reads them."""

from __future__ import annotations

from typing import Any

from django.db.models import PositiveIntegerField
from django.utils.translation import override
from drf_spectacular.openapi import AutoSchema
from rest_framework import serializers

from chatmemory.rest.openapi.shapes import COUNT, NOT_TRIMMED, Schema, or_null

__all__ = ["fields_of"]

_READ = {"format", "enum", "minimum", "maximum", "minLength", "maxLength", "maxItems", "items", "default"}


def fields_of(inspector: AutoSchema, serializer: serializers.Serializer[Any]) -> dict[str, Schema]:
    """Return the schema of each field, whatever settings the project has for drf-spectacular."""
    with override("en"):  # some help texts are translated, the rest of the document is not
        read = inspector._map_serializer(serializer, "response")["properties"]
        return {name: _schema(field, read[name]) for name, field in serializer.fields.items()}


def _schema(field: Any, read: Schema) -> Schema:
    types = read.get("type", "object")  # JSON may be anything to drf-spectacular
    schema = {"type": types if isinstance(types, str) else types[0]}
    if field.help_text:
        schema["description"] = str(field.help_text)
    schema |= {key: value for key, value in read.items() if key in _READ}
    if isinstance(field, serializers.IntegerField) and field.read_only:
        # REST framework knows bounds only of what can be written.
        serializer: Any = field.parent
        column = serializer.Meta.model._meta.get_field(field.source)
        schema |= COUNT if isinstance(column, PositiveIntegerField) else {"minimum": 0}
    if isinstance(field, serializers.CharField) and not (field.read_only or field.allow_blank):
        schema |= {"minLength": 1, **({"pattern": NOT_TRIMMED} if field.trim_whitespace else {})}
    # OpenAPI 3.0 and 3.1 say it in two ways; which one, is a setting.
    return or_null(schema) if read.get("nullable") or "null" in types else schema
