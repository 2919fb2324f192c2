"""The address of the API itself, which says what there is: also without the extra ``openapi``."""

from __future__ import annotations

import inspect

from django.apps import apps
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chatmemory.rest.urls import ROUTES
from chatmemory.rest.views.viewset import ChatMemoryViewSet, ProblemView

_NEEDS = {
    "package": "django-chatmemory[openapi]",
    "INSTALLED_APPS": ["drf_spectacular", "drf_spectacular_sidecar"],
}
"""What the page needs on which these calls can be read and tried."""


class ApiRootView(ProblemView, APIView):
    """The calls of this API, and where they are documented."""

    schema = None
    renderer_classes = ChatMemoryViewSet.renderer_classes

    def get(self, request: Request, *args: object, **kwargs: object) -> Response:
        here = request.build_absolute_uri(request.path).rstrip("/")
        calls = [
            {
                "method": method.upper(),
                "url": f"{here}{path}",
                "summary": (inspect.getdoc(getattr(view.cls, view.actions[method])) or "").partition("\n")[0],
            }
            for path, method, view, _ in ROUTES
        ]
        needs = {} if apps.is_installed("drf_spectacular") else {"needs": _NEEDS}
        return Response({"documentation": {"url": f"{here}/docs/", **needs}, "calls": calls})
