"""The admin: what staff see of a conversation, and what they cannot do to it."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from chatmemory import (
    AiMessage,
    AudioContent,
    CustomMessage,
    ImageContent,
    PdfFileContent,
    SystemMessage,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.admin.json_layout import lay_out
from chatmemory.models import Conversation, Message
from tests.factories import ConversationFactory, UserFactory

pytestmark = pytest.mark.django_db

LIST = "/admin/chatmemory/conversation/"


def page(conversation, action="change"):
    return reverse(f"admin:chatmemory_conversation_{action}", args=[conversation.pk])


def html(client, url):
    response = client.get(url)
    assert response.status_code == 200
    return response.content.decode()


def own_part(text):
    """What our templates put into the page, without the admin's frame around it."""
    return text[text.index('aria-labelledby="chatmemory-window"') : text.index('class="submit-row"')]


def section(text, name):
    """The text of one of the two lists, as a reader sees it."""
    found = re.search(rf'<section[^>]* id="{name}".*?</section>', text, re.DOTALL)
    return words(found[0])


def words(text):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


@pytest.fixture
def staff(client):
    """Log a member of staff in, with permissions by codename."""

    def log_in(*codenames):
        user = UserFactory(username="staff", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def conversation():
    """Six messages said, of which a window of four retains the last four."""
    owner = UserFactory(username="marta")
    made = ConversationFactory(owner=owner, memory_id="tea-7", title="About tea", window="messages", limit=4)
    for index in range(3):
        made.memory.add(UserMessage(f"question {index}"), AiMessage(f"answer {index}"))
    made.refresh_from_db()
    return made


class TestList:
    def test_shows_who_what_and_how_full(self, admin_client, conversation):
        shown = words(html(admin_client, LIST))
        assert "About tea tea-7 marta 4 of 4 messages 4 2" in shown

    def test_a_conversation_without_title_goes_by_its_memory_id(self, admin_client):
        ConversationFactory(owner=None, memory_id="untitled-1", title="", window="tokens", limit=1200)
        shown = words(html(admin_client, LIST))
        assert "untitled-1 - 0 of 1,200 tokens 0 0" in shown

    def test_its_queries_do_not_grow_with_the_conversations(self, admin_client, conversation):
        with CaptureQueriesContext(connection) as before:
            html(admin_client, LIST)
        for index in range(20):
            ConversationFactory(memory_id=f"tea-{index}", title="More tea")
        with CaptureQueriesContext(connection) as after:
            html(admin_client, LIST)
        assert len(after) == len(before)

    @pytest.mark.parametrize("wanted", ["About", "tea-7", "mart"])
    def test_is_searched_by_title_memory_id_and_owner(self, admin_client, conversation, wanted):
        ConversationFactory(memory_id="other")
        shown = html(admin_client, f"{LIST}?q={wanted}")
        assert "About tea" in shown
        assert "other" not in words(shown)

    def test_is_filtered_by_window(self, admin_client, conversation):
        assert "About tea" in html(admin_client, f"{LIST}?window__exact=messages")
        assert "About tea" not in html(admin_client, f"{LIST}?window__exact=tokens")

    @pytest.mark.parametrize("column", range(1, 7))
    def test_is_sorted_by_any_column(self, admin_client, conversation, column):
        assert "About tea" in html(admin_client, f"{LIST}?o={column}")


class TestPage:
    def test_shows_the_facts(self, admin_client, conversation):
        shown = words(own_part(html(admin_client, page(conversation))))
        assert "4 of 4 messages 100 percent of the window in use" in shown
        assert "Owner marta Memory ID tea-7 Window at most 4 messages Tokens counted for gpt-4o" in shown
        assert "Messages said 6 Retained 4" in shown
        assert "Evicted 2 Version 3" in shown

    def test_tells_retained_from_evicted_and_why(self, admin_client, conversation):
        shown = html(admin_client, page(conversation))
        retained, evicted = section(shown, "retained"), section(shown, "evicted")
        assert re.findall(r"(?:question|answer) \d", retained) == ["question 1", "answer 1", "question 2", "answer 2"]
        assert re.findall(r"(?:question|answer) \d", evicted) == ["answer 0", "question 0"]
        row = conversation.messages.get(position=0)
        assert (
            f"{row.token_count} tokens question 0 Evicted: no room in the window in version {row.evicted_in}" in evicted
        )
        assert "Evicted:" not in retained.replace("Evicted: what", "")

    def test_retained_are_in_the_order_of_the_memory(self, admin_client):
        conversation = ConversationFactory(always_keep_system_message_first=True)
        conversation.memory.add(UserMessage("asked first"), SystemMessage("ruled later"))
        retained = section(html(admin_client, page(conversation)), "retained")
        assert retained.index("ruled later") < retained.index("asked first")

    def test_an_empty_conversation_says_so(self, admin_client):
        shown = html(admin_client, page(ConversationFactory()))
        assert "the model gets nothing" in section(shown, "retained")
        assert "Nothing was evicted" in section(shown, "evicted")

    def test_says_that_evicted_messages_were_not_kept(self, admin_client, settings):
        settings.CHATMEMORY = {"KEEP_HISTORY": False}
        conversation = ConversationFactory(window="messages", limit=1)
        conversation.memory.add(UserMessage("one"))
        conversation.memory.add(UserMessage("two"))
        assert "was not kept" in section(html(admin_client, page(conversation)), "evicted")

    def test_an_overfull_window_is_said_to_be(self, admin_client, conversation):
        Conversation.objects.filter(pk=conversation.pk).update(limit=2)
        assert "200 percent of the window: over its limit" in words(html(admin_client, page(conversation)))

    def test_tool_calls_have_their_arguments_laid_out(self, admin_client):
        conversation = ConversationFactory()
        good = ToolExecutionRequest("call_1", "weather", '{"city":"Oslo","days":[1,2]}')
        bad = ToolExecutionRequest("call_2", "broken", '{"city":')
        conversation.memory.add(
            AiMessage(None, [good, bad]), ToolExecutionResultMessage("call_1", "weather", "no such city", is_error=True)
        )
        shown = unescape(html(admin_client, page(conversation)))
        assert '>{\n  "city": "Oslo",\n  "days": [\n    1,\n    2\n  ]\n}<' in shown
        assert '>{"city":<' in shown
        retained = section(shown, "retained")
        assert "Calls weather call_1" in retained
        assert "Tool result weather error" in retained
        assert "Answers the call call_1 no such city" in retained

    def test_thinking_attributes_names_and_custom_messages_are_there(self, admin_client):
        conversation = ConversationFactory()
        conversation.memory.add(
            UserMessage("hello", name="theo"),
            AiMessage("done", thinking="first I think", attributes={"mood": "calm"}),
            CustomMessage({"card": 7}),
        )
        shown = section(html(admin_client, page(conversation)), "retained")
        assert "User theo" in shown
        assert 'Thinking first I think done Attributes { "mood": "calm" }' in shown
        assert "Custom" in shown
        assert '"card": 7' in shown

    def test_media_are_described_and_never_fetched(self, admin_client):
        conversation = ConversationFactory()
        conversation.memory.add(
            UserMessage(
                contents=[
                    TextContent("look"),
                    ImageContent("https://evil.example/pixel.png"),
                    ImageContent(base64_data="QUJD" * 1000, mime_type="image/png"),
                    AudioContent(),
                    PdfFileContent("https://evil.example/a.pdf"),
                ]
            )
        )
        shown = own_part(html(admin_client, page(conversation)))
        assert "https://evil.example/pixel.png" in shown
        assert not re.search(r"<(img|audio|video|iframe|object|embed|link)\b", shown)
        assert not re.search(r"""(src|href|data)=["'][^"'#?/]""", shown)
        assert "QUJDQUJD" not in shown
        text = words(shown)
        assert "Image image/png 2.9 KB, stored as Base64" in text.replace("\xa0", " ")
        assert "Audio Neither data nor an address." in text
        assert "PDF file application/pdf https://evil.example/a.pdf" in text

    def test_synthetic_messages_are_marked(self, admin_client, conversation):
        conversation.memory.set([UserMessage("a summary")])
        shown = html(admin_client, page(conversation))
        assert "User synthetic" in section(shown, "retained")
        assert "left out when the memory was rewritten" in section(shown, "evicted")

    def test_a_long_text_scrolls_and_can_be_focused(self, admin_client):
        conversation = ConversationFactory()
        conversation.memory.add(UserMessage("short"), UserMessage("long " * 1000))
        shown = own_part(html(admin_client, page(conversation)))
        assert shown.count('tabindex="0" role="group" aria-label="Text"') == 1

    def test_a_row_that_cannot_be_read_does_not_hide_the_others(self, admin_client, conversation):
        Message.objects.filter(conversation=conversation, position=4).update(payload="{broken")
        retained = section(html(admin_client, page(conversation)), "retained")
        assert "This message cannot be read" in retained
        assert "answer 2" in retained

    def test_its_queries_do_not_grow_with_the_messages(self, admin_client):
        def queries(count):
            conversation = ConversationFactory(window="messages", limit=count // 2)
            for index in range(count):
                conversation.memory.add(UserMessage(f"message {index}"))
            with CaptureQueriesContext(connection) as captured:
                shown = html(admin_client, page(conversation))
            assert shown.count("<article") == count
            return len(captured)

        assert queries(6) == queries(60)

    def test_evicted_messages_are_paged(self, admin_client):
        conversation = ConversationFactory(window="messages", limit=1)
        conversation.memory.add(*[UserMessage(f"message {index}") for index in range(251)])
        first = html(admin_client, page(conversation))
        assert "Number 1 to 100 of 250" in section(first, "evicted")
        assert "message 249" in section(first, "evicted")
        assert 'href="?page=3#evicted"' in first
        last = section(html(admin_client, page(conversation) + "?page=3"), "evicted")
        assert last.index("message 49 ") < last.index("message 0 ")
        assert "message 50 " not in last

    def test_retained_messages_are_paged_beside_them(self, admin_client):
        conversation = ConversationFactory(window="messages", limit=1000)
        conversation.memory.add(*[UserMessage(f"message {index}") for index in range(401)])
        shown = html(admin_client, page(conversation) + "?page=1&retained=3")
        assert "Number 401 to 401 of 401" in section(shown, "retained")
        assert 'href="?page=1&amp;retained=2#retained"' in shown

    @pytest.mark.parametrize("query", ["page=0", "page=x", "page=99", "retained=-1", "page=%00"])
    def test_a_page_that_does_not_exist_is_the_nearest_one(self, admin_client, conversation, query):
        assert "question 0" in html(admin_client, f"{page(conversation)}?{query}")


class TestHostileText:
    EVIL = "<script>alert(1)</script> <img src=x onerror=alert(1)> \u202egnp.exe"

    @pytest.fixture
    def hostile(self):
        owner = UserFactory(username=self.EVIL)
        conversation = ConversationFactory(
            owner=owner, memory_id=self.EVIL, title=self.EVIL, window="messages", limit=5, model=self.EVIL
        )
        request = ToolExecutionRequest(self.EVIL, self.EVIL, json.dumps({self.EVIL: self.EVIL}))
        conversation.memory.add(
            SystemMessage(self.EVIL),
            UserMessage(self.EVIL, name=self.EVIL, attributes={self.EVIL: self.EVIL}),
            AiMessage(self.EVIL, [request], thinking=self.EVIL),
            ToolExecutionResultMessage(self.EVIL, self.EVIL, self.EVIL),
            CustomMessage({self.EVIL: self.EVIL}),
            UserMessage(contents=[ImageContent(base64_data=self.EVIL, mime_type=self.EVIL)]),
        )
        return conversation

    @pytest.mark.parametrize("action", ["change", "delete", "history"])
    def test_is_text_on_every_page(self, admin_client, hostile, action):
        for url in (LIST, page(hostile, action)):
            shown = html(admin_client, url)
            assert "<script>alert" not in shown
            assert "<img src=x" not in shown
            assert "&lt;script&gt;alert(1)" in shown

    def test_cannot_turn_the_text_around_it_around(self, admin_client, hostile):
        shown = own_part(html(admin_client, page(hostile)))
        for found in re.finditer("\u202e", shown):
            before = shown[: found.start()]
            opened = before[before.rindex("<") :]
            assert re.match(r'<(bdi|code|div class="chatmemory-text|p class="chatmemory-url)', opened), opened

    def test_needs_no_inline_script_or_style(self, admin_client, hostile):
        shown = own_part(html(admin_client, page(hostile)))
        assert "<script" not in shown
        assert "<style" not in shown
        assert not re.search(r"<[^>]*\s(style|on\w+)=", shown)


class TestPermissions:
    @pytest.mark.parametrize("action", ["change", "delete", "history"])
    def test_staff_without_any_gets_403(self, staff, conversation, action):
        client = staff()
        assert client.get(LIST).status_code == 403
        assert client.get(page(conversation, action)).status_code == 403

    def test_viewing_is_enough_to_read_and_not_to_delete(self, staff, conversation):
        client = staff("view_conversation")
        assert "question 2" in html(client, page(conversation))
        assert "deletelink" not in html(client, page(conversation))
        assert client.post(page(conversation, "delete"), {"post": "yes"}).status_code == 403
        assert Conversation.objects.count() == 1

    def test_the_stock_history_is_linked(self, staff, conversation):
        client = staff("view_conversation")
        assert page(conversation, "history") in html(client, page(conversation))
        assert "About tea" in html(client, page(conversation, "history"))

    def test_nobody_edits_or_adds(self, admin_client, conversation):
        before = Conversation.objects.values().get(), list(Message.objects.order_by("pk").values())
        assert admin_client.post(page(conversation), {"title": "Mine", "limit": 1}).status_code == 403
        assert admin_client.post(f"{LIST}add/", {"title": "Mine"}).status_code == 403
        assert admin_client.get(f"{LIST}add/").status_code == 403
        assert (Conversation.objects.values().get(), list(Message.objects.order_by("pk").values())) == before
        shown = own_part(html(admin_client, page(conversation)))
        assert not re.search(r"<(input|textarea|select|button)\b", shown)

    def test_an_unknown_conversation_leads_back(self, admin_client):
        url = reverse("admin:chatmemory_conversation_change", args=["nothing"])
        assert admin_client.get(url).status_code == 302


class TestDeletion:
    @pytest.mark.parametrize("superuser", [True, False])
    def test_takes_the_messages_along(self, staff, admin_user, conversation, superuser):
        client = staff("view_conversation", "delete_conversation")
        if superuser:
            client.force_login(admin_user)
        asked = html(client, page(conversation, "delete"))
        assert "Messages: 6" in words(asked)
        response = client.post(page(conversation, "delete"), {"post": "yes"})
        assert response.status_code == 302
        assert not Conversation.objects.exists()
        assert not Message.objects.exists()

    def test_works_for_several_at_once(self, staff, conversation):
        client = staff("view_conversation", "delete_conversation")
        chosen = {"action": "delete_selected", "_selected_action": [str(conversation.pk)]}
        assert "Messages: 6" in words(client.post(LIST, chosen).content.decode())
        client.post(LIST, {**chosen, "post": "yes"})
        assert not Conversation.objects.exists()
        assert not Message.objects.exists()

    def test_the_confirmation_lists_a_few_of_many_messages(self, admin_client):
        conversation = ConversationFactory()
        conversation.memory.add(*[UserMessage(f"message {index}") for index in range(50)])
        asked = words(html(admin_client, page(conversation, "delete")))
        assert asked.count("USER: message") == 20
        assert "… and 30 more" in asked


class TestJsonLayout:
    @pytest.mark.parametrize(
        ("text", "laid_out"),
        [
            ("", ""),
            ("plain", "plain"),
            ('{"a": NaN}', '{"a": NaN}'),
            ("[]", "[]"),
            ('{ "a" : { } , "b" : [ ] }', '{\n  "a": {},\n  "b": []\n}'),
            ('{"a":1,"a":2.50e0}', '{\n  "a": 1,\n  "a": 2.50e0\n}'),
            (r'["{\"x\":1}, ]"]', '[\n  "{\\"x\\":1}, ]"\n]'),
            (r'"\u4f60\u597d"', '"你好"'),
            (r'"\u202e\ud800"', r'"\u202e\ud800"'),
        ],
    )
    def test_keeps_what_was_written(self, text, laid_out):
        assert lay_out(text) == laid_out

    def test_does_not_blow_up_what_is_nested_deep(self):
        text = "[" * 400 + "]" * 400
        assert len(lay_out(text)) < 30 * len(text)
        assert lay_out("[" * 100_000) == "[" * 100_000
