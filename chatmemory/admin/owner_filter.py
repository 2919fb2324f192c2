"""The owners of conversations in the lists: a link to all that is theirs, and the filter that the link sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import prepare_lookup_value
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.lists import conversation_admin
from chatmemory.models import Conversation

__all__ = ["MessageOwnerFilter", "OwnerFilter"]


class OwnerFilter(admin.ListFilter):
    """A filter by owner. It offers nobody, for there may be many; who was chosen in the list is shown."""

    title = _("owner")
    path: ClassVar[str] = "owner"
    """The lookup from a row of the list to the owner."""

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        for name in self.parameters():
            if name in params:
                self.used_parameters[name] = params.pop(name)[-1]
        conversations = conversation_admin(model_admin.admin_site)
        self._is_shown = conversations is not None and conversations.has_view_permission(request)
        self._chosen: Any = self.used_parameters.get(self.chosen())
        self._name = ""
        if self._chosen is not None and conversations is not None:
            try:
                self._chosen = get_user_model()._meta.pk.clean(self._chosen, None)
            except ValidationError as error:
                raise IncorrectLookupParameters(error) from error
            # Only an owner of conversations that this site shows is named.
            theirs = conversations.get_queryset(request).filter(**{"owner": self._chosen}).first()
            self._name = str(self._chosen if theirs is None else theirs.owner)

    @classmethod
    def chosen(cls) -> str:
        """Return the name of the parameter that has an owner's primary key."""
        return f"{cls.path}__pk__exact"

    @classmethod
    def nobody(cls) -> str:
        """Return the name of the parameter that asks for what has no owner."""
        return f"{cls.path}__isnull"

    @classmethod
    def parameters(cls) -> list[str]:
        """Return the names of its parameters."""
        return [cls.chosen(), cls.nobody()]

    @classmethod
    def link(cls, conversation: Conversation, popup: Mapping[str, str] = MappingProxyType({})) -> str:
        """Return whose a conversation is, as a link that filters by them.

        Args:
            conversation: the conversation.
            popup: the parameters of a list to choose from.
        """
        owner: Any = conversation.owner
        query: dict[str, Any] = {cls.nobody(): True} if owner is None else {cls.chosen(): owner.pk}
        name = gettext("no owner") if owner is None else str(owner)
        return format_html('<a href="?{}"><bdi>{}</bdi></a>', urlencode({**popup, **query}), name)

    def expected_parameters(self) -> list[str | None]:
        return [*self.parameters()]

    def has_output(self) -> bool:
        return self._is_shown

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self._chosen is not None:
            queryset = queryset.filter(**{self.path: self._chosen})
        if (nobody := self._of_nobody()) is not None:
            queryset = queryset.filter(**{self.nobody(): nobody})
        return queryset

    def choices(self, changelist: ChangeList) -> Iterator[dict[str, Any]]:
        def address(query: dict[str, Any]) -> str:
            return changelist.get_query_string(query, remove=self.parameters())

        yield {"selected": not self.used_parameters, "query_string": address({}), "display": _("All")}
        if self._chosen is not None:
            chosen = {self.chosen(): self._chosen}
            yield {"selected": True, "query_string": address(chosen), "display": self._name}
        yield {
            "selected": self._of_nobody() is True,
            "query_string": address({self.nobody(): True}),
            "display": _("no owner"),
        }

    def _of_nobody(self) -> bool | None:
        asked = self.used_parameters.get(self.nobody())
        return None if asked is None else bool(prepare_lookup_value(self.nobody(), asked))


class MessageOwnerFilter(OwnerFilter):
    """A filter of messages by the owner of their conversation."""

    path = "conversation__owner"
