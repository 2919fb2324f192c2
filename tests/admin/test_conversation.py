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
from chatmemory.admin.display.message import lay_out
from chatmemory.models import Conversation, Message
from tests.support.factories import ConversationFactory, UserFactory

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
    return text[text.index('<div id="content-main">') : text.index('id="footer"')]


def timeline(text):
    """The text of the timeline, as a reader sees it."""
    found = re.search(r'<section[^>]* id="timeline".*?</section>', text, re.DOTALL)
    return words(found[0])


def history(client, conversation):
    """Everything said, as a reader sees it."""
    return timeline(html(client, page(conversation) + "?view=history"))


def words(text):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


def without_values(text):
    """The page with an empty value in place of each first words of a bar, which are no text of the page."""
    return re.sub(' data-words="[^"]*"', ' data-words=""', text)


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
    @pytest.mark.parametrize(
        ("query", "is_found"),
        [
            ("fullness=full", True),
            ("fullness=high", True),
            ("fullness=low", False),
            ("fullness=empty", False),
            ("evicted=yes", True),
            ("evicted=no", False),
            ("q=answer 0", True),
            ("q=nobody said this", False),
        ],
    )
    def test_is_filtered_and_searched(self, admin_client, conversation, query, is_found):
        assert ("About tea" in html(admin_client, f"{LIST}?{query}")) == is_found

    def test_shows_who_what_and_how_full(self, admin_client, conversation):
        shown = words(html(admin_client, LIST))
        assert "About tea tea-7 answer 2 marta 4 of 4 messages 4 2" in shown

    def test_a_conversation_without_title_goes_by_its_memory_id(self, admin_client):
        ConversationFactory(owner=None, memory_id="untitled-1", title="", window="tokens", limit=1200)
        shown = words(html(admin_client, LIST))
        assert "untitled-1 no owner 0 of 1,200 tokens 0 0" in shown

    @pytest.mark.slow
    def test_its_queries_do_not_grow_with_the_conversations(self, admin_client, conversation):
        html(admin_client, LIST)  # a process reads the content types once
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
        assert shown.startswith("Owner marta Memory ID tea-7 Window 4 of 4 messages 100% Last activity")
        assert "4 of 4 messages 100 percent of the window in use" in shown
        assert "Messages said 6 Tokens retained" in shown
        assert "Tokens counted for gpt-4o" in shown
        assert "Version 3 Created" in shown

    def test_its_title_is_the_conversations_and_stands_once(self, admin_client, conversation):
        shown = html(admin_client, page(conversation))
        assert [words(title) for title in re.findall(r"<h1\b.*?</h1>", shown, re.DOTALL)] == ["About tea"]
        assert "About tea" not in own_part(shown)

    @pytest.mark.slow
    def test_its_owner_leads_to_their_conversations(self, admin_client, conversation):
        assert f'href="{LIST}?owner={conversation.owner_id}"' in html(admin_client, page(conversation))
        ownerless = ConversationFactory(owner=None)
        assert "Owner no owner" in words(html(admin_client, page(ownerless)))

    def test_tells_retained_from_evicted_and_why(self, admin_client, conversation):
        shown = html(admin_client, page(conversation) + "?view=history")
        before, _, after = timeline(shown).partition("The memory begins here")
        assert re.findall(r"(?:question|answer) \d", after) == ["question 1", "answer 1", "question 2", "answer 2"]
        assert set(re.findall(r"(?:question|answer) \d", before)) == {"question 0", "answer 0"}
        assert "2 pushed out by" not in before
        row = conversation.messages.get(position=0)
        assert (
            f"{row.token_count} tokens question 0 Evicted pushed out by messages 4 to 5 in version {row.evicted_in}"
        ) in before
        assert shown.count('<details class="chatmemory-folded"') == 2
        assert "Evicted" not in after

    def test_adds_up_the_tokens_of_the_memory(self, admin_client, conversation):
        tokens = list(conversation.messages.retained().values_list("token_count", flat=True))
        shown = history(admin_client, conversation)
        totals = [int(total) for total in re.findall(r"running total (\d+)", shown)]
        assert totals == [sum(tokens[: index + 1]) for index in range(4)]

    def test_says_which_message_pushed_one_out_only_if_one_did(self, admin_client):
        conversation = ConversationFactory(window="messages", limit=3)
        conversation.memory.add(UserMessage("a"), UserMessage("b"), UserMessage("c"))
        conversation.memory.set_window(limit=2)
        conversation.memory.add(UserMessage("d"))
        conversation.memory.clear()
        shown = history(admin_client, conversation)
        assert re.findall(r"Evicted pushed out by message (\d)", shown) == ["3"]
        assert shown.index("pushed out") > shown.index("1 User b")
        assert "The memory is empty: the model gets nothing." in shown

    def test_a_system_message_in_front_is_not_where_the_memory_begins(self, admin_client):
        conversation = ConversationFactory(window="messages", limit=2)
        conversation.memory.add(SystemMessage("rules"), *(UserMessage(f"m{number}") for number in range(4)))
        shown = history(admin_client, conversation)
        assert shown.index("rules") < shown.index("m2") < shown.index("The memory begins here") < shown.index("m3")

    def test_an_empty_conversation_says_so(self, admin_client):
        shown = html(admin_client, page(ConversationFactory()) + "?view=history")
        assert "Nothing was said yet." in timeline(shown)
        assert "chatmemory-strip" not in own_part(shown)

    def test_says_that_evicted_messages_were_not_kept(self, admin_client, settings):
        settings.CHATMEMORY = {"KEEP_HISTORY": False}
        conversation = ConversationFactory(window="messages", limit=1)
        conversation.memory.add(UserMessage("one"))
        conversation.memory.clear()
        assert "were not kept" in history(admin_client, conversation)

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
        shown = unescape(html(admin_client, page(conversation) + "?view=history"))
        assert '>{\n  "city": "Oslo",\n  "days": [\n    1,\n    2\n  ]\n}<' in shown
        assert '>{"city":<' in shown
        assert 'Calls weather(city="Oslo", days=[1, 2]) call_1' in timeline(shown)
        assert "Tool result weather error" in timeline(shown)
        assert "Answers the call call_1 no such city" in timeline(shown)
        assert shown.count(" chatmemory-answer") == 1

    def test_thinking_attributes_names_and_custom_messages_are_there(self, admin_client):
        conversation = ConversationFactory()
        conversation.memory.add(
            UserMessage("hello", name="theo"),
            AiMessage("done", thinking="first I think", attributes={"mood": "calm"}),
            CustomMessage({"card": 7}),
        )
        shown = history(admin_client, conversation)
        assert "User theo" in shown
        assert 'Thinking first I think done Attributes { "mood": "calm" }' in shown
        assert "Custom" in shown
        assert '"card": 7' in shown

    def test_an_answer_that_was_stopped_is_marked(self, admin_client):
        conversation = ConversationFactory()
        conversation.memory.add(
            UserMessage("hello"),
            AiMessage("once upon", attributes={"stopped": True}),
            AiMessage("a time", attributes={"stopped": True, "mood": "calm"}),
            AiMessage("whole", attributes={"stopped": "no"}),
        )
        shown = history(admin_client, conversation)
        assert shown.count("AI stopped") == 2
        assert re.findall(r"Attributes (\{.*?\})", shown) == ['{ "mood": "calm" }', '{ "stopped": "no" }']

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
        shown = html(admin_client, page(conversation) + "?view=history")
        shown = shown[shown.index('id="timeline"') :]
        assert "https://evil.example/pixel.png" in shown
        assert not re.search(r"<(img|audio|video|iframe|object|embed|link)\b", shown)
        assert not re.search(r"""(src|href|data)=["'](?!\?position=|\?go=)[^"'#/]""", shown)
        assert "QUJDQUJD" not in shown
        text = words(shown)
        assert "Image image/png 2.9 KB, stored as Base64" in text.replace("\xa0", " ")
        assert "Audio No data or URL." in text
        assert "PDF file application/pdf https://evil.example/a.pdf" in text

    def test_synthetic_messages_are_marked(self, admin_client, conversation):
        conversation.memory.set([UserMessage("a summary")])
        shown = history(admin_client, conversation)
        assert "User synthetic" in shown
        assert "dropped by a rewrite" in shown

    def test_a_long_text_scrolls_and_can_be_focused(self, admin_client):
        conversation = ConversationFactory()
        conversation.memory.add(UserMessage("short"), UserMessage("long " * 1000))
        shown = own_part(html(admin_client, page(conversation)))
        assert shown.count('tabindex="0" role="group" aria-label="Text"') == 1

    def test_a_row_that_cannot_be_read_does_not_hide_the_others(self, admin_client, conversation):
        Message.objects.filter(conversation=conversation, position=4).update(payload="{broken")
        shown = history(admin_client, conversation)
        assert "This message cannot be read" in shown
        assert "answer 2" in shown


