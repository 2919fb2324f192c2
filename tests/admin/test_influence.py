"""What staff may not see has no influence on what the admin shows them: each page, form and file that they reach.

One hidden text is changed, and each byte and header must be equal. The pages are those that links lead to, so that a
new page is among them.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

import pytest

from chatmemory import AiMessage, UserMessage
from chatmemory.contrib.feedback.models import Feedback
from chatmemory.models import Conversation
from tests.rest.test_staff import signed_in
from tests.support.crawling import crawl
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.influence import Answer, Site, build, equal_answers, other_words, say_otherwise, steady
from tests.support.planted import PERMISSIONS, SUMMARIZE, member

pytestmark = pytest.mark.django_db

_PERMISSIONS = {*PERMISSIONS, SUMMARIZE, "view_message"}


def answers(client: Any, site: Site) -> list[Answer]:
    """Return what each page says, in the order of a walk."""
    replayed = f"/admin/chatmemory/conversation/{site.mine.pk}/window/?1-window=messages&1-limit=3&show=1"
    found = crawl(client, "/admin/chatmemory/", replayed)
    return [Answer(steady(each.asked), each.status, {}, steady(each.said)) for each in found]


@pytest.mark.slow
def test_staff_without_the_permission_get_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    site = build()
    Conversation.objects.exclude(pk=site.mine.pk).delete()

    def change() -> None:
        say_otherwise(site.mine, other_words)
        Conversation.objects.filter(pk=site.mine.pk).update(metadata={"kettle": 4711})
        Feedback.objects.update(comment="kettle")

    client = signed_in(member(_PERMISSIONS - {"read_message_text"}))
    before = equal_answers(partial(answers, client, site), change, monkeypatch=monkeypatch)
    assert len(before) > 50
    assert any("Window 1" in answer.body for answer in before)


@pytest.mark.slow
def test_limited_staff_get_nothing_of_others(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.CHATMEMORY = {**settings.CHATMEMORY, "STAFF_CONVERSATIONS": "tests.support.tenants.berts"}
    site = build()
    own = ConversationFactory(owner=UserFactory(username="bert"), memory_id="own", pk=UUID(int=4))
    own.memory.add(UserMessage("Is there green tea, or a kettle?"), AiMessage("Tea."))

    def change() -> None:
        for made in (site.mine, site.theirs):
            say_otherwise(made, other_words)
            made.refresh_from_db()
            made.memory.add(UserMessage("A kettle."))
            made.record_usage({"model": "kettle", "input_tokens": 4711})
            Conversation.objects.filter(pk=made.pk).update(title="kettle 4711", metadata={"kettle": 4711})
            Feedback.objects.filter(conversation=made).update(comment="kettle", value="up")
        site.erased.delete()

    before = equal_answers(partial(answers, signed_in(member(_PERMISSIONS)), site), change, monkeypatch=monkeypatch)
    assert len(before) > 50
