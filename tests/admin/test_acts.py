"""What staff do in the admin: asked about, done and logged as one, and only to what they may do it to."""

from __future__ import annotations

import json
import re
import threading
from html import unescape

import pytest
from django.contrib import admin
from django.contrib.admin.models import DELETION, LogEntry
from django.db import connection, connections
from django.db.models import ProtectedError
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import path, reverse
from django.utils import timezone, translation

from chatmemory import AiMessage, CustomMessage, UserMessage
from chatmemory.admin import ConversationAdmin
from chatmemory.database import operations, reading
from chatmemory.database.change import Target
from chatmemory.models import ORDER_STEP, Conversation, Message
from tests.admin.test_conversation import LIST, conversation, html, page, staff, words  # noqa: F401
from tests.support.factories import ConversationFactory, UserFactory

pytestmark = pytest.mark.django_db


class OwnMartas(ConversationAdmin):
    """Staff may see and erase only what is Marta's."""

    def has_view_permission(self, request, obj=None):
        return super().has_view_permission(request, obj) and (obj is None or obj.owner.username == "marta")

    def has_delete_permission(self, request, obj=None):
        return super().has_delete_permission(request, obj) and (obj is None or obj.owner.username == "marta")


class LooksOnly(ConversationAdmin):
    """Nobody acts, and nobody reads."""

    def has_act_permission(self, request, obj=None):
        return False

    def has_read_text_permission(self, request, obj=None):
        return False


def site(name, model_admin):
    made = admin.AdminSite(name=name)
    made.register(Conversation, model_admin)
    return path(f"{name}/", made.urls)


urlpatterns = [path("admin/", admin.site.urls), site("martas", OwnMartas), site("looks", LooksOnly)]


@pytest.fixture
def other():
    """Eve's, of whose three messages a window of two retains the last."""
    made = ConversationFactory(owner=UserFactory(username="eve"), title="Other", window="messages", limit=2)
    made.memory.add(*(UserMessage(f"secret {number}") for number in range(3)))
    return made


def selected(action, *conversations, **more):
    return {"action": action, "_selected_action": [str(found.pk) for found in conversations], **more}


def confirmed(client, asked):
    """Submit the form of a confirmation: the page at an address, or the answer to an action."""
    shown = html(client, asked) if isinstance(asked, str) else asked.content.decode()
    form = re.search(r'<form method="post"([^>]*)class="chatmemory-confirm">.*?</form>', shown, re.DOTALL)
    fields: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form[0]):
        fields.setdefault(name, []).append(unescape(value))
    action = re.search(r'action="([^"]*)"', form[1])
    return client.post(unescape(action[1]) if action else asked, fields, follow=True)


@pytest.fixture
def vanishing(monkeypatch):
    """Have a conversation erased by others after it was looked at, right before it is changed."""

    def prepare(name, vanishes):
        change = getattr(operations, name)

        def late(target, **wanted):
            Conversation.objects.filter(pk=vanishes.pk, pk__in=[target.instance.pk]).delete()
            return change(target, **wanted)

        monkeypatch.setattr(operations, name, late)

    return prepare


def logged():
    """What was done; pages and lists that were only read are a matter of test_staff.py."""
    done = LogEntry.objects.exclude(change_message="Read what its messages say.")
    done = done.exclude(change_message__startswith="Listed or searched")
    return list(done.order_by("pk").values_list("change_message", flat=True))


class TestClearing:
    def test_what_is_empty_cannot_be_confirmed(self, admin_client):
        shown = html(admin_client, page(ConversationFactory(), "clear"))
        assert "There is nothing to clear: the memory is empty." in words(shown)
        assert "Yes, clear it" not in words(shown)

    def test_of_nothing_is_not_logged(self, admin_client):
        empty = ConversationFactory()
        done = admin_client.post(page(empty, "clear"), follow=True)
        assert "The memory was already empty." in words(done.content.decode())
        assert logged() == []

    def test_the_number_logged_is_of_those_that_left(self, admin_client, conversation, monkeypatch):  # noqa: F811
        clear = operations.clear

        def late(target):
            monkeypatch.undo()
            Conversation.objects.get(pk=conversation.pk).memory.set_window(limit=1)
            return clear(target)

        monkeypatch.setattr(operations, "clear", late)
        admin_client.post(page(conversation, "clear"))
        assert logged() == ["The memory was cleared; 1 message was evicted."]

    def test_does_not_happen_if_it_cannot_be_logged(self, admin_client, conversation, monkeypatch):  # noqa: F811
        monkeypatch.setattr(ConversationAdmin, "log_change", fail)
        with pytest.raises(RuntimeError):
            admin_client.post(page(conversation, "clear"))
        assert conversation.messages.retained().count() == 4

    def test_is_logged_in_the_language_of_the_site(self, admin_client, conversation):  # noqa: F811
        with translation.override("ja"):
            admin_client.post(page(conversation, "clear"))
            admin_client.get(page(conversation, "export_jsonl")).getvalue()
            admin_client.post(LIST, selected("export_selected", conversation)).getvalue()
        assert logged() == ["The memory was cleared; 4 messages were evicted.", *["Exported as JSON lines."] * 2]

    @pytest.mark.parametrize(("action", "change"), [("clear", "clear"), ("window", "set_window")])
    def test_what_was_erased_meanwhile_is_not_found(self, admin_client, conversation, vanishing, action, change):  # noqa: F811
        vanishing(change, conversation)
        asked = {"1-window": "messages", "1-limit": 1, "seen": "x"}
        assert admin_client.post(page(conversation, action), asked).status_code == 404
        assert logged() == []


