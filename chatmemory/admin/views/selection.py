"""Selected conversations: an action is confirmed, they are erased, or they are exported.

An export is JSON lines with everything that is known of them, or their history for other programs. The admin's log
records each export.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.db import router, transaction
from django.db.models import ProtectedError, QuerySet, RestrictedError, Sum
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.text import capfirst, format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatmemory.admin.lists import ReadOnlyAdmin
from chatmemory.admin.views.staff_pages import admin_page, conversation_or_404, conversation_page, logged, record_read
from chatmemory.conf import setting
from chatmemory.database.change import Change
from chatmemory.database.connections import retry
from chatmemory.database.reading import chunks
from chatmemory.formats.registry import message_formats
from chatmemory.models import Conversation, Message

MOST_LISTED = 20

Result = TypeVar("Result")


@dataclass
class Selection:
    """The conversations selected in the list on which this member of staff may act."""

    model_admin: Any

    request: HttpRequest

    queryset: QuerySet[Conversation]
    """The selected conversations."""

    permissions: tuple[str, ...]
    """Permissions needed for each conversation; ``"view"`` means ``has_view_permission()``."""

    refused: int = 0
    """Number of conversations left out for lack of a permission."""

    gone: int = 0
    """Number of conversations that were erased in the meantime."""

    listed: list[Conversation] = field(default_factory=list)
    """The first conversations, to be listed by name."""

    count: int = 0
    """Number of conversations, without those of the first that are refused."""

    def allows(self, conversation: Conversation) -> bool:
        """Return whether this member of staff may act on a conversation."""
        return all(
            getattr(self.model_admin, f"has_{name}_permission")(self.request, conversation) for name in self.permissions
        )

    def parts(self) -> Iterator[list[Conversation]]:
        """Yield the conversations to act on, some hundred at a time, and count those left out."""
        # By primary key: acting on some must not change which others a filter finds.
        for keys in chunks(list(self.queryset.values_list("pk", flat=True))):
            found = self.model_admin.get_queryset(self.request).select_related("owner").in_bulk(keys)
            self.gone += len(keys) - len(found)
            allowed = [found[key] for key in keys if key in found and self.allows(found[key])]
            self.refused += len(found) - len(allowed)
            yield allowed

    def each(self, act: Callable[[Conversation], Result]) -> Iterator[Result]:
        """Act on one conversation after the other, yield what came of it, and count those that are gone."""
        for part in self.parts():
            for conversation in part:
                try:
                    yield act(conversation)
                except Conversation.DoesNotExist:
                    self.gone += 1

    def report(self) -> None:
        """Show messages about the conversations that were left out."""
        if self.refused:
            said = ngettext(
                "%(count)s conversation was left out, because you have no permission for it.",
                "%(count)s conversations were left out, because you have no permission for them.",
                self.refused,
            )
            self._warn(said % {"count": self.refused})
        if self.gone:
            said = ngettext(
                "%(count)s conversation was erased in the meantime.",
                "%(count)s conversations were erased in the meantime.",
                self.gone,
            )
            self._warn(said % {"count": self.gone})

    def _warn(self, said: str) -> None:
        self.model_admin.message_user(self.request, said, messages.WARNING)

    def look(self) -> bool:
        """List the first conversations, leave out those that are refused, and return whether any remain."""
        first = list(self.queryset[:MOST_LISTED])
        self.listed = [conversation for conversation in first if self.allows(conversation)]
        self.refused = len(first) - len(self.listed)
        if self.refused:
            allowed = {conversation.pk for conversation in self.listed}
            self.queryset = self.queryset.exclude(pk__in=[found.pk for found in first if found.pk not in allowed])
        self.count = self.queryset.order_by().count()
        return self.count > 0

    def ask(self, name: str, title: str, **context: Any) -> HttpResponse:
        """Return the page ``<name>.html``, which asks for confirmation.

        Its form repeats the selection: the query, if all its results were selected, and otherwise the keys.
        """
        selected = self.request.POST.getlist(ACTION_CHECKBOX_NAME)
        across = self.request.POST.get("select_across") == "1"
        return admin_page(
            self.model_admin,
            self.request,
            name,
            title,
            selection=self,
            address=self.request.get_full_path(),
            more=self.count - len(self.listed),
            action=self.request.POST.get("action"),
            across=across,
            # The list ignores a form that selects nothing.
            selected=selected[:1] if across else selected,
            **context,
        )


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
        """Lock a conversation and erase it, so that no message is added in between."""
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


_AS_JSON_LINES = gettext_lazy("Exported as JSON lines.")


def say_cleared(change: Change) -> str:
    """Return a sentence about the change; empty if the memory was empty."""
    count = len(change.evicted)
    if not count:
        return ""
    said = ngettext(
        "The memory was cleared; %(count)s message was evicted.",
        "The memory was cleared; %(count)s messages were evicted.",
        count,
    )
    return said % {"count": count}


@admin.action(description=gettext_lazy("Clear the memories of selected conversations"), permissions=["act"])
def clear_memories(model_admin: Any, request: HttpRequest, queryset: QuerySet[Conversation]) -> HttpResponse | None:
    """Clear the memories of several conversations, each in a transaction of its own. Empty ones are skipped."""
    selection = Selection(model_admin, request, queryset.filter(retained_count__gt=0), ("view", "act"))
    if not request.POST.get("confirmed"):
        if selection.look():
            leaving = selection.queryset.order_by().aggregate(total=Sum("retained_count"))["total"]
            context = {"leaving": leaving, "keeps_history": setting("KEEP_HISTORY")}
            return selection.ask("clear_selected", _("Clear memories"), **context)
        if not selection.refused:
            model_admin.message_user(request, _("There is nothing to clear: the memories are empty."), messages.WARNING)
        selection.report()
        return None

    def clear(conversation: Conversation) -> int:
        change = conversation.memory.clear(also=logged(model_admin, request, conversation, say_cleared))
        return len(change.evicted)

    counts = [count for count in selection.each(clear) if count]
    if counts:
        said = ngettext(
            "The memory of %(count)s conversation was cleared.",
            "The memories of %(count)s conversations were cleared.",
            len(counts),
        )
        evicted = sum(counts)
        left = ngettext("%(count)s message was evicted.", "%(count)s messages were evicted.", evicted)
        model_admin.message_user(
            request, f"{said % {'count': len(counts)}} {left % {'count': evicted}}", messages.SUCCESS
        )
    selection.report()
    return None


def json_lines(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse | StreamingHttpResponse:
    """Answer with a conversation as JSON lines, with everything that is known of it."""
    from chatmemory.transfer.export import conversation_lines

    conversation = conversation_or_404(model_admin, request, object_id, also="read_text")
    lines = conversation_lines([conversation.pk])
    return _logged_file(request, conversation, _AS_JSON_LINES, lines, ".jsonl")


def in_format(
    model_admin: Any, request: HttpRequest, object_id: str, name: str
) -> HttpResponse | StreamingHttpResponse:
    """Answer with the history in a format that has one value for each message."""
    from chatmemory.transfer.histories import NotExportableError, history_text

    conversation = conversation_or_404(model_admin, request, object_id, also="read_text")
    format = message_formats()[name]
    if format.write_each is None:
        raise Http404
    try:
        text = history_text(conversation, format)
    except NotExportableError as error:
        context = {"row": error.row, "problem": error.problem}
        response = conversation_page(model_admin, request, conversation, "export_refused", _("Export"), **context)
        response.status_code = 409
        return response
    exported = format_lazy(gettext_lazy("Exported for {format}."), format=format.title)
    return _logged_file(request, conversation, exported, text, f"-{name}.json")


@admin.action(description=gettext_lazy("Export selected conversations as JSON lines"), permissions=["read_text"])
def export_selected(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Conversation]
) -> StreamingHttpResponse | None:
    """Answer with the selected conversations as JSON lines, one after the other, and log each export."""
    from chatmemory.transfer.export import conversation_lines

    selection = Selection(model_admin, request, queryset, ("view", "read_text"))
    chosen = []
    with transaction.atomic(using=router.db_for_write(LogEntry)):
        for part in selection.parts():
            record_read(request, *part, what=_AS_JSON_LINES)
            chosen += [conversation.pk for conversation in part]
    selection.report()
    return _file(conversation_lines(chosen), "conversations.jsonl") if chosen else None


def _logged_file(
    request: HttpRequest, conversation: Conversation, what: Any, content: Iterable[str], name: str
) -> StreamingHttpResponse:
    record_read(request, conversation, what=what)
    if request.method == "HEAD":
        content = []
    return _file(content, f"conversation-{conversation.pk}{name}")


def _file(content: Iterable[str], name: str) -> StreamingHttpResponse:
    kind = "application/jsonl" if name.endswith(".jsonl") else "application/json"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return StreamingHttpResponse(content, content_type=kind, headers=headers)
