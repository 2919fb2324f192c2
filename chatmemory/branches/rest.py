"""Branches over REST: go back, edit, switch and fork; the tree as assistant-ui loads it; siblings of messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from django.db.models import Sum
from django.db.models.functions import Coalesce
from django.urls import URLPattern, path
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.branches.forking import fork
from chatmemory.branches.going_back import add_after, edit
from chatmemory.branches.tree import read_siblings
from chatmemory.branches.ui_messages import Node, UITree, is_answer_id, read_ui_tree, says, shown_rows
from chatmemory.capabilities import MessageField
from chatmemory.conf import setting
from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.messages import AiMessage, UserMessage
from chatmemory.database.change import Change
from chatmemory.database.new_messages import NewMessages
from chatmemory.database.reading import CHARS, rows_of
from chatmemory.formats.ai_sdk import plain_to_ai_sdk, to_ai_sdk
from chatmemory.formats.registry import message_format
from chatmemory.formats.schemas import Schema, closed, ref
from chatmemory.models import MAX_LIMIT, Conversation, MessageQuerySet
from chatmemory.models.message import from_columns
from chatmemory.rest.access import require_free, signed_in_user
from chatmemory.rest.problems import TooLarge, invalid
from chatmemory.rest.serializers import (
    EXAMPLE,
    ChangeSerializer,
    ConversationSerializer,
    CountField,
    NewMessageField,
    StrictSerializer,
    WholeSerializer,
    read_one,
)
from chatmemory.rest.views.creating import create_conversation
from chatmemory.rest.views.viewset import ChatMemoryViewSet, call, record_read
from chatmemory.staff import READ_TEXT, WRITE_TEXT

_MOST_MESSAGES = 20_000
"""The maximum number of messages that one request reads or copies."""

_TOO_LONG = (
    "At most %(most)s messages with %(most_chars)s characters are read at once, and the conversation has more. Read "
    "turns/ or messages/ in pages."
)


class RewindSerializer(StrictSerializer):
    """Where to go back to."""

    before = CountField(help_text="The position of a message that was said, but not of a tool result.")


class EditSerializer(StrictSerializer):
    """The message that takes the place of another."""

    position = CountField(help_text="The position of a message of the user.")
    message = NewMessageField(help_text="A message of the user.")


class SwitchSerializer(StrictSerializer):
    """Where to go."""

    position = CountField(help_text="The position of a message that was said.")


class ForkSerializer(StrictSerializer):
    """The last message of the copy, and its title."""

    at = CountField(help_text="The position of the last message of the copy.")
    title = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=255,
        help_text="By default that of the conversation; spaces around it are taken off.",
    )


class UIMessageIDField(serializers.ReadOnlyField):
    """The ID of a UI message, or null."""

    def openapi(self) -> Schema:
        return {"type": ["string", "null"]}


class UIMessageField(serializers.ReadOnlyField):
    """A message as the AI SDK's ``useChat`` has it."""

    def openapi(self) -> Schema:
        return ref("UIMessage")


class TreeItemSerializer(serializers.Serializer[Any]):
    """A message, and the one before it."""

    parentId = UIMessageIDField(help_text="The ID of the message that it follows; null if it is the first.")
    message = UIMessageField()


class TreeSerializer(serializers.Serializer[Any]):
    """The messages of all branches, as assistant-ui loads them (`MessageFormatRepository`)."""

    headId = UIMessageIDField(help_text="The ID of the last message of the current branch; null if there is none.")
    messages = TreeItemSerializer(many=True, help_text="Each after the one that it follows.")
    version = CountField(help_text="The version of the memory.")


