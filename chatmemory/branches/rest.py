"""Branches over REST: go back, edit, switch and fork; the tree as assistant-ui loads it; siblings of messages."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from django.urls import URLPattern, path
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.branches.tree import read_tree
from chatmemory.capabilities import MessageField
from chatmemory.core.exceptions import InvalidValueError
from chatmemory.database.change import Change
from chatmemory.models import Branch, Conversation
from chatmemory.rest.access import signed_in_user
from chatmemory.rest.problems import invalid
from chatmemory.rest.serializers import (
    EXAMPLE,
    ChangeSerializer,
    ConversationSerializer,
    CountField,
    NewMessageField,
    StrictSerializer,
)
from chatmemory.rest.views.viewset import ChatMemoryViewSet, call, record_change
from chatmemory.staff import WRITE_TEXT


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
    """The last message of the copy, and its names."""

    at = CountField(help_text="The position of the last message of the copy.")
    memory_id = serializers.CharField(
        required=False,
        max_length=255,
        trim_whitespace=False,
        help_text="What the application calls the copy; by default a UUID.",
    )
    title = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=255,
        help_text="By default that of the conversation; spaces around it are taken off.",
    )


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
        example={"at": 0, "title": "Another try"},
    )
    def fork(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Copy a conversation.

        The copy is what the conversation was when the message at a position had just been said. It has the same owner.
        """
        conversation, asked = self.conversation(), self.asked()
        try:
            copy = conversation.fork(**asked)
        except InvalidValueError as error:
            raise invalid("at", error) from error
        record_change(request, copy, {"forked_from": str(conversation.pk)}, act="add")
        data = ConversationSerializer(copy, context=self.get_serializer_context()).data
        return Response(data, status=status.HTTP_201_CREATED)

    def _go_back(self, place: str, go_back: Callable[..., Change]) -> Response:
        conversation, key = self.conversation(), self.idempotency_key()
        terms = self.terms(key)
        asked = self.asked()
        try:
            change = go_back(conversation, asked, idempotency_key=key, user=signed_in_user(self.request), **terms)
        except InvalidValueError as error:
            raise invalid(place, error) from error
        return self.changed(change)


def message_field() -> MessageField:
    """Return the field with the siblings of each message."""
    return MessageField(
        name="siblings",
        schema=serializers.ListField(
            child=CountField(),
            allow_null=True,
            read_only=True,
            help_text="The positions of the messages that follow the same message, this one among them, in ascending "
            "order; null if it is the only one. System messages are left out. Only where messages are read.",
        ),
        values=_siblings,
    )


def _siblings(request: Request, conversation: Conversation, positions: Collection[int]) -> dict[int, Any]:
    if not Branch.objects.using(conversation._state.db).filter(conversation=conversation).exists():
        return {}
    tree = read_tree(conversation)
    found = {position: tree.siblings(position) for position in positions if position in tree.parents}
    return {position: list(siblings) for position, siblings in found.items() if len(siblings) > 1}


_ONE = "conversations/<str:conversation_id>/"


def _post(name: str) -> URLPattern:
    return path(f"{_ONE}{name}/", BranchViewSet.as_view({"post": name}), name=f"conversation-{name}")


routes = [_post("rewind"), _post("edit"), _post("switch"), _post("fork")]