def fail(*args, **kwargs):
    raise RuntimeError


class TestClearingSeveral:
    @pytest.mark.slow
    def test_says_how_many(self, admin_client, conversation, other):  # noqa: F811
        ConversationFactory(title="Empty")
        asked = admin_client.post(LIST, selected("clear_memories", *Conversation.objects.all()))
        shown = words(asked.content.decode())
        assert "The memories of 2 conversations will be cleared. 6 messages will be evicted." in shown
        assert "Empty" not in shown
        done = confirmed(admin_client, asked)
        assert "The memories of 2 conversations were cleared. 6 messages were evicted." in words(done.content.decode())
        assert not Message.objects.retained().exists()
        assert sorted(logged()) == [f"The memory was cleared; {count} messages were evicted." for count in (2, 4)]

    def test_one_is_spoken_of_as_one(self, admin_client):
        made = ConversationFactory()
        made.memory.add(UserMessage("x"))
        asked = admin_client.post(LIST, selected("clear_memories", made))
        shown = words(asked.content.decode())
        assert "The memory of 1 conversation will be cleared. 1 message will be evicted." in shown

    @pytest.mark.slow
    def test_empty_memories_cost_nothing_and_are_not_logged(self, admin_client):
        made = Conversation.objects.bulk_create([Conversation(memory_id=f"c{number}") for number in range(50)])
        with CaptureQueriesContext(connection) as captured:
            admin_client.post(LIST, selected("clear_memories", *made, confirmed="yes"))
        assert len(captured) < 20
        assert logged() == []
        asked = admin_client.post(LIST, selected("clear_memories", *made), follow=True)
        assert "There is nothing to clear" in words(asked.content.decode())

    @pytest.mark.slow
    def test_all_that_a_search_finds(self, admin_client, conversation):  # noqa: F811
        made = [ConversationFactory(title=f"Found {number}") for number in range(101)]  # more than a page
        for found in made:
            found.memory.add(UserMessage("x"))
        address = f"{LIST}?q=Found"
        asked = admin_client.post(address, selected("clear_memories", made[0], select_across="1"))
        shown = asked.content.decode()
        assert shown.count('name="_selected_action"') == 1
        assert shown.count("<li><bdi>") == 20
        assert "… and 81 more" in words(shown)
        assert "101 messages will be evicted" in words(shown)
        confirmed(admin_client, asked)
        assert Message.objects.retained().count() == 4
        assert conversation.messages.retained().count() == 4

    def test_one_that_was_erased_meanwhile_stops_nothing(self, admin_client, vanishing):
        made = [ConversationFactory() for _ in range(3)]
        for found in made:
            found.memory.add(UserMessage("x"))
        vanishing("clear", made[1])
        done = admin_client.post(LIST, selected("clear_memories", *made, confirmed="yes"), follow=True)
        shown = words(done.content.decode())
        assert "The memories of 2 conversations were cleared. 2 messages were evicted." in shown
        assert "1 conversation was erased in the meantime." in shown
        assert len(logged()) == 2

    def test_more_than_a_statement_names(self, admin_client, monkeypatch):
        monkeypatch.setattr("chatmemory.database.reading.ROWS_AT_ONCE", 2)
        made = [ConversationFactory() for _ in range(5)]
        for found in made:
            found.memory.add(UserMessage("x"))
        admin_client.post(LIST, selected("clear_memories", *made, confirmed="yes"))
        assert not Message.objects.retained().exists()


