"""What the admin has for windows that keep the prompt cache: pins, marks and cleared tool results."""

# ruff: noqa: F811

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import translation

from chatmemory import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.database import operations
from chatmemory.models import Conversation, Message
from tests.admin.test_acts import logged
from tests.admin.test_conversation import conversation, html, own_part, page, staff, timeline, words  # noqa: F401
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db


def call(name: str, id: str) -> AiMessage:
    return AiMessage(None, [ToolExecutionRequest(id, name, "{}")])


def result(name: str, id: str, text: str = "so much " * 40) -> ToolExecutionResultMessage:
    return ToolExecutionResultMessage(id, name, text)


@pytest.fixture
def agent() -> Conversation:
    """Three turns, each with a call and a long result at the positions 2, 6 and 10; nothing has left."""
    made: Conversation = ConversationFactory(title="Agent")
    for number, tool in enumerate(("weather", "stocks", "weather")):
        made.memory.add(
            UserMessage(f"question {number}"),
            call(tool, f"call_{number}"),
            result(tool, f"call_{number}"),
            AiMessage(f"answer {number}"),
        )
    made.refresh_from_db()
    return made


def post(client: Client, made: Conversation, action: str, **data: Any) -> str:
    """What the timeline says after an act."""
    answer = client.post(page(made, action), data, follow=True)
    assert answer.status_code == 200
    return words(answer.content.decode())


def hidden(shown: str) -> dict[str, list[str]]:
    """The hidden fields of the page's form that is posted."""
    form = re.search(r'<form method="post" class="chatmemory-confirm">.*?</form>', shown, re.DOTALL)
    assert form is not None
    fields: dict[str, list[str]] = {}
    for tag in re.findall(r'<input type="hidden"[^>]*>', form[0]):
        name, value = re.search(r'name="([^"]+)"', tag), re.search(r'value="([^"]*)"', tag)
        assert name is not None
        fields.setdefault(name[1], []).append(unescape(value[1]) if value else "")
    return fields


def pins_form(shown: str) -> dict[str, str]:
    """What the form of the buttons to pin sends of itself."""
    form = re.search(r'<form method="post"[^>]* id="chatmemory-pins">.*?</form>', shown, re.DOTALL)
    assert form is not None
    return dict(re.findall(r'<input type="hidden" name="(view)" value="([^"]*)">', form[0]))