class TestWhatTheModelSaw:
    def address(self, conversation, query=""):
        return page(conversation, "memory") + query

    def test_any_version(self, admin_client, conversation):
        shown = words(html(admin_client, self.address(conversation, "?version=1")))
        assert "The memory at version 1 2 messages" in shown
        assert "question 0" in shown
        assert "question 1" not in shown
        assert "Evicted:" not in shown

    def test_each_answer_leads_there(self, admin_client, conversation):
        shown = html(admin_client, page(conversation))
        # The last one first, and all where they stand.
        assert re.findall(rf'href="{self.address(conversation)}\?answer=(\d)"', shown) == ["5", "1", "3", "5"]

    def test_any_message(self, admin_client, conversation):
        shown = words(html(admin_client, self.address(conversation, "?message=3")))
        assert "The memory at version 2 4 messages" in shown

    @pytest.mark.slow
    def test_now_by_default_and_when_the_question_is_wrong(self, admin_client, conversation):
        for query in ("", "?version=99", "?version=x", "?message=99", "?message=-1", f"?version={'9' * 5000}"):
            shown = words(html(admin_client, self.address(conversation, query)))
            assert "The memory at version 3 4 messages" in shown
            assert ("there is no " in shown) == bool(query)

    def test_json_to_copy(self, admin_client, conversation):
        shown = unescape(html(admin_client, self.address(conversation, "?version=1")))
        areas = re.findall(r"<textarea[^>]*>(.*?)</textarea>", shown, re.DOTALL)
        langchain4j, openai, responses, anthropic, gemini, ai_sdk = map(json.loads, areas)
        assert [message["type"] for message in langchain4j] == ["USER", "AI"]
        said = [{"role": "user", "content": "question 0"}, {"role": "assistant", "content": "answer 0"}]
        assert openai == responses == anthropic["messages"] == said
        assert [content["role"] for content in gemini["contents"]] == ["user", "model"]
        assert [message["role"] for message in ai_sdk] == ["user", "assistant"]

    @pytest.mark.parametrize("name", ["openai", "openai-responses", "anthropic", "gemini"])
    def test_json_to_copy_is_what_can_be_sent(self, admin_client, name):
        conversation = ConversationFactory()
        conversation.memory.add(UserMessage("x"), ToolExecutionResultMessage("1", "look_up", "A cat."))
        answer = admin_client.get(self.address(conversation, f"?download={name}"))
        assert "A cat." not in answer.content.decode()
        assert json.loads(answer.content) == conversation.memory.to_format(name)

    def test_what_openai_cannot_express_is_said(self, admin_client):
        conversation = ConversationFactory()
        conversation.memory.add(CustomMessage({"a": 1}))
        shown = words(unescape(html(admin_client, self.address(conversation))))
        for name in ("OpenAI", "Anthropic", "Gemini"):
            assert f"This format cannot express it: message 0 (CUSTOM): {name} has no such messages" in shown


