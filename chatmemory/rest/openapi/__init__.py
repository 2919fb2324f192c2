"""The description of the REST API in OpenAPI. Needs drf-spectacular, and nothing outside this package does."""

from __future__ import annotations

from chatmemory.rest.openapi.inspector import VIEWS, ChatMemorySchema
from chatmemory.rest.openapi.views import DocsView, SchemaView, openapi_document

__all__ = ["DocsView", "SchemaView", "openapi_document"]

for _view in VIEWS:
    _view.schema = ChatMemorySchema()
