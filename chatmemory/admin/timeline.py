"""The messages of a conversation, page by page."""

from __future__ import annotations

from dataclasses import dataclass

from django.core.paginator import Paginator
from django.http import QueryDict

from chatmemory.admin.shown_messages import ShownMessage, shown
from chatmemory.managers import MessageQuerySet
from chatmemory.models import Conversation

__all__ = ["EVICTED_PER_PAGE", "RETAINED_PER_PAGE", "MessagePage", "PageLink", "evicted_messages", "retained_messages"]

RETAINED_PER_PAGE = 200
EVICTED_PER_PAGE = 100


@dataclass(frozen=True, kw_only=True)
class PageLink:
    """A step in the paging of a list."""

    label: str

    address: str
    """Empty for the page that is shown, and for an ellipsis."""

    is_current: bool


@dataclass(frozen=True, kw_only=True)
class MessagePage:
    """One page of a list of messages."""

    messages: list[ShownMessage]

    first: int
    """Which of all messages is the first on this page, from 1."""

    last: int

    total: int
    """How many messages all pages have."""

    links: list[PageLink]
    """Empty when one page has all."""

    @classmethod
    def read(cls, rows: MessageQuerySet, query: QueryDict, *, parameter: str, per_page: int) -> MessagePage:
        """The page that ``query`` asks for in ``parameter``; the nearest there is, if there is no such page."""
        paginator = Paginator(rows, per_page)
        page = paginator.get_page(query.get(parameter))
        links = []
        if paginator.num_pages > 1:
            for number in paginator.get_elided_page_range(page.number):
                is_current = number == page.number
                is_link = isinstance(number, int) and not is_current
                address = _address(query, parameter, number) if is_link else ""
                links.append(PageLink(label=str(number), address=address, is_current=is_current))
        return cls(
            messages=[shown(row) for row in page],
            first=page.start_index(),
            last=page.end_index(),
            total=paginator.count,
            links=links,
        )


def _address(query: QueryDict, parameter: str, number: int | str) -> str:
    """The same page of the admin, with the other list where it is."""
    changed = query.copy()
    changed[parameter] = str(number)
    return f"?{changed.urlencode()}"


def retained_messages(conversation: Conversation, query: QueryDict) -> MessagePage:
    """What the model gets now, in the order in which it gets it."""
    return MessagePage.read(conversation.messages.retained(), query, parameter="retained", per_page=RETAINED_PER_PAGE)


def evicted_messages(conversation: Conversation, query: QueryDict) -> MessagePage:
    """What left the memory, the latest first: further down is further back."""
    return MessagePage.read(
        conversation.messages.evicted().order_by("-position"), query, parameter="page", per_page=EVICTED_PER_PAGE
    )
