"""The removal of what belongs to calls that a project does not have from the description."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["without_missing_calls"]


def without_missing_calls(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without the tags, links and components of operations that are not in it.

    Args:
        document: as OpenAPI has it; it is changed.
    """
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    known = {operation["operationId"] for operation in operations}
    used = {tag for operation in operations for tag in operation["tags"]}
    document["tags"] = [tag for tag in document["tags"] if tag["name"] in used]
    for operation in operations:
        for answer in operation["responses"].values():
            links = answer.get("links", {})
            kept = {name: link for name, link in links.items() if link["operationId"] in known}
            if kept != links:
                answer["links"] = kept
    components = document["components"]
    reached: set[str] = set()
    found = set(_references(operations))
    while found - reached:
        reference = (found - reached).pop()
        reached.add(reference)
        _, _, kind, name = reference.split("/")
        found |= set(_references(components[kind][name]))
    for kind in ("schemas", "responses"):
        names = [name for name in components[kind] if f"#/components/{kind}/{name}" not in reached]
        for name in names:
            del components[kind][name]
    return document


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)