class NewTreeItemSerializer(WholeSerializer):
    """A message, and the one before it, as the history adapter of assistant-ui sends them."""

    def to_internal_value(self, data: Any) -> tuple[str | None, str, NewMessages]:
        """Return the ID of the parent, the role, and the messages."""
        if not isinstance(data, dict) or not isinstance(data.get("message"), dict):
            raise invalid("message", "expected a UIMessage", code="invalid_type")
        unknown = next((name for name in data if name not in ("parentId", "message")), None)
        if unknown is not None:
            raise invalid(unknown[:100], "unknown field; expected parentId and message", code="unknown_field")
        parent = data.get("parentId")
        if parent is not None and not isinstance(parent, str):
            raise invalid("parentId", "expected the ID of a message, or null", code="invalid_type")
        role = data["message"].get("role")
        if role not in ("user", "assistant"):
            raise invalid("message.role", "expected user or assistant", code="invalid_choice")
        written_by = self.context["written_by"]
        return parent, role, read_one(data["message"], "message", message_format("ai-sdk"), written_by=written_by)

    def openapi(self) -> Schema:
        """Return the schema."""
        parent = {"type": ["string", "null"], "description": "The ID of the message that it follows."}
        return closed({"message": ref("UIMessage")}, {"parentId": parent})


