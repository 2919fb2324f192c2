"""The REST API: ``path("api/", include("chatmemory.urls"))``."""

from django.apps import apps
from django.urls import path

from chatmemory.rest.root import ApiRootView
from chatmemory.rest.urls import api_urlpatterns

app_name = "chatmemory"

urlpatterns = [path("", ApiRootView.as_view(), name="root"), *api_urlpatterns]

# Optional: see docs/rest.md.
if apps.is_installed("drf_spectacular"):
    from chatmemory.rest.openapi import DocsView, SchemaView

    urlpatterns += [
        path("schema/", SchemaView.as_view(), name="schema"),
        path("docs/", DocsView.as_view(), name="docs"),
    ]
