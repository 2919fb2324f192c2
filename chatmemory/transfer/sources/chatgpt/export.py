"""ChatGPT's data export: ``conversations.json``, alone or in its zip archive.

Each conversation is a tree, since questions can be edited and answers regenerated. The branch that ChatGPT shows is
imported, from the root to ``current_node``. The conversation's metadata keep, under ``chatgpt``, the model, the custom
GPT (``gizmo_id``, of the conversation or else of the first message that names one), and the numbers of messages that
are not imported: those of other branches, and those without any content. Each message keeps the messages of the export
that it was made of, whole, as its native form ``chatgpt``: see :mod:`chatmemory.transfer.sources.chatgpt.messages`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chatmemory.transfer.files import Source, read_json
from chatmemory.transfer.found import Found, FoundConversation
from chatmemory.transfer.moments import from_seconds
from chatmemory.transfer.reports import BadRecordError
from chatmemory.transfer.sources.chatgpt.messages import messages_of
from chatmemory.transfer.sources.json_items import placed_items

__all__ = ["FRAMEWORK", "read_chatgpt"]

FRAMEWORK = "chatgpt"
"""The framework of the native forms, and the key in the metadata."""

_GPT = "gizmo_id"
_KEPT = (
    "default_model_slug",
    _GPT,
    "gizmo_type",
    "conversation_template_id",
    "is_archived",
    "is_starred",
    "conversation_origin",
)


def read_chatgpt(source: Source) -> Found:
    """Yield the conversations of a file, reading one at a time."""
    try:
        for place, text in placed_items(source):
            try:
                yield _conversation(place, read_json(text))
            except ValueError as error:
                yield BadRecordError(place, str(error))
            except BadRecordError as error:
                yield error
    except ValueError as error:
        yield BadRecordError(source.name, str(error))


def _conversation(place: str, data: Any) -> FoundConversation:
    if not isinstance(data, dict):
        raise BadRecordError(place, 'expected a conversation of ChatGPT, an object with "mapping"')
    memory_id, title = data.get("conversation_id") or data.get("id"), data.get("title")
    # A file is often a single line.
    known = [repr(title)[:100] if isinstance(title, str) and title else "", str(memory_id or "")[:100]]
    here = " ".join([f"{place}: conversation", *filter(None, known)]) if any(known) else place
    if not isinstance(data.get("mapping"), dict):
        raise BadRecordError(here, 'expected a conversation of ChatGPT, an object with "mapping"')
    if not isinstance(memory_id, str):
        raise BadRecordError(here, 'the conversation has no "conversation_id"')
    branch = _branch(here, data["mapping"], data.get("current_node"))
    messages = messages_of(here, branch)
    written = sum(1 for node in data["mapping"].values() if isinstance(node, dict) and node.get("message"))
    kept = {name: data[name] for name in _KEPT if data.get(name)}
    if _GPT not in kept and (gpt := _gpt(branch)):
        kept[_GPT] = gpt
    counts = {"other_branches": written - len(branch), "without_content": messages.empty}
    return FoundConversation(
        place=here,
        memory_id=memory_id,
        title=title if isinstance(title, str) else "",
        metadata={FRAMEWORK: {**kept, **{name: count for name, count in counts.items() if count}}},
        created_at=from_seconds(data.get("create_time")),
        framework=FRAMEWORK,
        messages=messages.found,
    )


def _gpt(branch: list[dict[str, Any]]) -> str | None:
    """Return the ID of the first custom GPT that a message names, also one without content; None if none does."""
    metadata = (message.get("metadata") for message in branch)
    ids = (found.get(_GPT) for found in metadata if isinstance(found, dict))
    return next((id for id in ids if isinstance(id, str) and id), None)


def _branch(place: str, mapping: dict[str, Any], current: Any) -> list[dict[str, Any]]:
    """Return the messages from the root to the current node; without one, to the last child of the last child …"""
    known = isinstance(current, str) and current in mapping
    nodes = list(_upwards(place, mapping, current if known else _newest_leaf(place, mapping)))
    return [node["message"] for node in reversed(nodes) if isinstance(node.get("message"), dict)]


def _upwards(place: str, mapping: dict[str, Any], key: Any) -> Iterator[dict[str, Any]]:
    for _step in range(len(mapping)):
        node = mapping.get(key) if isinstance(key, str) else None
        if not isinstance(node, dict):
            return
        yield node
        key = node.get("parent")
    if isinstance(key, str) and key in mapping:
        raise BadRecordError(place, "its messages go round in a circle")


def _newest_leaf(place: str, mapping: dict[str, Any]) -> str | None:
    key = next((key for key, node in mapping.items() if isinstance(node, dict) and node.get("parent") is None), None)
    for _step in range(len(mapping)):
        node = mapping[key] if key is not None else None
        children = node.get("children") if isinstance(node, dict) else None
        children = [child for child in children or [] if isinstance(child, str) and child in mapping]
        if not children:
            return key
        key = children[-1]
    if mapping:
        raise BadRecordError(place, "its messages go round in a circle")
    return None
