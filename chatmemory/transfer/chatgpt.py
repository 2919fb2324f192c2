"""ChatGPT's data export: ``conversations.json``, alone or in its zip archive.

Each conversation is a tree, since questions can be edited and answers regenerated. All its branches are imported, in
the order in which the messages were said, and the one that ends at ``current_node`` becomes the current one. Without a
history (``KEEP_HISTORY = False``), only this branch is imported. The conversation's metadata keep, under ``chatgpt``,
the model, the custom GPT (``gizmo_id``, of the conversation or else of the first message that names one), and the
numbers of messages that are not imported: those of other branches, and those without any content. Each message keeps
the messages of the export that it was made of, whole, as its native form ``chatgpt``.

====================================  ==================================================================
in the export                         here
====================================  ==================================================================
user                                  a user message; a text for each part
assistant, to all                     an answer, with the thoughts before it as its thinking
assistant, on the channel "analysis"  a thought
assistant, to a tool                  an answer that calls the tool; arguments that are no JSON object are
                                      put into one, under ``input``. Calls without anything in between are
                                      one answer
tool, after a call                    the result of a call of this tool, of the first that has none yet;
                                      several of one call are one result with several texts
system, and custom instructions       a system message
everything else                       a custom message, with ``role``, ``name``, ``kind`` and ``text``; with
                                      ``hidden`` if ChatGPT does not show it
no content at all                     none; it is counted
====================================  ==================================================================

Pictures, recordings and files are not part of the conversations in an export; a text stands for each, such as
``[image_asset_pointer: sediment://file_0001]`` or ``[file: report.pdf]``.

There is no published schema; the kinds of content here are those that exports have been seen to have. The content of an
unknown kind becomes JSON, so that nothing is lost.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

from chatmemory.conf import setting
from chatmemory.core.arguments import is_blank
from chatmemory.core.contents import TextContent
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.transfer.files import Source, read_items
from chatmemory.transfer.records import BadRecordError, Found, FoundConversation, FoundMessage, from_seconds

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
    return read_items(source, _conversation)


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
    mapping = _Mapping(here, data["mapping"], data.get("current_node"))
    branch = mapping.messages_of_branch()
    tree = _Tree(here)
    tree.read(mapping if setting("KEEP_HISTORY") else mapping.with_one_branch())
    messages, current = tree.in_order()
    written = sum(1 for node in data["mapping"].values() if isinstance(node, dict) and node.get("message"))
    kept = {name: data[name] for name in _KEPT if data.get(name)}
    if _GPT not in kept and (gpt := _gpt(branch)):
        kept[_GPT] = gpt
    others = 0 if setting("KEEP_HISTORY") else written - len(branch)
    counts = {"other_branches": others, "without_content": tree.empty}
    return FoundConversation(
        place=here,
        memory_id=memory_id,
        title=title if isinstance(title, str) else "",
        metadata={FRAMEWORK: {**kept, **{name: count for name, count in counts.items() if count}}},
        created_at=from_seconds(data.get("create_time")),
        framework=FRAMEWORK,
        messages=messages,
        current=current,
    )


def _gpt(branch: list[dict[str, Any]]) -> str | None:
    """Return the ID of the first custom GPT that a message names, also one without content; None if none does."""
    ids = (_object(message, "metadata").get(_GPT) for message in branch)
    return next((id for id in ids if isinstance(id, str) and id), None)


class _Mapping:
    """The nodes of a conversation, by their keys."""

    def __init__(self, place: str, mapping: dict[str, Any], current: Any) -> None:
        """
        Args:
            place: the place of the conversation, for error messages.
            mapping: ``mapping`` of the export.
            current: ``current_node`` of the export. Without one, the last child of the last child … of the root.

        Raises:
            BadRecordError: a node follows itself.
        """
        self.nodes: dict[str, Any] = {key: node for key, node in mapping.items() if isinstance(node, dict)}
        self.children: dict[str | None, list[str]] = defaultdict(list)
        """The keys of the nodes that follow each node, in the order of its ``children``; the roots follow None."""
        for key in self.nodes:
            self.children[self.parent(key)].append(key)
        for key, node in self.nodes.items():
            listed = node.get("children")
            order = [child for child in listed if isinstance(child, str)] if isinstance(listed, list) else []
            places = {child: place for place, child in enumerate(order)}
            self.children[key].sort(key=partial(_place_in, places))
        if sum(1 for _key in self._reached()) < len(self.nodes):
            raise BadRecordError(place, "its messages go round in a circle")
        self.current: str | None = current if isinstance(current, str) and current in self.nodes else self._newest()

    def parent(self, key: str) -> str | None:
        parent = self.nodes[key].get("parent")
        return parent if isinstance(parent, str) and parent in self.nodes else None

    def message(self, key: str) -> dict[str, Any] | None:
        message = self.nodes[key].get("message")
        return message if isinstance(message, dict) else None

    def branch(self) -> list[str]:
        """Return the keys from the root to the current node."""
        keys = []
        key = self.current
        while key is not None:
            keys.append(key)
            key = self.parent(key)
        return keys[::-1]

    def messages_of_branch(self) -> list[dict[str, Any]]:
        return [message for key in self.branch() if (message := self.message(key)) is not None]

    def with_one_branch(self) -> _Mapping:
        """Return the mapping without the nodes of other branches."""
        return _Mapping("", {key: self.nodes[key] for key in self.branch()}, self.current)

    def _reached(self) -> Iterator[str]:
        keys = [*self.children[None]]
        while keys:
            key = keys.pop()
            yield key
            keys += self.children[key]

    def _newest(self) -> str | None:
        key = next(iter(self.children[None]), None)
        while key is not None and self.children[key]:
            key = self.children[key][-1]
        return key


class _Tree:
    """The messages that a conversation becomes, and which of them follows which one.

    Each branch, from the root to its last node, is read on its own. Messages of several branches are the same if they
    follow the same one, and are made of the same messages of the export.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        self.empty = 0
        """The number of messages without content."""
        self._found: list[FoundMessage] = []
        self._parents: list[int] = []
        self._known: dict[tuple[int, tuple[int, ...]], int] = {}
        self._current = -1

    def read(self, mapping: _Mapping) -> None:
        """Read all branches."""
        ahead = [(key, _Branch(self)) for key in reversed(mapping.children[None])]
        while ahead:
            key, branch = ahead.pop()
            if (message := mapping.message(key)) is not None:
                branch.read(message)
            following = mapping.children[key]
            if key == mapping.current:
                self._current = branch.copy().end()
            elif not following:
                branch.end()
            ahead += [(child, branch.copy() if len(following) > 1 else branch) for child in reversed(following)]

    def add(self, follows: int, message: FoundMessage) -> int:
        """Add a message that follows another one, unless it is there, and return its number."""
        key = follows, tuple(map(id, message.native))
        if key not in self._known:
            self._known[key] = len(self._found)
            self._found.append(message)
            self._parents.append(follows)
        return self._known[key]

    def in_order(self) -> tuple[list[FoundMessage], int]:
        """Return the messages in the order said, and the index of the last one of the current branch, or -1.

        A message comes after the one that it follows, and after those before it that follow the same one. Otherwise,
        the times decide, so that what was said since an earlier export comes last.

        """
        children: dict[int, list[int]] = defaultdict(list)
        for number, parent in enumerate(self._parents):
            children[parent].append(number)
        later: dict[int, int] = {}
        for numbers in children.values():
            later.update(pairwise(numbers))
        order: dict[int, int] = {-1: -1}
        times = {-1: 0.0}
        ahead: list[tuple[float, int]] = []

        def come(number: int | None) -> None:
            if number is not None:
                said_at, parent = self._found[number].said_at, times[self._parents[number]]
                times[number] = parent if said_at is None else max(parent, said_at.timestamp())
                heappush(ahead, (times[number], number))

        come(next(iter(children[-1]), None))
        while ahead:
            _time, number = heappop(ahead)
            order[number] = len(order) - 1
            come(later.get(number))
            come(next(iter(children[number]), None))
        messages = [
            replace(self._found[number], index=index, follows=order[self._parents[number]])
            for number, index in order.items()
            if number >= 0
        ]
        return messages, order[self._current]