class TestActs:
    @pytest.mark.slow
    def test_clearing_is_confirmed_and_logged(self, admin_client, conversation):
        assert "4 messages will be evicted" in words(html(admin_client, page(conversation, "clear")))
        assert conversation.messages.retained().count() == 4
        done = admin_client.post(page(conversation, "clear"), follow=True)
        assert "The memory was cleared; 4 messages were evicted." in words(done.content.decode())
        assert conversation.memory.messages() == []
        assert conversation.messages.history().count() == 6
        assert "The memory was cleared" in words(html(admin_client, page(conversation, "history")))

    def test_clearing_several(self, admin_client, conversation):
        chosen = {"action": "clear_memories", "_selected_action": [str(conversation.pk)]}
        asked = admin_client.post(LIST, chosen).content.decode()
        assert "4 messages will be evicted" in words(asked)
        assert conversation.messages.retained().count() == 4
        admin_client.post(LIST, {**chosen, "confirmed": "yes"})
        assert conversation.messages.retained().count() == 0
        assert "The memory was cleared" in words(html(admin_client, page(conversation, "history")))

    def test_exports(self, admin_client, conversation):
        lines = admin_client.get(page(conversation, "export_jsonl"))
        assert "attachment" in lines["Content-Disposition"]
        _settings, *rows, _end = [json.loads(line) for line in lines.getvalue().decode().splitlines()]
        assert [row["position"] for row in rows] == list(range(6))
        assert [rows[place]["eviction_reason"] for place in (0, 5)] == ["window", ""]
        openai = json.loads(admin_client.get(page(conversation, "export_openai")).getvalue())
        assert openai[0] == {"role": "user", "content": "question 0"}
        langchain4j = json.loads(admin_client.get(page(conversation, "export_langchain4j")).getvalue())
        assert [message["type"] for message in langchain4j] == ["USER", "AI"] * 3
        logged = words(html(admin_client, page(conversation, "history")))
        for what in ("Exported as JSON lines", "Exported for OpenAI", "Exported for LangChain4j"):
            assert what in logged

    def test_exporting_several(self, admin_client, conversation):
        other = ConversationFactory()
        other.memory.add(UserMessage("other"))
        chosen = {"action": "export_selected", "_selected_action": [str(conversation.pk), str(other.pk)]}
        rows = [json.loads(line) for line in admin_client.post(LIST, chosen).getvalue().decode().splitlines()]
        assert {row["conversation"] for row in rows} == {str(conversation.pk), str(other.pk)}
        assert len(rows) == 1 + 6 + 1 + 1 + 1 + 1

    def test_what_openai_cannot_express_is_not_exported_in_part(self, admin_client):
        conversation = ConversationFactory()
        conversation.memory.add(UserMessage("x"), CustomMessage({"a": 1}))
        answer = admin_client.get(page(conversation, "export_openai"))
        assert answer.status_code == 409
        assert "cannot hold the message at position 1 (Custom)" in words(answer.content.decode())


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

    @pytest.mark.slow
    @pytest.mark.parametrize("action", ["change", "delete", "history"])
    def test_is_text_on_every_page(self, admin_client, hostile, action):
        for url in (LIST, page(hostile, action)):
            shown = html(admin_client, url)
            assert "<script>alert" not in shown
            assert "<img src=x" not in shown
            assert "&lt;script&gt;alert(1)" in shown

    def test_cannot_turn_the_text_around_it_around(self, admin_client, hostile):
        shown = without_values(own_part(html(admin_client, page(hostile))))
        for found in re.finditer("\u202e", shown):
            before = shown[: found.start()]
            opened = before[before.rindex("<") :]
            assert re.match(r'<(bdi|code|div class="chatmemory-text|p class="chatmemory-url)', opened), opened

    @pytest.mark.slow
    def test_needs_no_inline_script_or_style(self, admin_client, hostile):
        shown = own_part(html(admin_client, page(hostile)))
        assert "<script" not in shown
        assert "<style" not in shown
        assert not re.search(r"<[^>]*\s(style|on\w+)=", without_values(shown))


