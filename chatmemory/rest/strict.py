"""The strictness of all serializers: no unknown field, and no value that is converted from another type."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework import serializers

from chatmemory.core.serialization.storable import require_json

__all__ = ["StrictSerializer"]


class StrictSerializer(serializers.Serializer[Any]):
    """A serializer that refuses unknown fields, and values of another type instead of converting them."""

    _json_types: ClassVar[list[tuple[type[serializers.Field], type, str]]] = [  # type: ignore[type-arg]
        (serializers.BooleanField, bool, "true or false"),
        (serializers.IntegerField, int, "a whole number"),
        (serializers.ChoiceField, str, "a string"),
        (serializers.CharField, str, "a string"),
        (serializers.ListField, list, "a list"),
    ]

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            for name, value in data.items():
                field = self.fields.get(name)
                if field is None:
                    shown = name[:100].encode("utf-8", "backslashreplace").decode()
                    raise serializers.ValidationError({shown: "unknown field; leave it out"})
                self._check_type(name, field, value)
                # Even a value that is no valid choice, because the error quotes it.
                require_json(value, name)
        return super().to_internal_value(data)

    def _check_type(self, name: str, field: Any, value: Any) -> None:
        for kind, expected, words in self._json_types:
            if isinstance(field, kind) and not field.read_only:
                if type(value) is not expected and not (value is None and field.allow_null):
                    raise serializers.ValidationError({name: f"expected {words}{' or null' * field.allow_null}"})
                break
        if isinstance(field, serializers.ListField):
            for index, item in enumerate(value):
                self._check_type(f"{name}[{index}]", field.child, item)
