"""The description of the REST API in OpenAPI, and its page. Needs drf-spectacular, as only this and inspector.py do."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.conf import settings
from django.templatetags.static import static
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.plumbing import normalize_result_object
from drf_spectacular.renderers import (
    OpenApiJsonRenderer,
    OpenApiJsonRenderer2,
    OpenApiYamlRenderer,
    OpenApiYamlRenderer2,
)
from drf_spectacular.settings import spectacular_settings
from rest_framework.renderers import TemplateHTMLRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory
from rest_framework.views import APIView

import chatmemory
from chatmemory.rest.inspector import VIEWS, ChatMemorySchema, text_of
from chatmemory.rest.urls import ROUTES
from chatmemory.rest.views.viewset import ProblemView

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


def openapi_document(request: Request | None = None) -> Any:
    """Return the OpenAPI document: of this app only, in the order of the addresses.

    Settings of the project for its own document change nothing. drf-spectacular's ``custom_settings`` would do most of
    that, but they change its settings for all threads.
    """
    generator = SchemaGenerator()
    paths: dict[str, Any] = {}
    for path, method, callback, _ in ROUTES:
        view = generator.create_view(callback, method.upper())
        view.request = view.initialize_request(APIRequestFactory().generic(method.upper(), path))
        view.schema = ChatMemorySchema()  # that of the class is one for all threads
        operation = view.schema.get_operation(path, path, "", method.upper(), generator.registry)
        paths.setdefault(path, {})[method] = operation
    mounted = request.path.removesuffix("/").rpartition("/")[0] if request else "/api"
    document = {
        "openapi": "3.1.1",
        "info": {"title": _TITLE, "version": chatmemory.__version__, "description": _DESCRIPTION},
        "servers": [{"url": mounted or "/"}],
        "tags": [{"name": view.tag, "description": text_of(view)} for view in VIEWS],
        "paths": paths,
    }
    return normalize_result_object({**document, "components": generator.registry.build({})})


class SchemaView(ProblemView, APIView):
    """The OpenAPI document: JSON, or YAML for those who ask for it."""

    schema = None
    renderer_classes = [OpenApiJsonRenderer2, OpenApiJsonRenderer, OpenApiYamlRenderer, OpenApiYamlRenderer2]

    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return Response(openapi_document(request))


class DocsView(ProblemView, APIView):
    """Swagger UI, from this server if drf_spectacular_sidecar is installed; nothing on the page is inline.

    drf-spectacular's own page has inline scripts. Its other view serves a script that holds the CSRF token, and pages
    of other sites could load that.
    """

    schema = None
    renderer_classes = [TemplateHTMLRenderer]

    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        chosen = spectacular_settings.SWAGGER_UI_SETTINGS
        page = {
            "title": _TITLE,
            "swagger_ui_css": _swagger_ui("swagger-ui.css"),
            "swagger_ui_bundle": _swagger_ui("swagger-ui-bundle.js"),
            "favicon_href": _swagger_ui("favicon-32x32.png", spectacular_settings.SWAGGER_UI_FAVICON_HREF),
            # A project may have set them as JavaScript text, which would be inline.
            "swagger_settings": chosen if isinstance(chosen, dict) else {},
            "csrf_header_name": settings.CSRF_HEADER_NAME.removeprefix("HTTP_").replace("_", "-"),
        }
        return Response(page, template_name="chatmemory/api_docs.html")


def _swagger_ui(filename: str, elsewhere: str = "") -> str:
    if apps.is_installed("drf_spectacular_sidecar"):
        return static(f"drf_spectacular_sidecar/swagger-ui-dist/{filename}")
    return elsewhere or f"{spectacular_settings.SWAGGER_UI_DIST}/{filename}"


for _view in VIEWS:
    _view.schema = ChatMemorySchema()
