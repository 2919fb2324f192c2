"""A plain REST framework view."""

from __future__ import annotations

from typing import Any

from rest_framework import generics, serializers
from rest_framework.permissions import IsAuthenticated

from benchmarks.bare.models import BareMessage

__all__ = ["BareMessages"]


class BareMessageSerializer(serializers.ModelSerializer[BareMessage]):
    """A serializer of all columns."""

    class Meta:
        model = BareMessage
        fields = ["id", "conversation", "type", "text", "created_at"]
        read_only_fields = ["conversation"]


class BareMessages(generics.CreateAPIView[BareMessage]):
    """A view that inserts one row and returns it."""

    permission_classes = [IsAuthenticated]
    serializer_class = BareMessageSerializer

    def perform_create(self, serializer: Any) -> None:
        serializer.save(conversation=self.kwargs["conversation"])
