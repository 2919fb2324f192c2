"""The admin's lists: who sees what there, in any site of the admin, and what can be asked of them."""

# ruff: noqa: F811 (fixtures of another module)

from __future__ import annotations

import re
import subprocess
import sys
from html import unescape
from types import SimpleNamespace

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import path, reverse

from chatmemory import AiMessage, ImageContent, ToolExecutionRequest, UserMessage
from chatmemory.admin import ConversationAdmin, MessageAdmin, lists
from chatmemory.models import Conversation, Message
from tests.admin.test_conversation import conversation, staff  # noqa: F401
from tests.support.factories import ConversationFactory, UserFactory


class OfMarta(ConversationAdmin):
    """Shows the conversations of one tenant."""

    def get_queryset(self, request):
        return super().get_queryset(request).filter(owner__username="marta")


class OnlyMartas(ConversationAdmin):
    """Lists all, but lets staff do nothing with those of others."""

    def has_view_permission(self, request, obj=None):
        return super().has_view_permission(request, obj) and self._is_theirs(obj)

    def has_act_permission(self, request, obj=None):
        return super().has_act_permission(request, obj) and self._is_theirs(obj)

    def has_read_text_permission(self, request, obj=None):
        return super().has_read_text_permission(request, obj) and self._is_theirs(obj)

    def _is_theirs(self, conversation):
        return conversation is None or conversation.owner.username == "marta"


class ByExactTitle(ConversationAdmin):
    """Searches its own fields, some of which have many values."""

    def get_search_fields(self, request):
        return ("=title", "messages__type")


class WithItsOwnFilters(ConversationAdmin):
    """Has other filters than the app's own."""

    list_filter = ("window",)


class HandsOff(ConversationAdmin):
    """Nobody acts on a conversation, and nobody reads one."""

    def has_act_permission(self, request, obj=None):
        return False

    def has_read_text_permission(self, request, obj=None):
        return False


def site(name, conversations=None, messages=MessageAdmin):
    made = admin.AdminSite(name=name)
    if conversations is not None:
        made.register(Conversation, conversations)
    if messages is not None:
        made.register(Message, messages)
    return path(f"{name}/", made.urls)


urlpatterns = [
    path("admin/", admin.site.urls),
    site("tenant", OfMarta),
    site("each", OnlyMartas),
    site("hands-off", HandsOff),
    site("by-title", ByExactTitle),
    site("own-filters", WithItsOwnFilters),
    site("messages-only"),
    site("conversations-only", ConversationAdmin, messages=None),
]

pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]

CONVERSATIONS = "/admin/chatmemory/conversation/"
MESSAGES = "/admin/chatmemory/message/"

OF_ONE = [
    "memory",
    "window",
    "clear-tool-results",
    "clear",
    "export/jsonl",
    "export/openai",
    "export/langchain4j",
]


def page(conversation, action="change"):
    return reverse(f"admin:chatmemory_conversation_{action}", args=[conversation.pk])


def html(client, url, **query):
    response = client.get(url, query)
    assert response.status_code == 200
    return response.content.decode()


def words(text):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


def rows(text):
    """How many rows a list has."""
    return len(re.findall("<tr", text[text.index("<tbody") : text.index("</tbody>")])) if "<tbody" in text else 0


def columns_read(captured):
    """Names of columns, as quoted in the statements."""
    quoted = re.compile('"(.+?)"|`(.+?)`')
    return {one or other for query in captured for one, other in quoted.findall(query["sql"])}


@pytest.fixture
def other():
    """A conversation that is not Marta's."""
    made = ConversationFactory(owner=UserFactory(username="eve"), title="Eve's own", window="messages", limit=2)
    made.memory.add(*(UserMessage(f"secret {index}") for index in range(3)))
    made.refresh_from_db()
    return made


