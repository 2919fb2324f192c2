"""A selection of conversations: confirming an action on them, and iterating over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import ngettext

from chatmemory.admin.views.staff_pages import admin_page
from chatmemory.database.reading import chunks
from chatmemory.models import Conversation

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
    """Permissions needed for each conversation; ``"view"`` stands for ``has_view_permission()``."""

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