class TestPermissions:
    @pytest.mark.parametrize("action", ["change", "delete", "history"])
    def test_staff_without_any_gets_403(self, staff, conversation, action):
        client = staff()
        assert client.get(LIST).status_code == 403
        assert client.get(page(conversation, action)).status_code == 403

    @pytest.mark.slow
    def test_viewing_shows_shapes_and_reasons_but_no_words(self, staff, conversation):
        client = staff("view_conversation")
        for address in (
            page(conversation),
            page(conversation, "memory"),
            page(conversation, "window") + "?1-window=messages&1-limit=2",
            f"{LIST}?q=question",
        ):
            shown = html(client, address)
            assert not re.search(r"question \d|answer \d", shown)
        shown = history(client, conversation)
        assert "You have no permission to read what it says." in shown
        assert "pushed out by messages 4 to 5" in shown
        assert f"{conversation.messages.first().token_count} tokens" in shown
        for name in ("export_jsonl", "export_openai", "export_langchain4j", "clear"):
            assert client.get(page(conversation, name)).status_code == 403
        for name in ("export_jsonl", "export_openai", "export_langchain4j", "window", "clear"):
            assert client.post(page(conversation, name)).status_code == 403
        assert "Export" not in words(html(client, page(conversation)))
        chosen = {"_selected_action": [str(conversation.pk)]}
        for action in ("export_selected", "clear_memories"):
            client.post(LIST, {**chosen, "action": action, "confirmed": "yes"})
        assert conversation.messages.retained().count() == 4

    @pytest.mark.slow
    def test_reading_is_a_permission_of_its_own(self, staff, conversation):
        client = staff("view_conversation", "read_message_text")
        assert "question 2" in html(client, page(conversation))
        assert "About tea" in html(client, f"{LIST}?q=question")
        assert client.get(page(conversation, "export_jsonl")).status_code == 200
        assert client.get(page(conversation, "clear")).status_code == 403

    def test_acting_is_another_and_reads_nothing(self, staff, conversation):
        client = staff("view_conversation", "change_conversation")
        assert client.get(page(conversation, "clear")).status_code == 200
        assert client.get(page(conversation, "export_jsonl")).status_code == 403
        assert "question 2" not in html(client, page(conversation))

    def test_viewing_is_not_enough_to_delete(self, staff, conversation):
        client = staff("view_conversation", "read_message_text")
        assert "Erase" not in words(html(client, page(conversation)))
        assert client.post(page(conversation, "delete"), {"post": "yes"}).status_code == 403
        assert Conversation.objects.count() == 1

    def test_the_stock_history_is_linked(self, staff, conversation):
        client = staff("view_conversation")
        assert page(conversation, "history") in html(client, page(conversation))
        assert "About tea" in html(client, page(conversation, "history"))

    @pytest.mark.slow
    def test_nobody_edits_or_adds(self, admin_client, staff, conversation):
        before = Conversation.objects.values().get(), list(Message.objects.order_by("pk").values())
        assert admin_client.post(page(conversation), {"title": "Mine", "limit": 1}).status_code == 403
        assert admin_client.post(f"{LIST}add/", {"title": "Mine"}).status_code == 403
        assert admin_client.get(f"{LIST}add/").status_code == 403
        assert (Conversation.objects.values().get(), list(Message.objects.order_by("pk").values())) == before
        shown = own_part(html(admin_client, page(conversation)))
        # Messages can be pinned, and that is all.
        assert not re.search(r"<(input(?! type=.hidden.)|textarea|select|button(?!.* class=.chatmemory-pin.))\b", shown)
        shown = own_part(html(staff("view_conversation"), page(conversation)))
        assert not re.search(r"<(input|textarea|select|button)\b", shown)

    def test_an_unknown_conversation_leads_back(self, admin_client):
        url = reverse("admin:chatmemory_conversation_change", args=["nothing"])
        assert admin_client.get(url).status_code == 302