class BranchViewSet(ChatMemoryViewSet):
    """Go back in a conversation, and say something else. All that was said stays, on branches."""

    tag = "branches"

    @call(
        "rewindConversation",
        ("change",),
        body=RewindSerializer,
        answer=ChangeSerializer,
        headers=("Idempotency-Key", "If-Match", "ETag"),
        problems=(409,),
        example={"before": 0},
    )
    def rewind(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Go back to before a message.

        The memory becomes what it was before that message was said. What was said since stays in the history, on a
        branch of its own. 409 while a turn is under way.
        """
        return self._go_back("before", lambda conversation, asked, **terms: conversation.rewind(**asked, **terms))

    @call(
        "editMessage",
        WRITE_TEXT,
        body=EditSerializer,
        answer=ChangeSerializer,
        headers=("Idempotency-Key", "If-Match", "ETag"),
        problems=(409,),
        example={"position": 0, "message": EXAMPLE},
    )
    def edit(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Go back to before a message of the user, and add another one.

        No model is asked: a turn with `edit` has it answered. Both messages stay in the history. 409 while a turn is
        under way.
        """
        return self._go_back("position", lambda conversation, asked, **terms: conversation.edit(**asked, **terms))

    @call(
        "switchBranch",
        ("change",),
        users=True,
        body=SwitchSerializer,
        answer=ChangeSerializer,
        headers=("Idempotency-Key", "If-Match", "ETag"),
        problems=(409,),
        example={"position": 0},
    )
    def switch(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Go to the branch of a message.

        The memory becomes what it was when the conversation was last there. Nothing is changed if the message is on the
        current branch. 409 while a turn is under way.
        """
        return self._go_back("position", lambda conversation, asked, **terms: conversation.switch(**asked, **terms))

    @call(
        "forkConversation",
        ("view", "add", "read_text"),
        users=True,
        body=ForkSerializer,
        answer=ConversationSerializer,
        creates=True,
        headers=("Idempotency-Key",),
        problems=(413,),
        example={"at": 0, "title": "Another try"},
    )
    def fork(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Copy a conversation.

        The copy is what the conversation was when the message at a position had just been said. It has the same owner.
        413 if more would be copied than the server copies at once.
        """
        conversation, asked = self.conversation(), self.asked()
        make = partial(fork, conversation, check=_require_copyable, **asked)
        source = {"forked_from": str(conversation.pk)}
        try:
            created = create_conversation(self, conversation.owner, make, asked={**source, **asked}, entry=source)
        except InvalidValueError as error:
            raise invalid("at", error) from error
        return Response(created, status=status.HTTP_201_CREATED)

    @call("getTree", READ_TEXT, users=True, answer=TreeSerializer, problems=(413,))
    def tree(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Get what was said on all branches, as assistant-ui loads it.

        Calls, results and texts of an answer are one message, as `turns/` has it; where a branch begins in the middle
        of an answer, they are several. 413 if the conversation is larger than the server reads at once.
        """
        conversation = self.conversation()
        tree = _bounded_tree(conversation)
        messages = self._items(tree, tree.nodes)
        record_read(request, conversation)
        head = None if tree.head is None else tree.head.id
        return Response({"headId": head, "messages": messages, "version": conversation.version})

    @call(
        "putTreeMessage",
        WRITE_TEXT,
        users=True,
        body=NewTreeItemSerializer,
        answer=TreeItemSerializer,
        headers=("If-Match", "ETag"),
        statuses={201: "The message was added.", 204: "The answer of a turn that was not stored: nothing is changed."},
        problems=(409, 413),
        example={"parentId": None, "message": {"id": "a", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}},
    )
    def update(self, request: Request, conversation_id: str, message_id: str, **kwargs: Any) -> Response:
        """Make sure that a message is stored, as the history adapter of assistant-ui asks.

        Nothing is changed if the message is there: an answer of a turn, or a message of the user with the same text. A
        message of the user with another text is an edit, as `edit/` makes it. A message with an unknown ID is added
        behind its parent, where the conversation goes if it is elsewhere. Where users may only chat, they can add none.
        """
        conversation, terms = self.conversation(), self.terms(message_id)
        parent_id, role, messages = self.asked()
        if not message_id.isprintable() or len(message_id) > 255:
            raise invalid("id", "expected 1 to %(most)s printable characters", most=255)
        tree = _bounded_tree(conversation)
        node = tree.find(message_id)
        if node is None and is_answer_id(message_id):
            return Response(status=status.HTTP_204_NO_CONTENT)
        edited = None
        if node is not None and role == "user" and not node.is_answer:
            edited, node = node, self._saying(tree, node, _of_user(messages))
        if node is not None:
            record_read(request, conversation)
            return Response(self._items(tree, [node])[0])
        require_free(request, *WRITE_TEXT)
        target = conversation.memory.target(**terms)
        parent = None if parent_id is None else tree.find(parent_id)
        if parent_id is not None and parent is None:
            raise invalid("parentId", "no message has this ID", code="invalid_choice")
        user = signed_in_user(request)
        if edited is not None:
            change = edit(target, edited.positions[0], _of_user(messages), user=user)
        elif parent is tree.head:
            change = conversation.memory.add_all(messages, idempotency_key=message_id, **terms)
        else:
            position = None if parent is None else parent.positions[-1]
            change = add_after(target, position, messages, idempotency_key=message_id, user=user)
        tree = read_ui_tree(change.conversation)
        node = tree.at[change.added[-1].position]
        assert node is not None
        return Response(self._items(tree, [node])[0], status=status.HTTP_201_CREATED)

    @call("deleteTreeMessage", ("change",), headers=("If-Match",), problems=(409, 413))
    def destroy(self, request: Request, conversation_id: str, message_id: str, **kwargs: Any) -> Response:
        """Go back to before a message, as the history adapter of assistant-ui asks.

        Nothing is erased: the message, and what follows it, leave the current branch. Nothing is changed if it is not
        there, or not on the current branch.
        """
        conversation, terms = self.conversation(), self.terms()
        tree = _bounded_tree(conversation)
        node = tree.find(message_id)
        if node is not None and node in tree.path():
            conversation.rewind(before=node.positions[0], user=signed_in_user(request), **terms)
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _saying(self, tree: UITree, node: Node, message: UserMessage) -> Node | None:
        """Return the message in the place of a user's message that says the same as ``message``; None if none does."""
        places = [each.positions[0] for each in tree.nodes if each.parent is node.parent and not each.is_answer]
        rows = rows_of(tree.conversation).filter(position__in=places, type=UserMessage.type).order_by("-position")
        same = [row.position for row in rows if says(row, message)]
        return tree.at[node.positions[0] if node.positions[0] in same else same[0]] if same else None

    def _items(self, tree: UITree, nodes: Sequence[Node]) -> list[dict[str, Any]]:
        """Return items of a tree, as ``TreeItemSerializer`` describes them."""
        rows = shown_rows(tree.conversation).order_by("position")
        if len(nodes) == 1:
            rows = rows.filter(position__in=nodes[0].positions)
        _require_bounded(rows, _TOO_LONG)
        # Not as objects of rows, and most are plain: these would take longer than all the rest.
        stored = {row[0]: row[1:] for row in rows.values_list("position", "type", "text", "payload")}

        def written(node: Node) -> dict[str, Any]:
            type, text, payload = stored[node.positions[0]]
            if len(node.positions) == 1 and payload is None and text and type in (UserMessage.type, AiMessage.type):
                return plain_to_ai_sdk(type, text, node.id)
            messages = [self.reader.message(from_columns(*stored[position])) for position in node.positions]
            return {**to_ai_sdk(messages)[0], "id": node.id}

        return [
            {"parentId": None if node.parent is None else node.parent.id, "message": written(node)} for node in nodes
        ]

    def _go_back(self, place: str, go_back: Callable[..., Change]) -> Response:
        conversation, key = self.conversation(), self.idempotency_key()
        terms = self.terms(key)
        asked = self.asked()
        try:
            change = go_back(conversation, asked, idempotency_key=key, user=signed_in_user(self.request), **terms)
        except InvalidValueError as error:
            raise invalid(place, error) from error
        return self.changed(change)


def _bounded_tree(conversation: Conversation) -> UITree:
    """Read which UI messages a conversation has, if one request may read them."""
    _require_few(shown_rows(conversation), _TOO_LONG)
    return read_ui_tree(conversation)


def _require_copyable(rows: MessageQuerySet) -> None:
    _require_bounded(
        rows,
        "At most %(most)s messages with %(most_chars)s characters are copied at once, and the copy would have more. "
        "Nothing was copied. Fork at an earlier message.",
    )


def _require_bounded(rows: MessageQuerySet, message: str) -> None:
    """Check that one request may read or copy these rows.

    Raises:
        TooLarge: they are too many, or have more than ``MAX_MEMORY_CHARS``. It does not say how many, because some may
            be hidden from users.
    """
    _require_few(rows, message)
    most = setting("MAX_MEMORY_CHARS")
    if rows.order_by().aggregate(chars=Coalesce(Sum(CHARS), 0))["chars"] > most:
        raise TooLarge(message, most=_MOST_MESSAGES, most_chars=most)


def _require_few(rows: MessageQuerySet, message: str) -> None:
    if rows.order_by()[: _MOST_MESSAGES + 1].count() > _MOST_MESSAGES:
        raise TooLarge(message, most=_MOST_MESSAGES, most_chars=setting("MAX_MEMORY_CHARS"))


def _of_user(messages: NewMessages) -> UserMessage:
    message = messages[0]
    assert isinstance(message, UserMessage)
    return message


class SiblingsField(serializers.ReadOnlyField):
    """The positions of messages that follow the same one, or null."""

    def openapi(self) -> Schema:
        return {"type": ["array", "null"], "items": {"type": "integer", "minimum": 0, "maximum": MAX_LIMIT}}


def message_field() -> MessageField:
    """Return the field with the siblings of each message."""
    return MessageField(
        name="siblings",
        schema=SiblingsField(
            help_text="The positions of the messages that follow the same message, this one among them, in ascending "
            "order; null if it is the only one. System messages are left out. Only where messages are read.",
        ),
        values=_siblings,
    )


def _siblings(request: Request, conversation: Conversation, positions: Collection[int]) -> dict[int, Any]:
    found = read_siblings(conversation) if positions else {}
    return {position: list(siblings) for position, siblings in found.items()}


_ONE = "conversations/<str:conversation_id>/"


def _post(name: str) -> URLPattern:
    return path(f"{_ONE}{name}/", BranchViewSet.as_view({"post": name}), name=f"conversation-{name}")


routes = [
    _post("rewind"),
    _post("edit"),
    _post("switch"),
    _post("fork"),
    path(f"{_ONE}tree/", BranchViewSet.as_view({"get": "tree"}), name="tree"),
    path(
        f"{_ONE}tree/<str:message_id>/",
        BranchViewSet.as_view({"put": "update", "delete": "destroy"}),
        name="tree-message",
    ),
]