class TestPinning:
    @pytest.mark.slow
    def test_pins_and_unpins_and_says_and_logs_it(self, admin_client: Client, conversation: Conversation) -> None:
        assert "Pinned message 4." in post(admin_client, conversation, "pin", position="4")
        assert [row.position for row in conversation.messages.pinned()] == [4]
        assert "Unpinned message 4." in post(admin_client, conversation, "unpin", position="4")
        assert not conversation.messages.pinned().exists()
        assert logged() == ["Pinned message 4.", "Unpinned message 4."]

    def test_returns_to_the_message(self, admin_client: Client, conversation: Conversation) -> None:
        answer = admin_client.post(page(conversation, "pin"), {"position": "4"})
        assert answer["Location"] == f"{page(conversation)}?position=4#message-4"

    @pytest.mark.slow
    @pytest.mark.parametrize("action", ["pin", "unpin"])
    @pytest.mark.parametrize(
        ("read_on", "returns_to"),
        [
            ("", "#message-4"),
            ("?view=history", "?position=4#message-4"),
            ("?position=4", "?position=4#message-4"),
        ],
    )
    def test_returns_to_the_view_in_which_it_was_pressed(
        self, admin_client: Client, conversation: Conversation, action: str, read_on: str, returns_to: str
    ) -> None:
        if action == "unpin":
            conversation.memory.pin(4)
        form = pins_form(html(admin_client, page(conversation) + read_on))
        answer = admin_client.post(page(conversation, action), {**form, "position": "4"})
        assert answer["Location"] == page(conversation) + returns_to
        shown = admin_client.get(answer["Location"]).content.decode()
        assert 'id="message-4"' in shown
        assert pins_form(shown) == form

    def test_returns_to_the_memory_with_what_is_wrong(self, admin_client: Client, conversation: Conversation) -> None:
        answer = admin_client.post(page(conversation, "pin"), {"position": "0", "view": "memory"})
        assert answer["Location"] == f"{page(conversation)}#message-0"
        assert "Message 0 is not in the memory" in words(html(admin_client, page(conversation)))

    @pytest.mark.parametrize("name", ["view", "next"])
    @pytest.mark.parametrize("address", ["https://evil.example/", "//evil.example", "javascript:alert(1)"])
    def test_returns_to_no_address_that_is_sent(
        self, admin_client: Client, conversation: Conversation, name: str, address: str
    ) -> None:
        answer = admin_client.post(
            page(conversation, "pin"), {"position": "4", name: address}, headers={"Referer": address}
        )
        assert answer["Location"] == f"{page(conversation)}?position=4#message-4"

    @pytest.mark.slow
    def test_what_changes_nothing_is_not_logged(self, admin_client: Client, conversation: Conversation) -> None:
        conversation.memory.pin(4)
        assert "Message 4 is pinned already." in post(admin_client, conversation, "pin", position="4")
        assert "Message 5 is not pinned." in post(admin_client, conversation, "unpin", position="5")
        assert logged() == []

    def test_too_many_are_refused_in_words(self, admin_client: Client, conversation: Conversation) -> None:
        for position in (2, 3):
            conversation.memory.pin(position)
        shown = post(admin_client, conversation, "pin", position="4")
        assert "would take 3 of 4 messages, more than half. Unpin some, or choose a limit of at least 6." in shown
        assert conversation.messages.pinned().count() == 2
        assert logged() == []

    @pytest.mark.parametrize("action", ["pin", "unpin"])
    def test_what_left_the_memory_cannot_be(
        self, admin_client: Client, conversation: Conversation, action: str
    ) -> None:
        shown = post(admin_client, conversation, action, position="0")
        assert "Message 0 is not in the memory: it can be neither pinned nor unpinned." in shown
        assert logged() == []

    @pytest.mark.parametrize("position", ["", "x", "-1", "9" * 30])
    def test_what_is_no_position_is_not_found(
        self, admin_client: Client, conversation: Conversation, position: str
    ) -> None:
        assert admin_client.post(page(conversation, "pin"), {"position": position}).status_code == 404

    def test_an_unreadable_message_is_named(self, admin_client: Client, conversation: Conversation) -> None:
        Message.objects.filter(conversation=conversation, position=3).update(payload="{broken")
        shown = post(admin_client, conversation, "pin", position="4")
        assert "Nothing was changed, because messages cannot be read: 3" in shown

    def test_a_memory_that_is_too_long_is_left_alone(
        self, admin_client: Client, conversation: Conversation, settings: Any
    ) -> None:
        settings.CHATMEMORY = {"MAX_MEMORY_CHARS": 10}
        assert "too long to pin messages here" in post(admin_client, conversation, "pin", position="4")
        assert not conversation.messages.pinned().exists()

    @pytest.mark.parametrize("action", ["pin", "unpin"])
    def test_is_for_those_who_may_change(self, staff: Any, conversation: Conversation, action: str) -> None:
        client = staff("view_conversation", "read_message_text", "delete_conversation")
        assert client.post(page(conversation, action), {"position": "4"}).status_code == 403
        assert "chatmemory-pin" not in own_part(html(client, page(conversation)))
        assert Conversation.objects.get().version == conversation.version

    @pytest.mark.parametrize("action", ["pin", "unpin"])
    def test_a_link_does_nothing(self, admin_client: Client, conversation: Conversation, action: str) -> None:
        assert admin_client.get(page(conversation, action), {"position": "4"}).status_code == 405

    def test_asks_for_a_token(self, admin_user: Any, conversation: Conversation) -> None:
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(admin_user)
        assert strict.post(page(conversation, "pin"), {"position": "4"}).status_code == 403
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', html(strict, page(conversation)))
        assert token is not None
        done = strict.post(page(conversation, "pin"), {"position": "4", "csrfmiddlewaretoken": token[1]})
        assert done.status_code == 302

    def test_is_logged_in_the_language_of_the_site(self, admin_client: Client, conversation: Conversation) -> None:
        with translation.override("ja"):
            admin_client.post(page(conversation, "pin"), {"position": "4"})
        assert logged() == ["Pinned message 4."]

    def test_does_not_happen_if_it_cannot_be_logged(
        self, admin_client: Client, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*args: Any) -> None:
            raise RuntimeError

        monkeypatch.setattr("chatmemory.admin.ConversationAdmin.log_change", fail)
        with pytest.raises(RuntimeError):
            admin_client.post(page(conversation, "pin"), {"position": "4"})
        assert not conversation.messages.pinned().exists()

    @pytest.mark.parametrize("action", ["pin", "unpin", "clear_tool_results"])
    def test_what_was_erased_meanwhile_is_not_found(
        self, admin_client: Client, agent: Conversation, monkeypatch: pytest.MonkeyPatch, action: str
    ) -> None:
        change = getattr(operations, action)

        def late(*args: Any, **wanted: Any) -> Any:
            Conversation.objects.all().delete()
            return change(*args, **wanted)

        monkeypatch.setattr(operations, action, late)
        assert admin_client.post(page(agent, action), {"position": "4", "keep": "0"}).status_code == 404