_THINKING = {"thoughts", "reasoning_recap"}
_INSTRUCTIONS = "user_editable_context"
_CONTEXT = "model_editable_context"
_ANALYSIS = "analysis"
_HIDDEN = "is_visually_hidden_from_conversation"


@dataclass
class _Call:
    """A call whose result may follow."""

    id: str
    tool: str

    index: int | None = None
    """The index of its result among the open messages of the branch."""

    contents: list[TextContent] = field(default_factory=list)
    """The contents of its result."""


class _Branch:
    """The messages of one branch, read up to a node."""

    def __init__(self, tree: _Tree) -> None:
        self._tree = tree
        self._last = -1  # the number of the last message in the tree
        self._open: list[FoundMessage] = []  # later ones, which may still change
        self._thoughts: list[dict[str, Any]] = []
        self._calls: list[_Call] = []  # of the last answer
        self._unanswered: list[_Call] = []  # of answers before it

    def copy(self) -> _Branch:
        """Return a copy, which is read further on its own."""
        copy = _Branch(self._tree)
        copy._last, copy._open, copy._thoughts = self._last, [*self._open], [*self._thoughts]
        copy._calls = [replace(call, contents=[*call.contents]) for call in self._calls]
        copy._unanswered = [replace(call, contents=[*call.contents]) for call in self._unanswered]
        return copy

    def end(self) -> int:
        """End the branch, and return the number of its last message in the tree; -1 if there is none."""
        self._end_thoughts()
        self._close()
        return self._last

    def _close(self) -> None:
        """Add the messages to the tree, because no later one changes them."""
        for message in self._open:
            self._last = self._tree.add(self._last, message)
        self._open, self._calls, self._unanswered = [], [], []

    def read(self, data: dict[str, Any]) -> None:
        """Read the next message of the export."""
        author, recipient = _object(data, "author"), data.get("recipient")
        role, kind = author.get("role"), _object(data, "content").get("content_type")
        texts = [text for text in texts_of(data) if text.strip() and not is_blank(text)]
        if role == "user":
            texts += attachments_of(data)
        if role == "assistant" and isinstance(recipient, str) and recipient not in ("all", ""):
            self._call_of(recipient, data, texts)
        elif role == "tool" and self._calls:
            self._result(data, texts or [""], self._called(author.get("name")))
        elif not texts:
            self._tree.empty += 1
        elif role == "assistant" and (kind in _THINKING or data.get("channel") == _ANALYSIS):
            self._thoughts.append(data)
        else:
            self._say(role, author.get("name"), kind, data, texts)

    def _end_thoughts(self) -> None:
        """Add the thoughts that no answer followed as an answer of their own."""
        if self._thoughts:
            self._add(AiMessage(thinking=self._thinking()), self._thoughts)
            self._thoughts = []

    def _thinking(self) -> str | None:
        return "\n\n".join(text for data in self._thoughts for text in texts_of(data)) or None

    def _call_of(self, tool: str, data: dict[str, Any], texts: list[str]) -> None:
        call = _Call(str(data.get("id") or tool), tool)
        request = ToolExecutionRequest(call.id, tool, _arguments("\n".join(texts)))
        last = self._open[-1] if self._calls else None
        if last is not None and isinstance(last.message, AiMessage) and not self._thoughts:
            requests = [*last.message.tool_execution_requests, request]
            message = AiMessage(None, requests, thinking=last.message.thinking)
            self._open[-1] = replace(last, message=message, native=[*last.native, data])
            self._calls.append(call)
            return
        self._answer(AiMessage(None, [request], thinking=self._thinking()), data)
        self._unanswered = [call for call in (*self._unanswered, *self._calls) if call.index is None]
        self._calls = [call]

    def _called(self, tool: Any) -> _Call:
        """Return the call that a message of a tool answers: the first of this tool that has no result, or its last."""
        for calls in self._calls, self._unanswered:
            if of_tool := [call for call in calls if _is_of(call.tool, tool)]:
                break
        else:
            of_tool = self._calls
        return next((call for call in of_tool if call.index is None), of_tool[-1])

    def _say(self, role: Any, name: Any, kind: Any, data: dict[str, Any], texts: list[str]) -> None:
        text, hidden = "\n".join(texts), _object(data, "metadata").get(_HIDDEN) is True
        if role == "assistant" and not hidden:
            self._close()
            self._answer(AiMessage(text, thinking=self._thinking()), data)
        elif kind == _INSTRUCTIONS or (role == "system" and kind != _CONTEXT):
            self._interrupt(SystemMessage(text), data)
        elif role == "user" and kind != _CONTEXT and not hidden:
            self._interrupt(UserMessage([TextContent(part) for part in texts]), data)
        else:
            known = {"role": role, "name": name, "kind": kind, "text": text}
            attributes: dict[str, Any] = {key: value for key, value in known.items() if isinstance(value, str)}
            if hidden:  # what ChatGPT put in between
                self._add(CustomMessage({**attributes, "hidden": True}), [data])
            else:
                self._interrupt(CustomMessage(attributes), data)

    def _interrupt(self, message: ChatMessage, data: dict[str, Any]) -> None:
        """Add a message that ends the answer before it."""
        self._close()
        self._end_thoughts()
        self._add(message, [data])

    def _answer(self, message: AiMessage, data: dict[str, Any]) -> None:
        self._add(message, [*self._thoughts, data])
        self._thoughts = []

    def _result(self, data: dict[str, Any], texts: list[str], call: _Call) -> None:
        call.contents += map(TextContent, texts)
        message = ToolExecutionResultMessage(call.id, call.tool, contents=call.contents)
        if call.index is None:
            call.index = len(self._open)
            self._add(message, [data])
        else:
            before = self._open[call.index]
            self._open[call.index] = replace(before, message=message, native=[*before.native, data])

    def _add(self, message: ChatMessage, sources: list[dict[str, Any]]) -> None:
        last = sources[-1]
        self._open.append(
            FoundMessage(
                place=f"{self._tree.place}, message {str(last.get('id'))[:100]}",
                message=message,
                said_at=from_seconds(last.get("create_time")),
                native=list(sources),
            )
        )


