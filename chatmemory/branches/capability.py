"""What the other parts of chatmemory know of branches: exports, imports and checks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chatmemory.capabilities import AdminPage, Capability

if TYPE_CHECKING:
    from django.http import HttpRequest

    from chatmemory.models import Conversation


class Branches(Capability):
    """Branches are always there. See docs/branches.md."""

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