class TestTimeline:
    def entry(self, client: Client, made: Conversation, position: int, address: str = "") -> str:
        shown = html(client, address or page(made) + f"?position={position}")
        found = re.search(rf'<article[^>]* aria-labelledby="title-{position}".*?</article>', shown, re.DOTALL)
        assert found is not None
        return found[0]

    @pytest.mark.slow
    def test_offers_what_can_be_done(self, admin_client: Client, conversation: Conversation) -> None:
        conversation.memory.pin(4)
        assert "pinned" in words(self.entry(admin_client, conversation, 4))
        assert words(self.entry(admin_client, conversation, 4)).count("Unpin") == 1
        assert "Pin" in words(self.entry(admin_client, conversation, 5)).split()
        assert "Pin" not in words(self.entry(admin_client, conversation, 0)).split()

    @pytest.mark.slow
    def test_a_cleared_result_leads_to_its_placeholder_and_back(
        self, admin_client: Client, agent: Conversation
    ) -> None:
        agent.memory.clear_tool_results(keep=1)
        agent.memory.clear_tool_results(keep=0)  # the last is of the turn under way
        original = self.entry(admin_client, agent, 6)
        assert "Evicted: old tool result, cleared message 13 took its place in version 4" in words(original)
        assert 'href="?position=13#message-13"' in original
        placeholder = self.entry(admin_client, agent, 13)
        assert "Tool result stocks placeholder" in words(placeholder)
        assert "Covers message 6" in words(placeholder)
        assert 'href="?position=6#message-6"' in placeholder

    def test_clearing_by_hand_was_pushed_by_no_message(self, admin_client: Client, agent: Conversation) -> None:
        agent.memory.clear_tool_results(keep=0)
        assert "pushed out" not in timeline(html(admin_client, page(agent) + "?view=history"))

    def test_what_pushed_a_result_out_is_the_message_and_not_the_placeholder(
        self, admin_client: Client, agent: Conversation
    ) -> None:
        agent.memory.set_window(limit=agent.retained_tokens + 3, keep_tool_results=0)
        agent.memory.add(UserMessage("question 3"))
        assert list(agent.messages.filter(origin="cleared").values_list("position", "covers_from")) == [
            (13, 2),
            (14, 6),
            (15, 10),
        ]
        shown = words(self.entry(admin_client, agent, 6))
        assert "pushed out by message 12 message 14 took its place" in shown

    def test_in_one_go_with_others_too(self, admin_client: Client, agent: Conversation) -> None:
        agent.memory.set_window(limit=agent.retained_tokens + 3, keep_tool_results=0)
        agent.memory.add(UserMessage("question 3"), AiMessage("answer 3"))
        assert "pushed out by messages 12 to 13 message 15 took its place" in words(self.entry(admin_client, agent, 6))

    def test_only_the_placeholder_is_said_to_stand_elsewhere(self, admin_client: Client, agent: Conversation) -> None:
        agent.memory.clear_tool_results(keep=0)
        shown = timeline(html(admin_client, page(agent) + "?view=history"))
        assert re.findall(r"number (\d+) in the memory", shown) == ["3", "7"]
        assert len(re.findall("running total", shown)) == 10

    def test_says_for_which_messages_one_stands(self, admin_client: Client, agent: Conversation) -> None:
        agent.memory.set([UserMessage("a summary"), *agent.memory.messages()[8:]])
        Message.objects.filter(text="a summary").update(covers_from=0, covers_to=7)
        shown = self.entry(admin_client, agent, 12)
        assert "User synthetic" in words(shown)
        assert "Covers messages 0–7" in words(shown)
        assert 'href="?position=0#message-0"' in shown

    def test_a_copy_is_called_one(self, admin_client: Client, agent: Conversation) -> None:
        Message.objects.filter(position=4).update(origin="copy")
        assert "User copy" in words(self.entry(admin_client, agent, 4))

    @pytest.mark.slow
    def test_placeholders_cost_a_fixed_number_of_statements(self, admin_client: Client, agent: Conversation) -> None:
        def statements() -> int:
            with CaptureQueriesContext(connection) as captured:
                html(admin_client, page(agent))
            return len(captured)

        agent.memory.clear_tool_results(keep=2)
        statements()
        before = statements()
        agent.memory.clear_tool_results(keep=0)
        assert statements() == before

    @pytest.mark.slow
    def test_the_strip_marks_what_is_pinned_and_what_is_a_placeholder(
        self, admin_client: Client, agent: Conversation
    ) -> None:
        for key in ("placeholder", "pinned"):
            assert f"chatmemory-key-{key}" not in html(admin_client, page(agent))
        agent.memory.clear_tool_results(keep=0)
        agent.memory.pin(9)
        shown = html(admin_client, page(agent))
        bars = {int(place): bar for place, bar in re.findall(r"<title>Message (\d+) (.*?)</a>", shown, re.DOTALL)}
        assert {place for place, bar in bars.items() if "chatmemory-bar-pinned" in bar} == {9}
        assert {place for place, bar in bars.items() if "chatmemory-bar-placeholder" in bar} == {12, 13}
        assert re.search("AI .* pinned</title>", bars[9])
        assert re.search("Tool result .* placeholder</title>", bars[12])
        for key in ("placeholder", "pinned"):
            assert f"chatmemory-key-{key}" in shown

    def test_a_past_memory_has_the_pins_of_then(self, admin_client: Client, conversation: Conversation) -> None:
        version = conversation.version
        conversation.memory.pin(4)
        conversation.memory.unpin(4)
        for after, is_pinned in ((0, False), (1, True), (2, False)):
            address = f"{page(conversation, 'memory')}?version={version + after}"
            shown = words(self.entry(admin_client, conversation, 4, address))
            assert ("pinned" in shown) == is_pinned
            assert "Unpin" not in shown

    @pytest.mark.slow
    def test_the_facts_say_how_the_window_evicts(self, admin_client: Client, agent: Conversation) -> None:
        agent.memory.set_window(low_water=70, whole_turns=True, keep_tool_results=3)
        shown = words(own_part(html(admin_client, page(agent))))
        said = "at most 100,000 tokens evicts down to 70% whole turns keeps only the last 3 tool results"
        assert said in shown
        agent.memory.set_window(low_water=100, whole_turns=False, keep_tool_results=0)
        assert "at most 100,000 tokens clears old tool results Tokens" in words(
            own_part(html(admin_client, page(agent)))
        )


