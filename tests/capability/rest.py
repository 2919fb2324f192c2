"""What the app adds to the REST API."""

from __future__ import annotations

from typing import Any

from django.urls import path
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.rest.problems import NotFound
from chatmemory.rest.serializers import StrictSerializer
from chatmemory.rest.views.viewset import ChatMemoryViewSet, call
from tests.capability.capability import thumbs_of


class ThumbSerializer(StrictSerializer):
    position = serializers.IntegerField(min_value=0)
    up = serializers.BooleanField()


class ThumbsViewSet(ChatMemoryViewSet):
    """What people think of answers."""

    tag = "thumbs"

    @call(
        "putThumb",
        ("change",),
        users=True,
        body=ThumbSerializer,
        answer=ThumbSerializer,
        problems=(404,),
        example={"position": 1, "up": True},
    )
    def update(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Say what you think of an answer."""
        conversation, asked = self.conversation(), self.asked()
        if not thumbs_of(conversation).filter(position=asked["position"]).update(up=asked["up"]):
            raise NotFound
        return Response(asked)


routes = [
    path(
        "conversations/<str:conversation_id>/thumbs/",
        ThumbsViewSet.as_view({"put": "update"}),
        name="thumbs",
    )
]
