"""The admin's page that deletes a user: it counts what goes, however much that is."""

from __future__ import annotations

from collections import Counter

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.db.models.signals import post_init
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from chatmemory import UserMessage
from chatmemory.models import Conversation, IdempotencyKey, Message
from tests.admin.test_staff import signed_in
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.planted import member

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sdks")]  # for the tables of langgraph

User = get_user_model()
FEW, MANY = 10, 2000


@pytest.fixture
def may_delete():
    """A client of a member of staff who may delete users and what they said."""

    def sign_in(*codenames):
        staff = UserFactory(is_staff=True)
        staff.user_permissions.add(*Permission.objects.filter(codename__in=codenames))
        client = Client()
        client.force_login(staff)
        return client

    return sign_in


def langgraph_models():
    from chatmemory.contrib.langgraph.models import ChannelValue, Namespace

    return Namespace, ChannelValue


def talker(messages):
    Namespace, ChannelValue = langgraph_models()
    user = UserFactory()
    conversation = ConversationFactory(owner=user)
    conversation.memory.add(*[UserMessage(f"Message {number}") for number in range(messages)])
    IdempotencyKey.objects.bulk_create(
        IdempotencyKey(conversation=conversation, scope=f"c{conversation.pk}", key=str(number))
        for number in range(messages)
    )
    namespace = Namespace.objects.create(conversation=conversation)
    ChannelValue.objects.bulk_create(
        ChannelValue(**namespace.place, channel="messages", version=str(number), type="null", value=b"")
        for number in range(messages)
    )
    return user


def address(user):
    return reverse("admin:auth_user_delete", args=[user.pk])


def everything():
    return [model.objects.count() for model in (Conversation, Message, IdempotencyKey, *langgraph_models())]


class Instances(Counter):
    """Counts the objects that are made of rows."""

    def __enter__(self):
        post_init.connect(self._made)
        return self

    def __exit__(self, *exception):
        post_init.disconnect(self._made)

    def _made(self, sender, **kwargs):
        self[sender._meta.label] += 1


def asked(client, user):
    """The page that asks, and what it took."""
    with (
        CaptureQueriesContext(
            connection,
        ) as statements,
        Instances() as instances,
    ):
        page = client.get(address(user))
    assert page.status_code == 200
    return page.content.decode(), len(statements), instances


@pytest.mark.slow
def test_the_page_takes_no_longer_for_many_messages(may_delete):
    client = may_delete("delete_user", "delete_conversation")
    few, statements_of_few, instances_of_few = asked(client, talker(FEW))
    many, statements_of_many, instances_of_many = asked(client, talker(MANY))
    assert statements_of_many == statements_of_few
    assert instances_of_many == instances_of_few
    assert len(many) - len(few) < 100
    assert "Messages: 10<" in few
    assert "Messages: 2,000<" in many.replace("\xa0", ",")
    assert "Idempotency keys: 2,000<" in many


def test_what_the_page_counts_goes_with_the_user(may_delete):
    client = may_delete("delete_user", "delete_conversation")
    user, other = talker(FEW), talker(3)
    with Instances() as instances:
        answer = client.post(address(user), {"post": "yes"})
    assert answer.status_code == 302
    assert "chatmemory.Message" not in instances
    assert not User.objects.filter(pk=user.pk).exists()
    assert everything() == [1, 3, 3, 1, 3]
    assert Conversation.objects.get().owner == other


def test_several_users_are_counted_together(may_delete):
    client = may_delete("delete_user", "delete_conversation", "view_user")
    users = [talker(FEW), talker(3)]
    chosen = {"action": "delete_selected", "_selected_action": [user.pk for user in users]}
    page = client.post(reverse("admin:auth_user_changelist"), chosen).content.decode()
    assert "<li>Messages: 13</li>" in page  # the summary
    assert "Messages: 10<" in page
    assert "Messages: 3<" in page
    client.post(reverse("admin:auth_user_changelist"), {**chosen, "post": "yes"})
    assert everything() == [0, 0, 0, 0, 0]


def test_who_may_not_delete_conversations_may_not_delete_their_owner(may_delete):
    client = may_delete("delete_user")
    user = talker(3)
    assert "<li>conversation</li>" in client.get(address(user)).content.decode()
    assert client.post(address(user), {"post": "yes"}).status_code == 403
    assert everything() == [1, 3, 3, 1, 3]


class TestOutOfReach:
    """A user has conversations that the member of staff who deletes the user does not reach."""

    @pytest.fixture(autouse=True)
    def rule(self, settings):
        settings.CHATMEMORY = {"STAFF_CONVERSATIONS": "tests.support.tenants.acme"}

    @pytest.fixture
    def client(self, may_delete):
        return may_delete("delete_user", "delete_conversation", "view_user")

    def test_no_page_names_them_and_none_erases_them(self, client):
        theirs = ConversationFactory(title="plantedTitle")
        theirs.memory.add(UserMessage("x"))
        chosen = {"action": "delete_selected", "_selected_action": [theirs.owner_id]}
        users = reverse("admin:auth_user_changelist")
        for asked in (client.get(address(theirs.owner)), client.post(users, chosen)):
            shown = asked.content.decode()
            assert "<li>conversation</li>" in shown
            assert "plantedTitle" not in shown
        assert client.post(address(theirs.owner), {"post": "yes"}).status_code == 403
        assert client.post(users, {**chosen, "post": "yes"}).status_code == 403
        assert (User.objects.filter(pk=theirs.owner_id).count(), Message.objects.count()) == (1, 1)

    def test_users_whose_conversations_are_in_reach_are_deleted(self, client):
        ours = ConversationFactory(owner=UserFactory(username="acme-1"))
        assert client.post(address(ours.owner), {"post": "yes"}).status_code == 302
        assert not Conversation.objects.exists()

    def test_the_log_of_a_deleted_user_names_no_conversation(self, client):
        """Who deletes a staff user is shown the user's entries in the admin's log."""
        theirs = ConversationFactory(title="plantedTitle", owner=UserFactory(username="acme-1"))
        theirs.memory.add(UserMessage("x"))
        reader = signed_in(member())
        conversation = reverse("admin:chatmemory_conversation_change", args=[theirs.pk])
        assert "plantedTitle" in reader.get(conversation).content.decode()
        reader.post(f"{conversation[: -len('change/')]}clear/", {})
        reader.get(f"/api/conversations/{theirs.pk}/messages/?owner={theirs.owner_id}")
        reader.post(f"{conversation[: -len('change/')]}delete/", {"post": "yes"})
        entries = LogEntry.objects.exclude(user=None)
        assert [entry.object_id for entry in entries] == [str(theirs.pk)] * 4
        shown = client.get(address(entries[0].user)).content.decode()
        assert str(theirs.pk) in shown
        assert "plantedTitle" not in shown

    def test_one_statement_asks_about_all_conversations_of_a_user(self, client):
        users = [UserFactory(username=f"acme-{number}") for number in range(2)]
        for user, count in zip(users, (1, 20), strict=True):
            ConversationFactory.create_batch(count, owner=user)
        with CaptureQueriesContext(connection) as few:
            client.get(address(users[0]))
        with CaptureQueriesContext(connection) as many:
            client.get(address(users[1]))
        assert len(many) == len(few)


def test_users_are_deleted_from_python_without_reading_what_they_said():
    talker(FEW), talker(3)
    with Instances() as instances, CaptureQueriesContext(connection) as statements:
        User.objects.all().delete()
    assert "chatmemory.Message" not in instances
    assert len(statements) < 34
    assert everything() == [0, 0, 0, 0, 0]