@pytest.mark.urls("tests.admin.test_acts")
class TestObjectPermissions:
    LIST = "/martas/chatmemory/conversation/"

    @pytest.fixture
    def client(self, staff):  # noqa: F811
        return staff("view_conversation", "change_conversation", "delete_conversation", "read_message_text")

    @pytest.mark.parametrize("action", ["clear_memories", "delete_selected", "export_selected"])
    def test_what_is_refused_alone_is_refused_among_others(self, client, other, action):
        for more in ({}, {"confirmed": "yes"}):
            answer = client.post(self.LIST, selected(action, other, **more), follow=True)
            assert "1 conversation was left out" in words(answer.content.decode())
            assert "secret" not in answer.content.decode()
        assert other.messages.retained().count() == 2
        assert logged() == []

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("action", "asked"),
        [("clear_memories", "4 messages will be evicted"), ("delete_selected", "6 messages will be lost")],
    )
    def test_the_others_are_acted_on(self, client, conversation, other, action, asked):  # noqa: F811
        question = client.post(self.LIST, selected(action, conversation, other))
        shown = words(question.content.decode())
        assert asked in shown
        assert "Other" not in shown
        assert "1 conversation is left out" in shown
        done = confirmed(client, question)
        assert "1 conversation was left out" in words(done.content.decode())
        assert not conversation.messages.retained().exists()
        assert other.messages.retained().count() == 2
        assert len(logged()) == 1

    def test_the_others_are_exported(self, client, conversation, other):  # noqa: F811
        text = client.post(self.LIST, selected("export_selected", conversation, other)).getvalue().decode()
        assert {json.loads(line)["conversation"] for line in text.splitlines()} == {str(conversation.pk)}
        assert "1 conversation was left out" in words(html(client, self.LIST))

    def test_single_pages(self, client, other):
        for name in ("clear", "window", "delete", "export/jsonl"):
            assert client.get(f"{self.LIST}{other.pk}/{name}/").status_code == 403

    @pytest.mark.parametrize("name", ["clear", "window", "export/jsonl", "export/openai", "export/langchain4j"])
    def test_methods_of_a_subclass_are_asked(self, admin_client, conversation, name):  # noqa: F811
        address = f"/looks/chatmemory/conversation/{conversation.pk}/{name}/"
        assert admin_client.get(address).status_code == (200 if name == "window" else 403)
        assert admin_client.post(address, {"1-window": "messages", "1-limit": 1}).status_code == 403

    def test_links_stay_in_the_site(self, client, conversation):  # noqa: F811
        for action in ("clear_memories", "delete_selected"):
            shown = client.post(self.LIST, selected(action, conversation)).content.decode()
            assert 'href="/admin/' not in shown
        done = client.post(f"{self.LIST}{conversation.pk}/clear/")
        assert done["Location"].startswith("/martas/")


