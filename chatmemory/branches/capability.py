"""The hooks by which the other parts of chatmemory know branches.

The modules that the hooks need are imported when they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chatmemory.capabilities import AdminPage, Capability, MessageField

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest
    from django.urls import URLPattern

    from chatmemory.models import Conversation
    from chatmemory.transfer.export import Line
    from chatmemory.verification import Finding


class Branches(Capability):
    """Branches are always there. See docs/branches.md."""

    def anonymise(self, conversation: Conversation) -> None:
        from chatmemory.branches.records import rows_of

        rows_of(conversation).update(user=None)

    def erase_user(self, user: Any, database: str, *, how: str) -> None:
        from chatmemory.models import Branch

        Branch.objects.using(database).filter(user=user).update(user=None)

    def export(self, conversation: Conversation) -> Iterable[dict[str, Any]]:
        from chatmemory.branches.records import export

        return export(conversation)

    def export_user(self, user: Any, database: str) -> Iterable[dict[str, Any]]:
        from chatmemory.branches.records import export_user

        return export_user(user, database)

    def restore(self, conversation: Conversation, line: Line) -> Callable[[], object]:
        from chatmemory.branches.records import restore

        return restore(conversation, line)

    def verify(self, conversations: QuerySet[Conversation], *, repair: bool) -> Iterable[Finding]:
        from chatmemory.branches.records import verify

        return verify(conversations, repair=repair)

    def routes(self) -> Sequence[URLPattern]:
        from chatmemory.branches.rest import routes

        return routes

    def message_fields(self) -> Sequence[MessageField]:
        from chatmemory.branches.rest import message_field

        return [message_field()]

    def admin_pages(self) -> Sequence[AdminPage]:
        from chatmemory.branches.admin import switch

        return [AdminPage(name="switch", label="", view=switch)]

    def admin_section(self, model_admin: Any, request: HttpRequest, conversation: Conversation, version: int) -> str:
        from chatmemory.branches.admin import section

        return section(model_admin, request, conversation, version)

    def admin_notes(
        self, model_admin: Any, request: HttpRequest, conversation: Conversation, positions: Collection[int]
    ) -> Mapping[int, str]:
        from chatmemory.branches.admin import notes

        return notes(model_admin, request, conversation, positions)
