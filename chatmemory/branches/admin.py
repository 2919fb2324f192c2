"""Branches in the admin: a list on the page of a conversation, and a page that switches to one of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.contrib import messages
from django.db.models.functions import Left
from django.http import Http404, HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatmemory.admin.display.memory_map import count_messages, day_and_time, grouped
from chatmemory.admin.display.message import role_of
from chatmemory.admin.display.passages import without_text
from chatmemory.admin.display.strip import MOST_READ, first_words
from chatmemory.admin.display.timeline import changes_back
from chatmemory.admin.views.staff_pages import (
    act,
    back_to_timeline,
    conversation_or_404,
    conversation_page,
    record_read,
)
from chatmemory.assistant.errors import ConversationBusyError
from chatmemory.branches.going_back import HistoryNotKeptError
from chatmemory.branches.tree import ConversationTree, last_of, tree_of
from chatmemory.conf import setting
from chatmemory.core.arguments import whole_number
from chatmemory.core.messages import ChatMessageType
from chatmemory.database.change import Change
from chatmemory.database.reading import rows_of
from chatmemory.models import MAX_LIMIT, Branch, Conversation, Message
from chatmemory.models.branch import BranchTree

_MOST_LISTED = 20


@dataclass(frozen=True, kw_only=True)
class OtherBranch:
    """A branch that the conversation left, as far as the current one does not have its messages."""

    positions: list[int]
    """The positions of its messages, ascending; at least one."""

    last: Message
    """Its last message, without its text."""

    words: str
    """The first words of the last message; empty if this reader may not read them."""

    left: Branch | None
    """The change in which it was left last; None if that is not known."""

    @property
    def count(self) -> str:
        """The number of its messages in words."""
        return count_messages(len(self.positions))

    @property
    def role_class(self) -> str:
        """The role of the last message, as the style sheets name it."""
        return f"chatmemory-role-{role_of(self.last)}"

    @property
    def when(self) -> str:
        """The minute in which it was left."""
        return "" if self.left is None else day_and_time(self.left.created_at)


@dataclass(frozen=True, kw_only=True)
class Branches:
    """The branches of a conversation."""

    head: int | None
    """The position of the last message of the current branch; None if nothing was said on it."""

    count: str
    """The number of messages of the current branch in words."""

    others: list[OtherBranch]
    """The branches that were left last, the latest first."""

    total: int
    """The number of all branches, with the current one."""

    @property
    def left_out(self) -> int:
        """The number of branches that are not among ``others``."""
        return self.total - 1 - len(self.others)

    @classmethod
    def read(cls, conversation: Conversation, *, with_text: bool) -> Branches | None:
        """Read the branches; None if there is only one. The number of statements is fixed."""
        branches = BranchTree.read(conversation)
        if not branches.went_back:
            return None
        rows = rows_of(conversation)
        said = list(rows.history().exclude(type=ChatMessageType.SYSTEM.value).values_list("position", flat=True))
        tree = tree_of(branches, said)
        versions = {last_of(branches, said, branch.left): branch.version for branch in branches.branches[1:]}
        ends = {*tree.parents} - {*tree.parents.values(), tree.head}
        latest = sorted(ends, key=lambda end: (versions.get(end, 0), end), reverse=True)[:_MOST_LISTED]
        lasts = without_text(rows.filter(position__in=latest))
        if with_text:
            lasts = lasts.annotate(beginning=Left("text", MOST_READ))
        found = {row.position: row for row in lasts}
        changes = changes_back(conversation, {versions[end] for end in latest if end in versions})
        current = tree.path()
        others = [
            OtherBranch(
                positions=_apart(tree, end, {*current}),
                last=found[end],
                words=first_words(found[end]) if with_text else "",
                left=changes.get(versions.get(end, 0)),
            )
            for end in latest
            if end in found  # else it was erased meanwhile
        ]
        return cls(head=tree.head, count=count_messages(len(current)), others=others, total=len(ends) + 1)


def _apart(tree: ConversationTree, end: int, current: Collection[int]) -> list[int]:
    """Return the positions from the first message that is not on the current branch to the one at ``end``."""
    found = []
    position: int | None = end
    while position is not None and position not in current:
        found.append(position)
        position = tree.parents[position]
    return found[::-1]


def section(model_admin: Any, request: HttpRequest, conversation: Conversation, version: int) -> str:
    """Return the HTML of the list of branches; empty if the conversation never went back, and for past versions."""
    if version != conversation.version:
        return ""
    found = Branches.read(conversation, with_text=model_admin.has_read_text_permission(request, conversation))
    if found is None:
        return ""
    context = {
        "branches": found,
        "address": _address(model_admin, conversation, "change"),
        "switch": _switch_address(model_admin, request, conversation),
    }
    return render_to_string("admin/chatmemory/conversation/branches.html", context)


def notes(
    model_admin: Any, request: HttpRequest, conversation: Conversation, positions: Collection[int]
) -> Mapping[int, str]:
    """Return links to switch to the branches of messages that are not on the current one."""
    address = _switch_address(model_admin, request, conversation)
    branches = BranchTree.read(conversation) if address else None
    if branches is None or not branches.went_back:
        return {}
    elsewhere = [position for position in positions if not branches.leads_to(position, branches.end)]
    said = rows_of(conversation).history().filter(position__in=elsewhere).values_list("position", flat=True)
    note = _("Switch to the branch of this message")
    return {
        position: format_html('<p><a href="{}?position={}">{}</a></p>', address, position, note) for position in said
    }


def _address(model_admin: Any, conversation: Conversation, page: str) -> str:
    site = model_admin.admin_site.name
    return reverse(f"admin:chatmemory_conversation_{page}", args=[conversation.pk], current_app=site)


def _switch_address(model_admin: Any, request: HttpRequest, conversation: Conversation) -> str:
    """Return the address of the page that switches; empty for those who may not, and where nothing can return."""
    may = model_admin.has_act_permission(request, conversation) and setting("KEEP_HISTORY")
    return _address(model_admin, conversation, "switch") if may else ""


def switch(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Show to which branch the conversation would switch, the one of ``position``, and switch once confirmed."""
    conversation = conversation_or_404(model_admin, request, object_id, also="act")
    data = request.POST if request.method == "POST" else request.GET
    position = whole_number(data.get("position", ""), most=MAX_LIMIT)
    if position is None:
        raise Http404
    with_text = model_admin.has_read_text_permission(request, conversation)
    rows = without_text(rows_of(conversation).history().filter(position=position))
    row = (rows.annotate(beginning=Left("text", MOST_READ)) if with_text else rows).first()
    if row is None:
        raise Http404
    if request.method == "POST":
        return _switch(model_admin, request, conversation, position)
    branches = BranchTree.read(conversation)
    if with_text:
        record_read(request, conversation)
    return conversation_page(
        model_admin,
        request,
        conversation,
        "switch",
        _("Switch to another branch"),
        position=position,
        words=first_words(row) if with_text else "",
        is_current=branches.leads_to(position, branches.end),
        keeps_history=setting("KEEP_HISTORY"),
    )