class TestErasing:
    @pytest.mark.parametrize("count", [2, 300])
    def test_asking_reads_no_message(self, admin_client, count):
        made = ConversationFactory()
        made.memory.add(*(UserMessage(f"secret {number}") for number in range(count)))
        with CaptureQueriesContext(connection) as captured:
            shown = html(admin_client, page(made, "delete"))
        assert f"{count} messages will be lost" in words(shown)
        assert "secret" not in shown
        of_messages = [query["sql"] for query in captured if "chatmemory_message" in query["sql"]]
        assert len(of_messages) == 1
        assert "COUNT(" in of_messages[0]

    def test_is_not_called_something_else(self, admin_client, conversation):  # noqa: F811
        shown = words(html(admin_client, page(conversation, "delete")))
        assert "This conversation will be erased, with its history, for good. 6 messages will be lost." in shown
        assert "elete" not in shown
        done = admin_client.post(page(conversation, "delete"), {"post": "yes"}, follow=True)
        assert "1 conversation was erased." in words(done.content.decode())

    def test_is_logged(self, admin_client, conversation, other):  # noqa: F811
        admin_client.post(page(conversation, "delete"), {"post": "yes"})
        done = admin_client.post(LIST, selected("delete_selected", other, confirmed="yes"), follow=True)
        assert "1 conversation was erased." in words(done.content.decode())
        assert not Conversation.objects.exists()
        erased = LogEntry.objects.filter(action_flag=DELETION).order_by("pk")
        assert list(erased.values_list("object_repr", flat=True)) == ["About tea", "Other"]

    def test_does_not_happen_if_it_cannot_be_logged(self, admin_client, conversation, monkeypatch):  # noqa: F811
        monkeypatch.setattr(ConversationAdmin, "log_deletions", fail)
        for address, data in (
            (page(conversation, "delete"), {"post": "yes"}),
            (LIST, selected("delete_selected", conversation, confirmed="yes")),
        ):
            with pytest.raises(RuntimeError):
                admin_client.post(address, data)
        assert conversation.messages.count() == 6

    @pytest.mark.slow
    def test_all_that_a_search_finds(self, admin_client, conversation):  # noqa: F811
        made = [ConversationFactory(title=f"Found {number}") for number in range(25)]
        made[3].memory.add(UserMessage("x"))
        asked = admin_client.post(f"{LIST}?q=Found", selected("delete_selected", made[0], select_across="1"))
        shown = words(asked.content.decode())
        assert "25 conversations will be erased, with their history, for good. 1 message will be lost." in shown
        assert "… and 5 more" in shown
        done = confirmed(admin_client, asked)
        assert "25 conversations were erased." in words(done.content.decode())
        assert list(Conversation.objects.all()) == [conversation]

    def test_what_was_erased_meanwhile(self, admin_client, conversation, other, vanishing):  # noqa: F811
        vanishing("erase", conversation)
        assert admin_client.post(page(conversation, "delete"), {"post": "yes"}).status_code == 404
        both = selected("delete_selected", conversation, other, confirmed="yes")
        done = admin_client.post(LIST, both, follow=True)
        assert "1 conversation was erased." in words(done.content.decode())
        assert "1 conversation was erased in the meantime." in words(done.content.decode())
        erased = LogEntry.objects.filter(action_flag=DELETION)
        assert list(erased.values_list("object_repr", flat=True)) == ["Other"]

    @pytest.mark.slow
    def test_what_others_protect_stays(self, admin_client, conversation, monkeypatch):  # noqa: F811
        def protected(target):
            raise ProtectedError("an invoice refers to it", {conversation})

        monkeypatch.setattr(operations, "erase", protected)
        for address, data in (
            (page(conversation, "delete"), {"post": "yes"}),
            (LIST, selected("delete_selected", conversation, confirmed="yes")),
        ):
            done = admin_client.post(address, data, follow=True)
            assert "not erased: other objects refer to it" in words(done.content.decode())
        assert Conversation.objects.exists()
        assert logged() == []

    def test_a_queryset_is_erased_as_well(self, conversation):  # noqa: F811
        model_admin = admin.site.get_model_admin(Conversation)
        model_admin.delete_queryset(None, Conversation.objects.all())
        assert not Conversation.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("in_bulk", [False, True])
