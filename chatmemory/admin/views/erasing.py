"""Erasing conversations in the admin, after showing how many messages will be lost."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.db import router, transaction
from django.db.models import ProtectedError, QuerySet, RestrictedError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatmemory.admin.lists import ReadOnlyAdmin
from chatmemory.admin.views.selection import MOST_LISTED, Selection
from chatmemory.database.connections import retry
from chatmemory.models import Conversation, Message


class Erasing(ReadOnlyAdmin):
    """The part of the admin that deletes conversations."""

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[Any, Any], set[Any], list[Any]]:
        """Return what is deleted as well, counted rather than collected: there may be a hundred thousand messages."""
        conversations = list(objs)
        names = Conversation._meta.verbose_name, Conversation._meta.verbose_name_plural
        listed: list[Any] = [
            format_html("{}: <bdi>{}</bdi>", capfirst(names[0]), str(conversation))
            for conversation in conversations[:MOST_LISTED]
        ]
        more = len(conversations) - len(listed)
        if more:
            listed.append(ngettext("… and %(count)d more", "… and %(count)d more", more) % {"count": more})
        counts = {
            names[1]: len(conversations),
            Message._meta.verbose_name_plural: Message.objects.filter(conversation__in=conversations).count(),
        }
        allowed = all(self.has_delete_permission(request, conversation) for conversation in conversations)
        return listed, counts, set() if allowed else {names[0]}, []

    def delete_model(self, request: HttpRequest, obj: Conversation) -> None:
        """Erase a conversation, locked first, so that nobody adds to one that is half deleted."""
        obj.memory.erase()

    def delete_queryset(self, request: HttpRequest, queryset: Iterable[Conversation]) -> None:
        for conversation in queryset:
            self.delete_model(request, conversation)

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        view = partial(
            super().delete_view, request, object_id, {"title": _("Erase conversation"), **(extra_context or {})}
        )
        try:
            return retry(router.db_for_write(Conversation), view)
        except Conversation.DoesNotExist as error:
            raise Http404 from error
        except (ProtectedError, RestrictedError):
            self.message_user(request, _("It was not erased: other objects refer to it."), messages.ERROR)
            return HttpResponseRedirect(
                reverse(
                    "admin:chatmemory_conversation_change",
                    args=[quote(object_id)],
                    current_app=self.admin_site.name,
                )
            )

    def render_delete_form(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        lost = dict(context["model_count"]).get(Message._meta.verbose_name_plural, 0)
        return super().render_delete_form(request, {**context, "lost": lost})

    def response_delete(self, request: HttpRequest, obj_display: str, obj_id: int) -> HttpResponse:
        said = ngettext("%(count)s conversation was erased.", "%(count)s conversations were erased.", 1)
        self.message_user(request, said % {"count": 1}, messages.SUCCESS)
        return HttpResponseRedirect(
            reverse("admin:chatmemory_conversation_changelist", current_app=self.admin_site.name)
        )


# It has the name of the admin's own action, and so replaces it.
@admin.action(description=gettext_lazy("Erase selected conversations"), permissions=["delete"])
def delete_selected(model_admin: Any, request: HttpRequest, queryset: QuerySet[Conversation]) -> HttpResponse | None:
    """Erase several conversations once confirmed, each in one transaction with its entry in the log."""
    selection = Selection(model_admin, request, queryset, ("view", "delete"))
    if not request.POST.get("confirmed"):
        if selection.look():
            lost = Message.objects.filter(conversation__in=selection.queryset.order_by()).count()
            return selection.ask("erase_selected", _("Erase conversations"), lost=lost)
        selection.report()
        return None
    erased = held = 0
    for is_erased in selection.each(partial(_erase, model_admin, request)):
        erased += is_erased
        held += not is_erased
    if erased:
        said = ngettext("%(count)s conversation was erased.", "%(count)s conversations were erased.", erased)
        model_admin.message_user(request, said % {"count": erased}, messages.SUCCESS)
    if held:
        said = ngettext(
            "%(count)s conversation was not erased: other objects refer to it.",
            "%(count)s conversations were not erased: other objects refer to them.",
            held,
        )
        model_admin.message_user(request, said % {"count": held}, messages.ERROR)
    selection.report()
    return None


def _erase(model_admin: Any, request: HttpRequest, conversation: Conversation) -> bool:
    """Erase a conversation and log it; return False if other objects refer to it."""
    alias = router.db_for_write(Conversation)

    def erase() -> None:
        with transaction.atomic(using=alias):
            model_admin.log_deletions(request, [conversation])
            model_admin.delete_model(request, conversation)

    try:
        retry(alias, erase)
    except (ProtectedError, RestrictedError):
        return False
    return True