def _switch(model_admin: Any, request: HttpRequest, conversation: Conversation, position: int) -> HttpResponse:
    """Switch, and return to the conversation with what came of it."""
    change = partial(conversation.switch, position, user=request.user)
    otherwise = _("Message %(position)s is on the current branch already.") % {"position": position}
    try:
        return act(model_admin, request, conversation, change, partial(_say, position=position), otherwise=otherwise)
    except ConversationBusyError:
        problem = _("Nothing was changed: a turn is in progress. Try again when it has ended.")
    except HistoryNotKeptError:
        problem = _("Nothing was changed: the conversation cannot go back, because evicted messages are deleted.")
    return back_to_timeline(model_admin, request, conversation, problem, level=messages.ERROR)


def _say(change: Change, *, position: int) -> str:
    """Return sentences about the change; empty if nothing changed."""
    if change.moment is None:
        return ""
    said = [_("Switched to the branch of message %(position)s.") % {"position": position}]
    left, came = len(change.gone), len(change.added)
    if left:
        words = ngettext("%(count)s message left the memory.", "%(count)s messages left the memory.", left)
        said.append(words % {"count": grouped(left)})
    if came:
        words = ngettext("%(count)s message was restored.", "%(count)s messages were restored.", came)
        said.append(words % {"count": grouped(came)})
    return " ".join(said)