class TestClearingToolResults:
    @pytest.mark.slow
    def test_shows_what_would_go_and_clears_it(self, admin_client: Client, agent: Conversation) -> None:
        before = agent.retained_tokens
        shown = html(admin_client, page(agent, "clear_tool_results") + "?keep=1")
        change = agent.memory.try_window(limit=before, keep_tool_results=1)
        freed = before - change.tokens
        assert f"2 old tool results will give way to placeholders. That frees {freed} tokens." in words(shown)
        assert re.findall(r'id="message-(\d+)"', shown) == ["2", "6"]
        assert agent.messages.count() == 12
        done = admin_client.post(page(agent, "clear_tool_results"), hidden(shown), follow=True)
        said = f"2 old tool results were cleared. That freed {freed} tokens."
        assert said in words(done.content.decode())
        agent.refresh_from_db()
        assert agent.retained_tokens == change.tokens
        assert logged() == [said]

    def test_keeps_three_by_default(self, admin_client: Client, agent: Conversation) -> None:
        shown = words(html(admin_client, page(agent, "clear_tool_results")))
        assert "There is no old tool result to clear." in shown
        assert "Yes, clear them" not in shown

    def test_keeps_all_of_a_tool(self, admin_client: Client, agent: Conversation) -> None:
        shown = html(admin_client, page(agent, "clear_tool_results") + "?keep=0&exclude_tools=weather")
        assert re.findall(r'id="message-(\d+)"', shown) == ["6"]
        admin_client.post(page(agent, "clear_tool_results"), hidden(shown))
        assert [row.position for row in agent.messages.evicted()] == [6]

    @pytest.mark.parametrize(
        "query", ["keep=-1", "keep=x", "keep=0&exclude_tools=nothing", "keep=99999999999999999999"]
    )
    def test_nonsense_is_refused_at_the_field(self, admin_client: Client, agent: Conversation, query: str) -> None:
        shown = html(admin_client, f"{page(agent, 'clear_tool_results')}?{query}")
        assert 'class="errorlist"' in shown
        assert "What would be cleared" not in words(shown)

    def test_what_changed_since_is_asked_about_again(self, admin_client: Client, agent: Conversation) -> None:
        asked = hidden(html(admin_client, page(agent, "clear_tool_results") + "?keep=0"))
        agent.memory.add(UserMessage("question 3"))
        again = admin_client.post(page(agent, "clear_tool_results"), asked).content.decode()
        assert "Nothing was changed" in words(again)
        assert "3 old tool results will give way" in words(again)
        assert logged() == []

    def test_names_of_tools_are_words(self, staff: Any, agent: Conversation) -> None:
        client = staff("change_conversation")
        shown = html(client, page(agent, "clear_tool_results") + "?keep=0")
        assert "2 old tool results will give way" in words(shown)
        assert "weather" not in shown
        assert "so much" not in shown
        assert client.post(page(agent, "clear_tool_results"), hidden(shown)).status_code == 302
        assert agent.messages.evicted().count() == 2

    def test_names_of_tools_are_recorded_as_read(self, admin_client: Client, agent: Conversation) -> None:
        assert "weather" in html(admin_client, page(agent, "clear_tool_results"))
        assert LogEntry.objects.get().change_message == "Read what its messages say."

    def test_is_for_those_who_may_change(self, staff: Any, agent: Conversation) -> None:
        client = staff("view_conversation", "read_message_text", "delete_conversation")
        assert client.get(page(agent, "clear_tool_results")).status_code == 403
        assert client.post(page(agent, "clear_tool_results"), {"keep": "0"}).status_code == 403
        assert "Clear old tool results" not in words(html(client, page(agent)))
        assert not agent.messages.evicted().exists()

    def test_what_cannot_be_read_is_in_the_way(self, admin_client: Client, agent: Conversation) -> None:
        Message.objects.filter(conversation=agent, position=2).update(payload="{broken")
        shown = words(html(admin_client, page(agent, "clear_tool_results") + "?keep=0"))
        assert "Nothing can be cleared, because a message cannot be read: message 2" in shown

    def test_a_memory_that_is_too_long_is_left_alone(
        self, admin_client: Client, agent: Conversation, settings: Any
    ) -> None:
        settings.CHATMEMORY = {"MAX_MEMORY_CHARS": 10}
        assert "too long for this page" in words(html(admin_client, page(agent, "clear_tool_results") + "?keep=0"))
        assert admin_client.post(page(agent, "clear_tool_results"), {"keep": "0"}).status_code == 200
        assert not agent.messages.evicted().exists()


