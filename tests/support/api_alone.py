"""The addresses of a project without the admin."""

from django.urls import include, path

urlpatterns = [path("api/", include("chatmemory.urls"))]