class TestWithoutTheAdmin:
    @pytest.mark.slow
    @pytest.mark.parametrize("source", ["hello {{ name }}", "{% load chatmemory_admin %}hello {{ name }}"])
    def test_templates_work_and_nothing_is_registered(self, source):
        program = f"""
import django
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "chatmemory"],
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}},
    TEMPLATES=[{{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}}],
)
django.setup()
from django.template import engines

print(engines["django"].from_string({source!r}).render({{"name": "world"}}))
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("hello world\n", "")


class TestLookups:
    @pytest.mark.parametrize("wanted", ["sesame", "nowhere"])
    @pytest.mark.parametrize(
        "lookup",
        [
            "text",
            "text__icontains",
            "text__startswith",
            "text__regex",
            "payload__icontains",
            "payload__isnull",
            "native__icontains",
            "conversation__messages__text__contains",
        ],
    )
    def test_what_messages_say_cannot_be_guessed(self, staff, admin_user, conversation, lookup, wanted):
        conversation.memory.add(UserMessage("sesame", attributes={"key": "sesame"}))
        client = staff("view_message")
        assert client.get(MESSAGES, {lookup: wanted}).status_code == 400
        client.force_login(admin_user)
        assert client.get(MESSAGES, {lookup: wanted}).status_code == 400

    @pytest.mark.parametrize("lookup", ["messages__text__icontains", "messages__payload", "messages__text"])
    def test_nor_in_the_list_of_conversations(self, admin_client, conversation, lookup):
        assert admin_client.get(CONVERSATIONS, {lookup: "question"}).status_code == 400

    @pytest.mark.parametrize(
        ("address", "query"),
        [
            (CONVERSATIONS, "metadata__contains=x"),
            (CONVERSATIONS, "_popup=1&metadata__contains=x"),
            (CONVERSATIONS, "title__startswith=A"),
            (CONVERSATIONS, "window_kind=x"),
            (CONVERSATIONS, "owner__username__startswith=m"),
            (MESSAGES, "token_count__gt=1"),
            (MESSAGES, "conversation__metadata__contains=x"),
            (MESSAGES, "conversation__title__startswith=A"),
        ],
    )
    def test_what_no_filter_offers_is_refused(self, admin_client, conversation, address, query):
        assert admin_client.get(f"{address}?{query}").status_code == 400

    @pytest.mark.parametrize(
        ("address", "query"),
        [
            (CONVERSATIONS, "window__exact=messages"),
            (CONVERSATIONS, "updated_at__gte=2020-01-01+00:00:00%2B00:00"),
            (CONVERSATIONS, "fullness=full"),
            (CONVERSATIONS, "_popup=1&title__startswith=A"),
            (MESSAGES, "type__exact=USER"),
            (MESSAGES, "state=retained"),
            (MESSAGES, "origin__exact=said"),
        ],
    )
    def test_what_one_offers_is_found(self, admin_client, conversation, address, query):
        assert rows(html(admin_client, f"{address}?{query}")) > 0

    @pytest.mark.parametrize("pattern", ["(", "^(a+)+$"])
    @pytest.mark.parametrize("address", [f"{MESSAGES}?type__iregex=", f"{CONVERSATIONS}?title__regex="])
    def test_no_pattern_is_tried(self, admin_client, conversation, address, pattern):
        assert admin_client.get(f"{address}{pattern}").status_code == 400

    @pytest.mark.parametrize(
        "query",
        [
            "token_count__gt=99999999999999999999999999",
            "owner=x",
            "position=%00",
            "created_at__gte=x",
            "q=%00",
            "state=nothing",
            "p=99999999999999999999999",
            "o=99999",
        ],
    )
    def test_nonsense_is_not_an_error_of_the_server(self, admin_client, conversation, query):
        assert admin_client.get(f"{MESSAGES}?{query}").status_code in {200, 302, 400}

    def test_an_owner_may_have_any_key(self, rf):
        owner = SimpleNamespace(pk="a&b=c#d/é")
        row = SimpleNamespace(conversation=SimpleNamespace(owner=owner))
        link = re.search('href="(.*?)"', MessageAdmin(Message, admin.site).owner(row))[1]
        request = rf.get(f"/{unescape(link)}")
        assert list(request.GET.items()) == [("owner", "a&b=c#d/é")]


class TestSearch:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("query", "is_found"),
        [
            ("answer 0", True),
            ("0 answer", True),
            ("answer  0", True),
            ('"answer 0"', True),
            ("'answer 0'", True),
            ('"0 answer"', False),
            ("answer nothing", False),
            ("marta answer", True),
            ('"', True),
            (r'"an\"swer"', False),
        ],
    )
    def test_finds_the_same_in_both_lists(self, admin_client, conversation, query, is_found):
        assert (rows(html(admin_client, MESSAGES, q=query)) > 0) == is_found
        assert ("About tea" in html(admin_client, CONVERSATIONS, q=query)) == is_found

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("query", "count"),
        [("About tea", 0), ('"About tea"', 1), ("user", 1), ("question answer user", 1), ("question nothing", 0)],
    )
    def test_fields_of_a_subclass_are_searched_its_way(self, admin_client, conversation, query, count):
        assert rows(html(admin_client, "/by-title/chatmemory/conversation/", q=query)) == count

    @pytest.mark.parametrize(
        ("permissions", "address", "says"),
        [
            ("view_conversation", CONVERSATIONS, "Title, memory ID and owner."),
            (
                "view_conversation read_message_text",
                CONVERSATIONS,
                "Title, memory ID, owner and what the messages say.",
            ),
            ("view_message view_conversation", MESSAGES, "Owner."),
            ("view_message read_message_text", MESSAGES, "What the messages say."),
            ("view_message view_conversation read_message_text", MESSAGES, "Owner and what the messages say."),
        ],
    )
    def test_says_what_is_searched(self, staff, permissions, address, says):
        shown = html(staff(*permissions.split()), address)
        assert re.search('id="searchbar_helptext">(.*?)<', shown)[1] == f"{says} Five words at most."

    @pytest.mark.parametrize(
        ("query", "is_found"), [("tea question", True), ("tea-7 marta", True), ("tea zebra", False)]
    )
    def test_each_word_may_be_somewhere_else(self, admin_client, conversation, query, is_found):
        assert ("About tea" in html(admin_client, CONVERSATIONS, q=query)) == is_found

    @pytest.mark.slow
    def test_finds_no_words_for_those_who_may_not_read_them(self, staff, conversation):
        client = staff("view_conversation", "view_message")
        assert "About tea" not in html(client, CONVERSATIONS, q="tea question")
        assert "About tea" in words(html(client, CONVERSATIONS, q="tea marta"))
        assert rows(html(client, MESSAGES, q="question")) == 0

    @pytest.mark.slow
    @pytest.mark.parametrize("address", [CONVERSATIONS, MESSAGES])
    @pytest.mark.parametrize("reads", [True, False])
    def test_takes_five_words(self, staff, conversation, address, reads):
        client = staff("view_conversation", "view_message", *["read_message_text"] * reads)
        assert rows(html(client, address, q="mar " * 1100)) > 0
        assert rows(html(client, address, q="mar " * 5 + "nothing")) > 0
        assert rows(html(client, address, q="mar " * 4 + "nothing")) == 0
        assert "Five words at most." in html(client, address)

    @pytest.mark.slow
    def test_stays_within_what_the_list_shows(self, admin_client, conversation, other):
        address = "/tenant/chatmemory/conversation/"
        assert "Eve&#x27;s own" not in html(admin_client, address, q="secret")
        assert rows(html(admin_client, address, q="question")) == 1


class TestFilters:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("retained", "fullness"),
        [
            (0, {"empty"}),
            (49, {"low"}),
            (50, {"high"}),
            (89, {"high"}),
            (90, {"high", "full"}),
            (110, {"high", "full"}),
        ],
    )
    def test_fullness_has_bounds(self, admin_client, retained, fullness):
        made = ConversationFactory(title="Some tea", window="messages", limit=100)
        Conversation.objects.filter(pk=made.pk).update(retained_count=retained, next_position=200, retained_tokens=999)
        found = {
            name
            for name in ("empty", "low", "high", "full")
            if "Some tea" in html(admin_client, CONVERSATIONS, fullness=name)
        }
        assert found == fullness

    def test_fullness_counts_what_the_window_counts(self, admin_client):
        made = ConversationFactory(title="Some tea", window="tokens", limit=100)
        Conversation.objects.filter(pk=made.pk).update(retained_count=1, next_position=1, retained_tokens=99)
        assert "Some tea" in html(admin_client, CONVERSATIONS, fullness="full")
        assert "Some tea" not in html(admin_client, CONVERSATIONS, fullness="low")


class TestMessagesOfAnOwner:
    def ask(self, client, address, owner):
        return words(html(client, address, owner=owner.pk))

    def test_are_said_to_be_theirs(self, admin_client, conversation, other):
        assert "By owner All no owner By type" in words(html(admin_client, MESSAGES))
        shown = self.ask(admin_client, MESSAGES, conversation.owner)
        assert "By owner All marta" in shown
        assert "Clear all filters" in shown
        assert "6 messages" in shown

    def test_do_not_tell_who_another_owner_is(self, admin_client, conversation, other):
        shown = self.ask(admin_client, "/tenant/chatmemory/message/", other.owner)
        assert f"By owner All {other.owner_id}" in shown
        assert "eve" not in shown

    def test_of_nobody_are_none(self, admin_client, conversation):
        assert admin_client.get(f"{MESSAGES}?owner=x").url.endswith("?e=1")


class TestCounting:
    @pytest.fixture
    def many(self):
        return Conversation.objects.bulk_create(Conversation(memory_id=f"many-{index}") for index in range(160))

    @pytest.mark.slow
    def test_a_page_has_a_hundred(self, admin_client, many):
        shown = html(admin_client, CONVERSATIONS)
        assert rows(shown) == 100
        assert rows(html(admin_client, CONVERSATIONS, p=2)) == 60
        assert "160 conversations" in words(shown)
        assert "Select all 160 conversations" in words(shown)

    @pytest.mark.slow
    def test_what_is_not_counted_is_not_said(self, admin_client, many, monkeypatch):
        monkeypatch.setattr(lists, "_MOST_COUNTED", 150)
        shown = words(html(admin_client, CONVERSATIONS))
        assert "150+ conversations" in shown
        assert "Select all" not in shown
        assert "0 of 100 selected" in shown
        assert rows(html(admin_client, CONVERSATIONS, p=2)) == 50
        searched = words(html(admin_client, CONVERSATIONS, q="many"))
        assert "150+ conversations" in searched
        assert "150 results" not in searched

    @pytest.mark.slow
    def test_a_count_that_is_just_as_long_is_true(self, admin_client, many, monkeypatch):
        monkeypatch.setattr(lists, "_MOST_COUNTED", 160)
        shown = words(html(admin_client, CONVERSATIONS))
        assert "160 conversations" in shown
        assert "Select all 160 conversations" in shown
        assert "160 results" in words(html(admin_client, CONVERSATIONS, q="many"))

    def test_messages_are_counted_no_further_either(self, admin_client, conversation, monkeypatch):
        monkeypatch.setattr(lists, "_MOST_COUNTED", 5)
        assert "5+ messages" in words(html(admin_client, MESSAGES))

    @pytest.mark.slow
    def test_a_large_number_is_grouped(self, admin_client, many, monkeypatch):
        monkeypatch.setattr(lists.CappedPaginator, "_counted", 10_001)
        assert "10,000+ conversations" in words(html(admin_client, CONVERSATIONS))


class TestWhatIsRead:
    @pytest.mark.slow
    def test_lists_leave_long_columns_alone(self, admin_client, conversation):
        with CaptureQueriesContext(connection) as captured:
            html(admin_client, CONVERSATIONS)
            html(admin_client, MESSAGES, state="retained")
        read = columns_read(captured)
        assert {"memory_id", "text"} <= read
        assert not {"metadata", "payload"} & read

    @pytest.mark.slow
    def test_texts_are_not_read_for_those_who_may_not_read_them(self, staff, conversation):
        client = staff("view_conversation", "view_message")
        with CaptureQueriesContext(connection) as captured:
            assert rows(html(client, MESSAGES)) == 6
            html(client, CONVERSATIONS)
            html(client, page(conversation))
        read = columns_read(captured)
        assert "position" in read
        assert not {"text", "payload"} & read

    def test_a_page_reads_its_conversation_once(self, admin_client, conversation):
        with CaptureQueriesContext(connection) as captured:
            html(admin_client, page(conversation))
        table = connection.ops.quote_name("chatmemory_conversation")
        assert sum(f"FROM {table}" in query["sql"] for query in captured) == 1


class TestMessagesWithoutText:
    @pytest.fixture
    def made(self):
        made = ConversationFactory()
        call = ToolExecutionRequest("1", "look_up", "{}")
        made.memory.add(
            AiMessage(None, [call]),
            UserMessage([ImageContent("https://example.org/a.png")]),
            UserMessage([ImageContent(base64_data="aaaa" * 5000, mime_type="image/png")]),
        )
        return made

    def test_say_what_they_are(self, admin_client, made):
        shown = re.findall('class="chatmemory-said">(.*?)<', html(admin_client, MESSAGES))
        assert shown == ["It is too long to show here.", "Image", "Calls look_up()"]

    @pytest.mark.slow
    def test_cost_one_statement(self, admin_client, conversation, made):
        def statements():
            with CaptureQueriesContext(connection) as captured:
                html(admin_client, MESSAGES)
            return len(captured)

        statements()  # a process reads the content types once
        before = statements()
        made.memory.add(*(UserMessage([ImageContent("https://example.org/a.png")]) for _ in range(5)))
        assert statements() == before

    def test_have_nothing_read_for_those_who_may_not_read_them(self, staff, made):
        client = staff("view_conversation", "view_message")
        with CaptureQueriesContext(connection) as captured:
            shown = html(client, MESSAGES)
        assert "look_up" not in shown
        assert "payload" not in columns_read(captured)


def test_numbers_are_grouped(admin_client, conversation):
    Message.objects.filter(position=5).update(token_count=12345)
    Conversation.objects.update(retained_count=23456, next_position=58024)
    assert "12,345" in words(html(admin_client, MESSAGES))
    assert "23,456 34,568" in words(html(admin_client, CONVERSATIONS))


class TestJumps:
    def test_the_first_evicted_is_for_those_who_may_see_the_conversation(self, staff, conversation):
        address = f"{page(conversation)}?go=first-evicted"
        assert staff().get(address).status_code == 403

    def test_the_first_evicted_is_a_jump_away(self, staff, conversation):
        answer = staff("view_conversation").get(f"{page(conversation)}?go=first-evicted")
        assert answer["Location"] == f"{page(conversation)}?position=0#message-0"

    def test_a_message_leads_nowhere_without_permission(self, staff, conversation):
        address = f"{MESSAGES}{conversation.messages.first().pk}/change/"
        assert staff().get(address).status_code == 403

    @pytest.mark.parametrize("codename", ["view_message", "view_conversation"])
    def test_a_message_leads_nowhere_with_half_of_it(self, staff, conversation, codename):
        address = f"{MESSAGES}{conversation.messages.first().pk}/change/"
        assert staff(codename).get(address).status_code == 403


class TestMessages:
    @pytest.mark.slow
    def test_do_not_tell_of_conversations_that_one_may_not_see(self, staff, conversation):
        client = staff("view_message", "read_message_text")
        shown = html(client, MESSAGES)
        assert "question 0" in shown
        assert rows(shown) == 6
        for hidden in ("About tea", "tea-7", "marta", str(conversation.pk)):
            assert hidden not in shown
        assert rows(html(client, MESSAGES, q="marta")) == 0
        assert rows(html(client, MESSAGES, owner=conversation.owner_id)) == rows(html(client, MESSAGES, owner=0)) == 6

    @pytest.mark.slow
    def test_with_view_permission_alone_are_shapes(self, staff, conversation):
        client = staff("view_message")
        shown = words(html(client, MESSAGES))
        assert "5 AI" in shown
        assert "question" not in shown
        assert "answer" not in shown
        assert 'name="q"' not in html(client, MESSAGES)
        assert rows(html(client, MESSAGES, q="marta")) == 6

    def test_have_no_words_in_their_history(self, staff, conversation):
        client = staff("view_message")
        assert "question 0" not in html(client, f"{MESSAGES}{conversation.messages.first().pk}/history/")

    @pytest.mark.parametrize(("codename", "may"), [("delete_conversation", True), ("view_message", False)])
    def test_go_with_those_who_may_erase_conversations(self, rf, codename, may):
        request = rf.get("/")
        request.user = UserFactory(is_staff=True)
        request.user.user_permissions.set(Permission.objects.filter(codename=codename))
        assert MessageAdmin(Message, admin.site).has_delete_permission(request) == may


class TestSites:
    @pytest.mark.slow
    def test_one_for_a_tenant_shows_no_others(self, admin_client, conversation, other):
        for address in ("", "conversation/", "message/"):
            shown = html(admin_client, f"/tenant/chatmemory/{address}")
            assert "About tea" in shown
            assert "Eve&#x27;s own" not in shown
            assert "secret" not in shown
        assert rows(html(admin_client, "/tenant/chatmemory/message/")) == 6
        for address in OF_ONE:
            assert admin_client.get(f"/tenant/chatmemory/conversation/{other.pk}/{address}/").status_code == 404
        message = other.messages.first()
        answer = admin_client.get(f"/tenant/chatmemory/message/{message.pk}/change/")
        assert str(other.pk) not in answer["Location"]

    def test_one_for_a_tenant_counts_no_others(self, admin_client, conversation, other):
        dashboard = admin_client.get("/tenant/chatmemory/").context["dashboard"]
        assert sum(day.messages for day in dashboard.steps) == 6
        assert sum(reason.messages for reason in dashboard.reasons) == 2

    @pytest.mark.slow
    def test_permissions_are_asked_of_each_conversation(self, staff, conversation, other):
        client = staff("view_conversation", "change_conversation", "read_message_text", "view_message")
        for address in OF_ONE:
            assert client.get(f"/each/chatmemory/conversation/{other.pk}/{address}/").status_code == 403
            assert client.get(f"/each/chatmemory/conversation/{conversation.pk}/{address}/").status_code == 200
        answer = client.get(f"/each/chatmemory/message/{other.messages.first().pk}/change/")
        assert answer.status_code == 403

    @pytest.mark.parametrize("address", ["change/", "memory/", "window/?1-window=messages&1-limit=1"])
    def test_permission_to_read_is_asked_of_the_site(self, admin_client, conversation, address):
        shown = html(admin_client, f"/hands-off/chatmemory/conversation/{conversation.pk}/{address}")
        assert not re.search(r"(question|answer) \d", shown)
        assert "Apply" not in words(shown)
        assert "Export" not in words(shown)

    @pytest.mark.parametrize(
        "address",
        [
            "window",
            "pin",
            "unpin",
            "clear-tool-results",
            "clear",
            "export/jsonl",
            "export/openai",
            "export/langchain4j",
        ],
    )
    def test_permission_to_act_is_asked_of_the_site(self, admin_client, conversation, address):
        address = f"/hands-off/chatmemory/conversation/{conversation.pk}/{address}/"
        assert admin_client.post(address, {"1-window": "messages", "1-limit": "1", "position": "4"}).status_code == 403
        assert conversation.messages.retained().count() == 4
        assert not conversation.messages.pinned().exists()

    @pytest.mark.slow
    def test_lists_ask_the_site(self, admin_client, conversation):
        messages = "/hands-off/chatmemory/message/"
        assert "question" not in html(admin_client, messages)
        assert rows(html(admin_client, messages, q="question")) == 0
        conversations = "/hands-off/chatmemory/conversation/"
        shown = html(admin_client, conversations)
        assert "clear_memories" not in shown
        assert "export_selected" not in shown
        assert rows(html(admin_client, conversations, q="question")) == 0

    def test_one_with_messages_only(self, admin_client, conversation):
        shown = html(admin_client, "/messages-only/chatmemory/")
        assert "The last 30 days" not in shown
        assert "About tea" not in shown
        shown = html(admin_client, "/messages-only/chatmemory/message/")
        assert "question 0" in shown
        assert "About tea" not in shown
        message = conversation.messages.first()
        assert f"/{message.pk}/change/" not in shown
        assert admin_client.get(f"/messages-only/chatmemory/message/{message.pk}/change/").status_code == 403

    @pytest.mark.slow
    def test_one_with_conversations_only(self, admin_client, conversation):
        assert "About tea" in html(admin_client, "/conversations-only/chatmemory/")
        address = f"/conversations-only/chatmemory/conversation/{conversation.pk}/"
        assert "question 0" in html(admin_client, f"{address}change/")
        html(admin_client, f"{address}delete/")

    @pytest.mark.slow
    def test_links_stay_in_the_site(self, admin_client, conversation):
        address = f"/tenant/chatmemory/conversation/{conversation.pk}/"
        for page_of_it in ("change/", "memory/", "window/?1-window=messages&1-limit=1", "window/", "clear/"):
            assert 'href="/admin/' not in html(admin_client, f"{address}{page_of_it}")
        for index in ("", "conversation/", "message/"):
            assert 'href="/admin/' not in html(admin_client, f"/tenant/chatmemory/{index}")

    def test_links_to_what_is_an_owners_need_no_filter(self, admin_client, conversation):
        address = "/own-filters/chatmemory/conversation/"
        (link,) = re.findall(r'<a href="(\?owner=[^"]*)"', html(admin_client, address))
        ConversationFactory(title="Of somebody else")
        shown = html(admin_client, f"{address}{link}")
        assert "About tea" in shown
        assert "Of somebody else" not in shown

    @pytest.mark.slow
    def test_who_may_open_the_list_has_the_dashboard(self, staff, conversation):
        client = staff("change_conversation")
        assert "About tea" in html(client, CONVERSATIONS)
        assert "The last 30 days" in html(client, "/admin/chatmemory/")
