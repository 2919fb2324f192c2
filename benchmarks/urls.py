"""The addresses of the benchmark's server: the API, the admin and the bare view."""

from django.contrib import admin
from django.urls import include, path

from benchmarks.bare.views import BareMessages

urlpatterns = [
    path("api/", include("chatmemory.urls")),
    path("admin/", admin.site.urls),
    path("bare/<uuid:conversation>/messages/", BareMessages.as_view()),
]
