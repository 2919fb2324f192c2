"""The REST API: ``path("api/", include("chatmemory.urls"))``."""

urlpatterns = []
