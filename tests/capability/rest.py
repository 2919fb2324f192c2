"""What the app adds to the REST API."""

from __future__ import annotations

from typing import Any

from django.urls import path
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.capabilities import MessageField
from chatmemory.rest.problems import NotFound
from chatmemory.rest.serializers import StrictSerializer
from chatmemory.rest.views.viewset import ChatMemoryViewSet, call
from tests.capability.capability import reviews_of


class ReviewSerializer(StrictSerializer):
    position = serializers.IntegerField(min_value=0)
    correct = serializers.BooleanField()


class ReviewsViewSet(ChatMemoryViewSet):
    """Whether answers are correct."""

    tag = "reviews"

    @call(
        "putReview",
        ("change",),
        users=True,
        body=ReviewSerializer,
        answer=ReviewSerializer,
        problems=(404,),
        example={"position": 1, "correct": True},
    )
    def update(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Say whether an answer is correct."""
        conversation, asked = self.conversation(), self.asked()
        found = reviews_of(conversation).filter(position=asked["position"])
        if not found.update(correct=asked["correct"], reviewer=request.user):
            raise NotFound
        return Response(asked)


def message_field() -> MessageField:
    def values(request: Any, conversation: Any, positions: Any) -> dict[int, Any]:
        return dict(reviews_of(conversation).filter(position__in=positions).values_list("position", "correct"))

    schema = serializers.BooleanField(read_only=True, allow_null=True, help_text="Null if nobody has reviewed it.")
    return MessageField(name="correct", schema=schema, values=values)


routes = [
    path(
        "conversations/<str:conversation_id>/reviews/",
        ReviewsViewSet.as_view({"put": "update"}),
        name="reviews",
    )
]