def _place_in(places: dict[str, int], child: str) -> int:
    return places.get(child, len(places))


def _object(data: dict[str, Any], name: str) -> dict[str, Any]:
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def _is_of(called: str, tool: Any) -> bool:
    """Return whether a message of ``tool`` may answer a call: "file_search" answers "file_search.msearch"."""
    return isinstance(tool, str) and (f"{called}.".startswith(f"{tool}.") or tool.startswith(f"{called}."))


def _arguments(text: str) -> str:
    if not text:
        return "{}"
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    return text if isinstance(parsed, dict) else json.dumps({"input": text}, ensure_ascii=False)


# The fields of each kind of content that have texts, in reading order.
_FIELDS: dict[str, tuple[str, ...]] = {
    "text": ("parts",),
    "multimodal_text": ("parts",),
    "code": ("text", "parts"),
    "execution_output": ("text", "parts"),
    "thoughts": ("thoughts",),
    "reasoning_recap": ("content",),
    "user_editable_context": ("user_profile", "user_instructions"),
    "model_editable_context": ("model_set_context", "repo_summary", "structured_context"),
    "tether_browsing_display": ("summary", "result"),
    "tether_quote": ("title", "url", "text"),
    "sonic_webpage": ("title", "url", "text", "snippet"),
    "system_error": ("name", "text"),
}