class TestLists:
    MESSAGES = "/admin/chatmemory/message/"

    @pytest.mark.parametrize(
        ("query", "positions"),
        [
            ("pinned=yes", {4}),
            ("pinned=no", {0, 1, 2, 3, 5, 6}),
            ("origin__exact=rewrite", {6}),
            ("pinned=other", set(range(7))),
        ],
    )
    def test_messages_are_filtered(
        self, admin_client: Client, conversation: Conversation, query: str, positions: set[int]
    ) -> None:
        conversation.memory.pin(2)
        conversation.memory.pin(4)
        conversation.memory.set([UserMessage("a summary"), *conversation.memory.messages()[2:]])
        shown = html(admin_client, f"{self.MESSAGES}?{query}")
        assert set(map(int, re.findall(r'chatmemory-position">message (\d+)<', shown))) == positions

    def test_say_what_is_pinned(self, admin_client: Client, conversation: Conversation) -> None:
        conversation.memory.pin(4)
        shown = html(admin_client, self.MESSAGES)
        assert re.findall(r'<td class="field-state[^>]*>(.*?)<', shown).count("pinned") == 1


def test_the_dashboard_counts_cleared_results(admin_client: Client, agent: Conversation) -> None:
    agent.memory.clear_tool_results(keep=0)
    dashboard = admin_client.get("/admin/chatmemory/").context["dashboard"]
    assert {str(reason.label): reason.messages for reason in dashboard.reasons}["old tool result, cleared"] == 2