def test_nothing_is_added_to_what_is_half_erased(admin_client, in_bulk):
    """A message that is said between the statements of an erasure waits for its end."""
    made = ConversationFactory()
    made.memory.add(UserMessage("x"))
    outcome: list[type[Exception] | None] = []
    threads: list[threading.Thread] = []

    def say():
        try:
            operations.add(Target.of(Conversation.objects.get(pk=made.pk)), [UserMessage("late")])
        except Conversation.DoesNotExist as error:
            outcome.append(type(error))
        else:
            outcome.append(None)
        finally:
            connections.close_all()

    def between(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        if sql.startswith("DELETE") and "chatmemory_message" in sql and not threads:
            threads.append(threading.Thread(target=say))
            threads[0].start()
            threads[0].join(0.5)
        return result

    with connection.execute_wrapper(between):
        if in_bulk:
            done = admin_client.post(LIST, selected("delete_selected", made, confirmed="yes"))
        else:
            done = admin_client.post(page(made, "delete"), {"post": "yes"})
    threads[0].join(60)
    assert done.status_code == 302
    assert outcome == [Conversation.DoesNotExist]
    assert not Conversation.objects.exists()


class TestExport:
    NAMES = ("export_jsonl", "export_openai", "export_langchain4j")

    def lines(self, answer):
        return [json.loads(line) for line in answer.getvalue().decode().splitlines()]

    def test_a_look_at_the_headers_is_not_logged(self, admin_client, conversation):  # noqa: F811
        for name in self.NAMES:
            answer = admin_client.head(page(conversation, name))
            assert (answer.status_code, "attachment" in answer["Content-Disposition"]) == (200, True)
        assert logged() == []

    def test_several_are_logged_each(self, admin_client, conversation, other):  # noqa: F811
        admin_client.post(LIST, selected("export_selected", conversation, other)).getvalue()
        entries = LogEntry.objects.values_list("object_id", "change_message")
        assert set(entries) == {(str(found.pk), "Exported as JSON lines.") for found in (conversation, other)}

    @pytest.mark.slow
    def test_several_cost_few_statements(self, admin_client):
        Conversation.objects.bulk_create([Conversation(memory_id=f"c{number}") for number in range(60)])
        chosen = selected("export_selected", Conversation.objects.first(), select_across="1")
        with CaptureQueriesContext(connection) as captured:
            answer = admin_client.post(LIST, chosen)
        assert len(captured) < 20
        assert answer.getvalue().count(b'"end":') == 60
        assert LogEntry.objects.count() == 60

    @pytest.mark.parametrize("payload", ["{broken", "[1]", "5", '{"contents": 7}'])
    def test_an_unreadable_message_is_exported_as_it_is(self, admin_client, conversation, payload):  # noqa: F811
        Message.objects.filter(conversation=conversation, position=2).update(payload=payload)
        _settings, *written, _end = self.lines(admin_client.get(page(conversation, "export_jsonl")))
        assert [row["position"] for row in written] == list(range(6))
        assert (written[2]["message"], written[2]["text"], written[2]["payload"]) == (None, "question 1", payload)
        assert written[2]["problem"]
        assert "problem" not in written[3]

    @pytest.mark.parametrize("name", NAMES[1:])
    def test_a_format_that_cannot_say_so_names_the_place_instead(self, admin_client, conversation, name):  # noqa: F811
        Message.objects.filter(conversation=conversation, position=2).update(payload="{broken")
        answer = admin_client.get(page(conversation, name))
        assert answer.status_code == 409
        assert "cannot hold the message at position 2 (User): not JSON" in words(answer.content.decode())
        assert f'href="{page(conversation)}?position=2#message-2"' in answer.content.decode()
        assert logged() == []

    def test_the_place_is_the_position(self, admin_client, conversation):  # noqa: F811
        conversation.memory.set([UserMessage("a summary, which is not history")])
        conversation.memory.add(CustomMessage({"a": 1}))
        answer = admin_client.get(page(conversation, "export_openai"))
        assert "at position 7 (Custom)" in words(answer.content.decode())

    def test_of_nothing(self, admin_client):
        empty = ConversationFactory()
        answers = [admin_client.get(page(empty, name)).getvalue() for name in self.NAMES]
        assert [answers[0].count(b"\n"), *answers[1:]] == [2, b"[]", b"[]"]

    def test_what_is_nested_as_deep_as_may_be_is_written(self, admin_client):
        deep: object = 1
        for _ in range(497):
            deep = [deep]
        made = ConversationFactory()
        made.memory.add(AiMessage("x", attributes={"deep": deep}), UserMessage("y"))
        assert len(self.lines(admin_client.get(page(made, "export_jsonl")))) == 1 + 2 + 1
        assert len(json.loads(admin_client.get(page(made, "export_langchain4j")).getvalue())) == 2

    @pytest.mark.parametrize(
        ("sizes", "statements"),
        [([3] * 7, 2 + 4), ([3] * 8, 3 + 4), ([1] * 4, 2 + 1), ([50, 1, 1, 50], 2 + 3), ([], 1), ([1, 2], 1 + 1)],
    )
    def test_no_more_is_read_at_once_than_a_bounded_number_of_characters(self, monkeypatch, sizes, statements):
        """Four rows are measured at once; of rows of three characters two fit into seven."""
        monkeypatch.setattr(reading, "_ROWS", 4)
        monkeypatch.setattr(reading, "_CHARS", 7)
        made = ConversationFactory()
        Message.objects.bulk_create(row(made, position, size) for position, size in enumerate(sizes))
        with CaptureQueriesContext(connection) as captured:
            read = [len(found.text) for found in reading.read_in_parts(made.messages.all())]
        assert read == sizes
        assert len(captured) == statements

    def test_media_count_as_well(self, monkeypatch):
        monkeypatch.setattr(reading, "_CHARS", 100)
        made = ConversationFactory()
        made.memory.add(*(UserMessage("x", attributes={"note": "n" * 90}) for _ in range(3)))
        with CaptureQueriesContext(connection) as captured:
            assert len(list(reading.read_in_parts(made.messages.all()))) == 3
        assert len(captured) == 1 + 3


def row(made, position, size):
    return Message(
        conversation=made,
        position=position,
        type="USER",
        text="x" * size,
        token_count=1,
        memory_order=position * ORDER_STEP,
        added_in=position + 1,
        created_at=timezone.now(),
    )


def test_no_address_acts_without_a_token(admin_user, conversation):  # noqa: F811
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin_user)
    for name in ("window", "pin", "unpin", "clear_tool_results", "clear", "delete"):
        address = reverse(f"admin:chatmemory_conversation_{name}", args=[conversation.pk])
        assert strict.post(address, {"1-window": "messages", "1-limit": 1}).status_code == 403