class TestMessages:
    MESSAGES = "/admin/chatmemory/message/"

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("", 6),
            ("state=retained", 4),
            ("state=evicted", 2),
            ("eviction_reason__exact=window", 2),
            ("eviction_reason__exact=cleared", 0),
            ("type__exact=AI", 3),
            ("q=question", 3),
            ("q=marta", 6),
            ("owner=0", 0),
            ("q=nobody", 0),
        ],
    )
    def test_are_searched_and_filtered(self, admin_client, conversation, query, found):
        shown = html(admin_client, f"{self.MESSAGES}?{query}")
        assert len(re.findall(r'<th class="field-place"', shown)) == found

    def test_an_owner_leads_to_their_messages(self, admin_client, conversation):
        ConversationFactory().memory.add(UserMessage("someone else's"))
        link = f"?owner={conversation.owner_id}"
        assert f'href="{link}"' in html(admin_client, self.MESSAGES)
        shown = html(admin_client, self.MESSAGES + link)
        assert len(re.findall(r'<th class="field-place"', shown)) == 6

    def test_each_leads_to_its_place(self, admin_client, conversation):
        row = conversation.messages.get(position=3)
        answer = admin_client.get(f"{self.MESSAGES}{row.pk}/change/")
        assert answer["Location"] == f"{page(conversation)}?position=3#message-3"

    @pytest.mark.slow
    def test_its_queries_do_not_grow(self, admin_client, conversation):
        html(admin_client, self.MESSAGES)  # a process reads the content types once
        with CaptureQueriesContext(connection) as before:
            html(admin_client, self.MESSAGES)
        for index in range(5):
            ConversationFactory().memory.add(UserMessage(f"more {index}"), AiMessage("x"))
        with CaptureQueriesContext(connection) as after:
            html(admin_client, self.MESSAGES)
        assert len(after) == len(before)

    def test_without_the_permission_to_read_there_are_no_words(self, staff, conversation):
        client = staff("view_message", "view_conversation")
        shown = html(client, self.MESSAGES)
        assert "question" not in shown
        assert "About tea" in shown
        assert len(re.findall('<th class="field-place"', html(client, f"{self.MESSAGES}?q=question"))) == 0

    def test_nobody_edits_adds_or_deletes(self, admin_client, conversation):
        row = conversation.messages.first()
        assert admin_client.get(f"{self.MESSAGES}add/").status_code == 403
        assert admin_client.post(f"{self.MESSAGES}{row.pk}/delete/", {"post": "yes"}).status_code == 403
        admin_client.post(f"{self.MESSAGES}{row.pk}/change/", {"text": "mine"})
        row.refresh_from_db()
        assert row.text == "question 0"


