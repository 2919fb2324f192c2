"""Feedback over REST: one's own at each message, and all of a conversation."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.urls import path
from django_filters import rest_framework as filters
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.capabilities import MessageField
from chatmemory.contrib.feedback.giving import NotAnAnswerError, give_feedback, withdraw_feedback
from chatmemory.contrib.feedback.models import LONGEST_COMMENT, Feedback, Thumb
from chatmemory.core.arguments import whole_number
from chatmemory.models import MAX_LIMIT, Conversation, Message
from chatmemory.rest.access import is_for_others, signed_in_user
from chatmemory.rest.filters import ConversationPagination, StrictOrderingFilter
from chatmemory.rest.problems import NotFound, invalid
from chatmemory.rest.serializers import OwnerField, PageSerializer, StrictSerializer
from chatmemory.rest.views.viewset import ChatMemoryViewSet, call, record_change, record_read
from chatmemory.staff import READ_TEXT


class FeedbackSerializer(serializers.ModelSerializer[Feedback]):
    """The rating of an answer by a user."""

    sometimes = ("user",)

    user = OwnerField(
        source="user_id", help_text="The primary key of the user, null if it is not known. Only with `?owner=`."
    )

    class Meta:
        model = Feedback
        fields = ["position", "value", "comment", "created_at", "updated_at", "user"]
        read_only_fields = fields
        extra_kwargs = {
            "position": {"help_text": "The position of the answer."},
            "comment": {"help_text": "Empty if there is none, or for staff who may not read what messages say."},
        }

    def to_representation(self, instance: Feedback) -> dict[str, Any]:
        data = super().to_representation(instance)
        if not self.context.get("with_owner"):
            del data["user"]
        return data if self.context.get("with_text", True) else {**data, "comment": ""}


class GivenFeedbackSerializer(StrictSerializer):
    """What you think of an answer."""

    value = serializers.ChoiceField(Thumb.values)
    comment = serializers.CharField(
        default="", allow_blank=True, max_length=LONGEST_COMMENT, help_text="Spaces around it are taken off."
    )


class FeedbackPageSerializer(PageSerializer):
    """One page."""

    results = FeedbackSerializer(many=True)


class FeedbackFilter(filters.FilterSet):
    """The filter of feedback."""

    value = filters.ChoiceFilter(choices=[(value, value) for value in Thumb.values], help_text="up or down.")


class FeedbackPagination(ConversationPagination):
    """The newest first."""

    ordering = ("-created_at", "-id")


class FeedbackViewSet(ChatMemoryViewSet):
    """What users think of answers: thumbs up or down, with a comment."""

    tag = "feedback"
    serializer_class = FeedbackSerializer
    pagination_class = FeedbackPagination
    filter_backends = [filters.DjangoFilterBackend, StrictOrderingFilter]
    filterset_class = FeedbackFilter
    ordering_fields = ["created_at"]
    ordering = ["-created_at", "-id"]

    @call("listFeedback", ("view",), users=True, answer=FeedbackPageSerializer)
    def list(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """List the feedback to a conversation.

        In pages, the newest first: your own, and with `?owner=` that of all users.
        """
        conversation = self.conversation()
        rows = Feedback.objects.using(conversation._state.db).filter(conversation=conversation)
        if not is_for_others(request):
            rows = rows.filter(user=signed_in_user(request))
        page = self.paginate_queryset(self.filter_queryset(rows)) or []
        if any(row.comment for row in page):
            record_read(request, conversation)
        serializer = FeedbackSerializer(page, many=True, context=self.get_serializer_context())
        return self.get_paginated_response(serializer.data)

    @call(
        "giveFeedback",
        READ_TEXT,
        users=True,
        body=GivenFeedbackSerializer,
        answer=FeedbackSerializer,
        example={"value": "down", "comment": "The link is dead."},
    )
    def update(self, request: Request, conversation_id: str, position: str, **kwargs: Any) -> Response:
        """Rate an answer.

        You can rate each answer of the model once, also if it is no longer in the memory. Another request takes the
        place of the first.
        """
        conversation = self.conversation()
        asked = self.asked()

        def also(change: Any) -> None:
            record_change(request, change.conversation, {"feedback": asked["value"]})

        try:
            row = give_feedback(conversation, _known(position), signed_in_user(request), **asked, also=also)
        except Message.DoesNotExist as error:
            raise _nothing_there() from error
        except NotAnAnswerError as error:
            raise invalid("position", error) from error
        return Response(FeedbackSerializer(row, context=self.get_serializer_context()).data)

    @call("withdrawFeedback", READ_TEXT, users=True)
    def destroy(self, request: Request, conversation_id: str, position: str, **kwargs: Any) -> Response:
        """Withdraw your feedback.

        204 also if there is none.
        """
        conversation = self.conversation()

        def also(change: Any) -> None:
            record_change(request, change.conversation, {"feedback": None})

        withdraw_feedback(conversation, _known(position), signed_in_user(request), also=also)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _known(position: str) -> int:
    known = whole_number(position, most=MAX_LIMIT)
    if known is None:
        raise _nothing_there()
    return known


def _nothing_there() -> NotFound:
    return NotFound("There is no message at this position.")


def message_field() -> MessageField:
    """Return the field with the user's own feedback at each message."""
    return MessageField(
        name="feedback",
        schema=FeedbackSerializer(
            read_only=True, allow_null=True, help_text="Your own, null if there is none. Only where messages are read."
        ),
        values=_values,
    )


def _values(request: Request, conversation: Conversation, positions: Collection[int]) -> dict[int, Any]:
    rows = Feedback.objects.using(conversation._state.db).filter(conversation=conversation, position__in=positions)
    serializer = FeedbackSerializer()
    return {row.position: serializer.to_representation(row) for row in rows.filter(user=signed_in_user(request))}


_ONE = "conversations/<str:conversation_id>/"

routes = [
    path(f"{_ONE}feedback/", FeedbackViewSet.as_view({"get": "list"}), name="feedback"),
    path(
        f"{_ONE}messages/<str:position>/feedback/",
        FeedbackViewSet.as_view({"put": "update", "delete": "destroy"}),
        name="message-feedback",
    ),
]
