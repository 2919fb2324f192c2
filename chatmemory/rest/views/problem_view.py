"""The base of every view of this app, the description of the API included."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.db import connections, transaction
from rest_framework import status
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.models import Conversation
from chatmemory.rest.access import permission_classes
from chatmemory.rest.problems import PROBLEM_JSON, problem_response

if TYPE_CHECKING:
    from rest_framework.views import APIView
else:
    APIView = object

__all__ = ["ProblemView"]


class ProblemView(APIView):
    """The project's permissions, and problem details where something is wrong. Goes before a view of REST framework."""

    queryset: Any = Conversation.objects.none()  # by which permission classes know the model
    versioning_class = None  # the addresses have no version, whatever those of the project have

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        return super().dispatch(request, *args, **kwargs)

    # Each change is one transaction of its own. ATOMIC_REQUESTS would hold its lock until the answer is rendered, and
    # a database that is away would be an error before a view could answer.
    for _alias in connections:
        dispatch = transaction.non_atomic_requests(_alias)(dispatch)

    def get_permissions(self) -> list[Any]:
        return [permission() for permission in permission_classes()]

    def get_exception_handler(self) -> Callable[..., Response | None]:
        return problem_response

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        if status.is_server_error(response.status_code):
            # A page for a browser would ask the database who is signed in.
            request.accepted_renderer, request.accepted_media_type = JSONRenderer(), JSONRenderer.media_type
        response = super().finalize_response(request, response, *args, **kwargs)
        if getattr(response, "exception", False) and "json" in response.accepted_renderer.format:
            response.content_type = PROBLEM_JSON
        return response