class TestDeletion:
    @pytest.mark.parametrize("superuser", [True, False])
    def test_takes_the_messages_along(self, staff, admin_user, conversation, superuser):
        client = staff("view_conversation", "delete_conversation")
        if superuser:
            client.force_login(admin_user)
        asked = html(client, page(conversation, "delete"))
        assert "6 messages will be lost" in words(asked)
        response = client.post(page(conversation, "delete"), {"post": "yes"})
        assert response.status_code == 302
        assert not Conversation.objects.exists()
        assert not Message.objects.exists()

    def test_of_a_user_takes_everything_along(self, staff, conversation):
        conversation.memory.add(UserMessage("x"), idempotency_key="k")
        client = staff("view_user", "delete_user", "delete_conversation")
        client.post(f"/admin/auth/user/{conversation.owner_id}/delete/", {"post": "yes"})
        assert not Conversation.objects.exists()
        assert not Message.objects.exists()

    def test_works_for_several_at_once(self, staff, conversation):
        client = staff("view_conversation", "delete_conversation")
        chosen = {"action": "delete_selected", "_selected_action": [str(conversation.pk)]}
        assert "6 messages will be lost" in words(client.post(LIST, chosen).content.decode())
        client.post(LIST, {**chosen, "confirmed": "yes"})
        assert not Conversation.objects.exists()
        assert not Message.objects.exists()


class TestJsonLayout:
    @pytest.mark.parametrize(
        ("text", "laid_out"),
        [
            ("", ""),
            ("plain", "plain"),
            ('{"a": NaN}', '{"a": NaN}'),
            ("[]", "[]"),
            ('{ "a" : { } , "b" : [ ] }', '{\n  "a": {},\n  "b": []\n}'),
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
