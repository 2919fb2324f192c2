"""The demo's addresses."""

from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import include, path

from demo_project.chat import views

urlpatterns = [
    path("", views.chat, name="chat"),
    path("chat/<uuid:conversation_id>/", views.chat, name="chat-of"),
    path("chat/<uuid:conversation_id>/recall/", views.recall, name="recall"),
    path("new/", views.new_chat, name="new-chat"),
    path("sign-in/", views.sign_in, name="sign-in"),
    path("sign-out/", LogoutView.as_view(next_page="sign-in"), name="sign-out"),
    path("admin/", admin.site.urls),
    path("api/", include("chatmemory.urls")),
    path("api-auth/", include("rest_framework.urls")),
]