def texts_of(message: dict[str, Any]) -> list[str]:
    """Return the texts of a message; none, or only empty ones, if it has no content."""
    content = message.get("content")
    if not isinstance(content, dict):
        return [] if content is None else [_json(content)]
    fields = _FIELDS.get(str(content.get("content_type")))
    if fields is None:
        said = {name: value for name, value in content.items() if name != "content_type" and value}
        return [_json(said)] if said else []
    texts = [text for name in fields for text in _texts(content.get(name))]
    return texts if any(texts) else [*texts, *_instructions(message)]


def attachments_of(message: dict[str, Any]) -> list[str]:
    """Return a text for each file that is attached to a message and is not among its parts."""
    attachments = _object(message, "metadata").get("attachments")
    parts = json.dumps(message.get("content"))
    return [
        f"[file: {attachment.get('name') or attachment.get('id')}]"
        for attachment in (attachments if isinstance(attachments, list) else [])
        if isinstance(attachment, dict) and not (attachment.get("id") and str(attachment["id"]) in parts)
    ]


def _instructions(message: dict[str, Any]) -> Iterator[str]:
    """Yield the custom instructions that older exports keep in the metadata of an empty system message."""
    instructions = _object(message, "metadata").get("user_context_message_data")
    if isinstance(instructions, dict):
        yield from (text for text in instructions.values() if isinstance(text, str) and text)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case None:
            return
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case {"asset_pointer": str() as pointer}:
            yield f"[{value.get('content_type') or 'file'}: {pointer}]"
        case {"content_type": "audio_transcription", "text": str() as text}:
            yield text
        case {"content_type": "real_time_user_audio_video_asset_pointer"}:
            yield from (text for part in value.values() for text in _texts(part) if isinstance(part, (dict, list)))
        case {"summary": str() as summary, "content": str() as content}:  # a thought
            yield "\n".join(text for text in (summary, content) if text)
        case {"text": str() as text}:
            yield text
        case _:
            yield _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
