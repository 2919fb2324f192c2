"""The addresses of the project that is measured."""

from django.urls import include, path

from benchmarks.streams.site import abare, bare

urlpatterns = [
    path("api/", include("chatmemory.urls")),
    path("bare/wsgi/", bare),
    path("bare/asgi/", abare),
]
