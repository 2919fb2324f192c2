"""The schema, and a page to browse it."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.templatetags.static import static
from drf_spectacular.generators import EndpointEnumerator, SchemaGenerator
from drf_spectacular.plumbing import normalize_result_object
from drf_spectacular.renderers import (
    OpenApiJsonRenderer,
    OpenApiJsonRenderer2,
    OpenApiYamlRenderer,
    OpenApiYamlRenderer2,
)
from drf_spectacular.settings import spectacular_settings
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory
from rest_framework.views import APIView

import chatmemory
from chatmemory.rest.openapi.inspector import ChatMemorySchema, text_of
from chatmemory.rest.openapi.routes import VIEWS
from chatmemory.rest.urls import api_urlpatterns
from chatmemory.rest.views.base import ProblemView

__all__ = ["DocsView", "SchemaView", "openapi_document"]

_TITLE = "chatmemory"
_DESCRIPTION = """\
The memory of LLM chats: all that was said is kept as history, and the model gets a window of it.

**Signing in** is the project's matter. With a session, every change needs the CSRF token in the header `X-CSRFToken`.
You see your own conversations only; everything else is a 404.

**A turn of a chat**: `addMessages` with what the user said, `getMemory?format=openai` for what the model is to get,
`addMessages` with its answer.

**Requests are read strictly.** An unknown field or parameter or a value of the wrong type is a 400 that names the
place, and then nothing was changed. No text may hold U+0000. Every error is a problem detail,
`application/problem+json`.

**Repeating a request** is safe with an `Idempotency-Key`. **Not overwriting** what others changed: `If-Match` with the
`ETag` that you have seen.
"""
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


class _Endpoints(EndpointEnumerator):
    """In the order of the URL conf, and untouched by a project's settings for its own schema."""

    def get_api_endpoints(self, patterns: Any = None, prefix: str = "") -> list[Any]:
        found: list[Any] = self._get_api_endpoints(patterns, prefix)
        order = list(dict.fromkeys(endpoint[0] for endpoint in found))
        return sorted(found, key=lambda endpoint: (order.index(endpoint[0]), _METHODS.index(endpoint[2])))


class _Generator(SchemaGenerator):
    """Describes this app only.

    drf-spectacular's ``custom_settings`` would do most of it, but they change its settings for all threads.
    """

    endpoint_inspector_cls = _Endpoints

    def parse(self, input_request: Request | None, public: bool) -> dict[str, Any]:
        self._initialise_endpoints()
        paths: dict[str, Any] = {}
        for path, path_regex, method, view in self._get_paths_and_endpoints():
            view.request = view.initialize_request(APIRequestFactory().generic(method, path))
            view.schema = ChatMemorySchema()  # that of the class is one for all threads
            operation = view.schema.get_operation(path, path_regex, "", method, self.registry)
            paths.setdefault(path, {})[method.lower()] = operation
        return paths

    def get_schema(self, request: Request | None = None, public: bool = False) -> Any:
        mounted = request.path.removesuffix("/").rpartition("/")[0] if request else "/api"
        document = {
            "openapi": "3.1.1",
            "info": {"title": _TITLE, "version": chatmemory.__version__, "description": _DESCRIPTION},
            "servers": [{"url": mounted or "/"}],
            "tags": [{"name": view.tag, "description": text_of(view)} for view in VIEWS],
            "paths": self.parse(request, public),
        }
        return normalize_result_object({**document, "components": self.registry.build({})})


def openapi_document(request: Request | None = None) -> Any:
    """Return the OpenAPI document."""
    return _Generator(patterns=api_urlpatterns).get_schema(request)


class SchemaView(ProblemView, SpectacularAPIView):
    """The OpenAPI document: JSON, or YAML for those who ask for it."""

    schema = None
    authentication_classes = APIView.authentication_classes
    renderer_classes = [OpenApiJsonRenderer2, OpenApiJsonRenderer, OpenApiYamlRenderer, OpenApiYamlRenderer2]

    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return Response(openapi_document(request))


class DocsView(ProblemView, SpectacularSwaggerView):
    """Swagger UI, from this server if drf_spectacular_sidecar is installed; nothing on the page is inline.

    drf-spectacular's own page has inline scripts. Its other view serves a script that holds the CSRF token, and pages
    of other sites could load that.
    """

    schema = None
    authentication_classes = APIView.authentication_classes
    url = "../schema/"
    title = _TITLE
    template_name = "chatmemory/api_docs.html"

    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        response: Response = super().get(request, *args, **kwargs)
        settings = spectacular_settings.SWAGGER_UI_SETTINGS
        # A project may have set them as JavaScript text, which would be inline.
        response.data["swagger_settings"] = settings if isinstance(settings, dict) else {}
        return response

    @staticmethod
    def _swagger_ui_resource(filename: str) -> str:
        if apps.is_installed("drf_spectacular_sidecar"):
            return static(f"drf_spectacular_sidecar/swagger-ui-dist/{filename}")
        found: str = SpectacularSwaggerView._swagger_ui_resource(filename)
        return found

    @staticmethod
    def _swagger_ui_favicon() -> str:
        if apps.is_installed("drf_spectacular_sidecar"):
            return static("drf_spectacular_sidecar/swagger-ui-dist/favicon-32x32.png")
        found: str = SpectacularSwaggerView._swagger_ui_favicon()
        return found
