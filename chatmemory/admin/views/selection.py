"""Several conversations at once: asking about them, and going through them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import ngettext

from chatmemory.database.rows import chunks
from chatmemory.models import Conversation

__all__ = ["MOST_LISTED", "Selection"]

MOST_LISTED = 20


@dataclass
class Selection:
    """What was selected in the list, as far as this member of staff may do it to each."""

    model_admin: Any

    request: HttpRequest

    queryset: QuerySet[Conversation]
    """What the action was given."""

    permissions: tuple[str, ...]
    """``"view"`` stands for ``has_view_permission()``; each is asked about each conversation."""

    refused: int = 0
    """How many were left out, for want of a permission."""

    gone: int = 0
    """How many were erased meanwhile."""

    listed: list[Conversation] = field(default_factory=list)
    """The first ones, to be named."""

    count: int = 0
    """How many there are, less those of the first that are refused."""

    def allows(self, conversation: Conversation) -> bool:
        """Whether this one may be acted on."""
        return all(
            getattr(self.model_admin, f"has_{name}_permission")(self.request, conversation) for name in self.permissions
        )

    def parts(self) -> Iterator[list[Conversation]]:
        """Those that may be acted on, some hundred at a time. What is left out is counted."""
        # By primary key: acting on some must not change which others a filter finds.
        for keys in chunks(list(self.queryset.values_list("pk", flat=True))):
            found = self.model_admin.get_queryset(self.request).select_related("owner").in_bulk(keys)
            self.gone += len(keys) - len(found)
            allowed = [found[key] for key in keys if key in found and self.allows(found[key])]
            self.refused += len(found) - len(allowed)
            yield allowed

    def report(self) -> None:
        """Say how many were left out."""
        if self.refused:
            said = ngettext(
                "%(count)s conversation was left out, because you have no permission for it.",
                "%(count)s conversations were left out, because you have no permission for them.",
                self.refused,
            )
            self._warn(said % {"count": self.refused})
        if self.gone:
            said = ngettext(
                "%(count)s conversation had been erased meanwhile.",
                "%(count)s conversations had been erased meanwhile.",
                self.gone,
            )
            self._warn(said % {"count": self.gone})

    def _warn(self, said: str) -> None:
        self.model_admin.message_user(self.request, said, messages.WARNING)

    def look(self) -> bool:
        """List the first, leave those of them out that may not be acted on, and tell whether there are any others."""
        first = list(self.queryset[:MOST_LISTED])
        self.listed = [conversation for conversation in first if self.allows(conversation)]
        self.refused = len(first) - len(self.listed)
        if self.refused:
            allowed = {conversation.pk for conversation in self.listed}
            self.queryset = self.queryset.exclude(pk__in=[found.pk for found in first if found.pk not in allowed])
        self.count = self.queryset.order_by().count()
        return self.count > 0

    def ask(self, name: str, title: str, **context: Any) -> HttpResponse:
        """The page ``<name>.html``, which asks whether to act.

        Its form repeats the selection: all that a query finds, if that was selected, and otherwise the keys.
        """
        selected = self.request.POST.getlist(ACTION_CHECKBOX_NAME)
        across = self.request.POST.get("select_across") == "1"
        self.request.current_app = self.model_admin.admin_site.name
        return TemplateResponse(
            self.request,
            f"admin/chatmemory/conversation/{name}.html",
            {
                **self.model_admin.admin_site.each_context(self.request),
                "title": title,
                "opts": self.model_admin.model._meta,
                "media": self.model_admin.media,
                "selection": self,
                "address": self.request.get_full_path(),
                "more": self.count - len(self.listed),
                "action": self.request.POST.get("action"),
                "across": across,
                # The list passes a form over that selects nothing at all.
                "selected": selected[:1] if across else selected,
                **context,
            },
        )
