"""The admin's pages for windows that keep the prompt cache: pins, marks, cleared tool results, and the comparison."""

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

from chatmemory import AiMessage, SystemMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.admin.views import replay
from chatmemory.admin.views.logged_change import state_of
from chatmemory.database import operations
from chatmemory.models import Conversation, Message
from tests.admin.test_acts import logged
from tests.admin.test_conversation import conversation, html, own_part, page, staff, timeline, words  # noqa: F401
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db

WINDOW = {"window": "messages", "limit": "4", "low_water": "100", "whole_turns": "no", "keep_tool_results": ""}


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


class TestPinning:
    def test_pins_and_unpins_and_says_and_logs_it(self, admin_client: Client, conversation: Conversation) -> None:
        assert "Pinned message 4." in post(admin_client, conversation, "pin", position="4")
        assert [row.position for row in conversation.messages.pinned()] == [4]
        assert "Unpinned message 4." in post(admin_client, conversation, "unpin", position="4")
        assert not conversation.messages.pinned().exists()
        assert logged() == ["Pinned message 4.", "Unpinned message 4."]

    def test_returns_to_the_message(self, admin_client: Client, conversation: Conversation) -> None:
        answer = admin_client.post(page(conversation, "pin"), {"position": "4"})
        assert answer["Location"] == f"{page(conversation)}?position=4#message-4"

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

    def test_offers_what_can_be_done(self, admin_client: Client, conversation: Conversation) -> None:
        conversation.memory.pin(4)
        assert "pinned" in words(self.entry(admin_client, conversation, 4))
        assert words(self.entry(admin_client, conversation, 4)).count("Unpin") == 1
        assert "Pin" in words(self.entry(admin_client, conversation, 5)).split()
        assert "Pin" not in words(self.entry(admin_client, conversation, 0)).split()

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
        assert "Stands for message 6" in words(placeholder)
        assert 'href="?position=6#message-6"' in placeholder

    def test_clearing_by_hand_was_pushed_by_no_message(self, admin_client: Client, agent: Conversation) -> None:
        agent.memory.clear_tool_results(keep=0)
        assert "pushed out" not in timeline(html(admin_client, page(agent)))

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
        shown = timeline(html(admin_client, page(agent)))
        assert re.findall(r"number (\d+) in the memory", shown) == ["3", "7"]
        assert len(re.findall("running total", shown)) == 10

    def test_says_for_which_messages_one_stands(self, admin_client: Client, agent: Conversation) -> None:
        agent.memory.set([UserMessage("a summary"), *agent.memory.messages()[8:]])
        Message.objects.filter(text="a summary").update(covers_from=0, covers_to=7)
        shown = self.entry(admin_client, agent, 12)
        assert "User synthetic" in words(shown)
        assert "Stands for messages 0–7" in words(shown)
        assert 'href="?position=0#message-0"' in shown

    def test_a_copy_is_called_one(self, admin_client: Client, agent: Conversation) -> None:
        Message.objects.filter(position=4).update(origin="copy")
        assert "User copy" in words(self.entry(admin_client, agent, 4))

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

    def test_the_strip_marks_what_is_pinned_and_what_is_a_placeholder(
        self, admin_client: Client, agent: Conversation
    ) -> None:
        for key in ("placeholder", "pinned"):
            assert f"chatmemory-key-{key}" not in html(admin_client, page(agent))
        agent.memory.clear_tool_results(keep=0)
        agent.memory.pin(9)
        shown = html(admin_client, page(agent))
        bars = {int(place): bar for place, bar in re.findall(r"<title>(\d+) (.*?)</a>", shown, re.DOTALL)}
        assert {place for place, bar in bars.items() if "chatmemory-bar-pinned" in bar} == {9}
        assert {place for place, bar in bars.items() if "chatmemory-bar-placeholder" in bar} == {12, 13}
        assert "AI (pinned)" in bars[9]
        assert "Tool result (placeholder)" in bars[12]
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

    def test_the_facts_say_how_the_window_evicts(self, admin_client: Client, agent: Conversation) -> None:
        agent.memory.set_window(low_water=70, whole_turns=True, keep_tool_results=3)
        shown = words(own_part(html(admin_client, page(agent))))
        said = "at most 100,000 tokens evicts down to 70% whole turns keeps only the last 3 tool results"
        assert said in shown
        agent.memory.set_window(low_water=100, whole_turns=False, keep_tool_results=0)
        assert "at most 100,000 tokens clears old tool results Tokens" in words(
            own_part(html(admin_client, page(agent)))
        )


class TestSettings:
    @pytest.mark.parametrize("name", ["window", "what_if"])
    def test_are_offered_as_they_are(self, admin_client: Client, agent: Conversation, name: str) -> None:
        agent.memory.set_window(low_water=70, whole_turns=True, keep_tool_results=3)
        shown = html(admin_client, page(agent, name))
        assert re.search(r'<input[^>]*name="low_water"[^>]*value="70"|value="70"[^>]*name="low_water"', shown)
        assert re.search(r'<option value="yes" selected>whole turns</option>', shown)
        assert re.search(r'name="keep_tool_results" value="3"', shown)
        assert "prompt cache" in words(shown)

    @pytest.mark.parametrize("name", ["window", "what_if"])
    @pytest.mark.parametrize(
        ("field", "value"),
        [("low_water", "0"), ("low_water", "101"), ("keep_tool_results", "-1"), ("whole_turns", "maybe")],
    )
    def test_that_have_no_meaning_are_refused_at_the_field(
        self, admin_client: Client, conversation: Conversation, name: str, field: str, value: str
    ) -> None:
        answer = admin_client.get(page(conversation, name), {**WINDOW, field: value})
        assert list(answer.context["form"].errors) == [field]
        assert 'class="errorlist"' in answer.content.decode()

    def test_are_asked_about_said_and_logged(self, admin_client: Client, conversation: Conversation) -> None:
        wanted = {**WINDOW, "limit": "3", "low_water": "70", "whole_turns": "yes", "keep_tool_results": "2"}
        asked = admin_client.get(page(conversation, "window"), wanted).content.decode()
        after = "at most 3 messages, evicts down to 70%, whole turns, keeps only the last 2 tool results"
        assert f"at most 4 messages → {after}" in words(asked)
        done = admin_client.post(page(conversation, "window"), hidden(asked), follow=True)
        said = (
            "The window was changed to at most 3 messages. It now evicts down to 70% of the limit. "
            "It now evicts whole turns. It now clears old tool results, but keeps the last 2. 2 messages were evicted."
        )
        assert said in words(done.content.decode())
        conversation.refresh_from_db()
        got = conversation.limit, conversation.low_water, conversation.whole_turns, conversation.keep_tool_results
        assert got == (3, 70, True, 2)
        asked = admin_client.get(page(conversation, "window"), {**WINDOW, "limit": "3"}).content.decode()
        admin_client.post(page(conversation, "window"), hidden(asked))
        conversation.refresh_from_db()
        got = conversation.limit, conversation.low_water, conversation.whole_turns, conversation.keep_tool_results
        assert got == (3, 100, False, None)
        assert logged() == [
            said,
            "The window was changed to at most 3 messages. It now evicts down to 100% of the limit. "
            "It now evicts message by message. It no longer clears old tool results. 0 messages were evicted.",
        ]

    def test_that_an_address_leaves_out_stay(self, admin_client: Client, conversation: Conversation) -> None:
        conversation.memory.set_window(low_water=70, whole_turns=True, keep_tool_results=3)
        answer = admin_client.get(page(conversation, "window"), {"window": "messages", "limit": "4"})
        assert "already has this window" in words(answer.content.decode())

    @pytest.mark.parametrize(
        "other", [{"low_water": "50"}, {"whole_turns": "yes"}, {"keep_tool_results": "0"}], ids=str
    )
    def test_one_alone_makes_another_window(
        self, admin_client: Client, conversation: Conversation, other: dict[str, str]
    ) -> None:
        answer = admin_client.get(page(conversation, "window"), {**WINDOW, **other})
        assert "already has this window" not in words(answer.content.decode())

    def test_a_change_of_one_alone_is_asked_about_again(self, admin_client: Client, conversation: Conversation) -> None:
        asked = admin_client.get(page(conversation, "window"), {**WINDOW, "limit": "3"}).content.decode()
        conversation.memory.set_window(low_water=50)
        again = admin_client.post(page(conversation, "window"), hidden(asked))
        assert "Nothing was changed" in words(again.content.decode())

    @pytest.mark.parametrize("name", ["window", "what_if"])
    def test_a_limit_without_room_for_pins_is_refused_at_the_limit(
        self, admin_client: Client, conversation: Conversation, name: str
    ) -> None:
        conversation.memory.pin(2)
        conversation.memory.pin(3)
        answer = admin_client.get(page(conversation, name), {**WINDOW, "limit": "3"})
        assert answer.status_code == 200
        (problem,) = answer.context["form"].errors["limit"]
        assert "would take 2 of 3 messages, more than half. Unpin some, or choose a limit of at least 4." in problem
        assert problem in unescape(answer.content.decode())
        assert 'name="seen"' not in answer.content.decode()

    def test_pins_of_the_last_moment_are_heeded(self, admin_client: Client, conversation: Conversation) -> None:
        asked = hidden(admin_client.get(page(conversation, "window"), {**WINDOW, "limit": "3"}).content.decode())
        conversation.memory.pin(2)
        conversation.memory.pin(3)
        conversation.refresh_from_db()
        answer = admin_client.post(page(conversation, "window"), {**asked, "seen": state_of(conversation)})
        assert list(answer.context["form"].errors) == ["limit"]
        assert logged() == []

    def test_trying_shows_placeholders(self, admin_client: Client, agent: Conversation) -> None:
        address = f"{page(agent, 'what_if')}?window=tokens&limit={agent.retained_tokens}&keep_tool_results=0"
        shown = words(own_part(html(admin_client, address)))
        assert "12 would stay, 2 would be evicted" in shown
        assert shown.count("would be evicted: old tool result, cleared") == 2
        assert "Stands for message 2" in shown
        assert Message.objects.count() == 12


class TestClearingToolResults:
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


class TestComparing:
    @pytest.fixture
    def long(self) -> Conversation:
        made: Conversation = ConversationFactory(window="messages", limit=10)
        made.memory.add(SystemMessage("Be kind."))
        for number in range(30):
            made.memory.add(UserMessage(f"question {number}"))
            made.memory.add(AiMessage(f"answer {number}"))
        made.refresh_from_db()
        return made

    def rows(self, shown: str) -> list[str]:
        """What is said of each window."""
        found = re.search(r'<ol class="chatmemory-compared">(.*?)</ol>', shown, re.DOTALL)
        return [words(row) for row in re.findall("<li>(.*?)</li>", found[1], re.DOTALL)] if found else []

    def said(self, figures: Any) -> str:
        return (
            f"Tokens at full price {figures.full_price_tokens:,} Tokens sent {figures.input_tokens:,} "
            f"Requests that began differently from the one before {figures.prefix_breaks} of {figures.requests} "
            f"Messages evicted {figures.evictions} Average use of the limit {figures.mean_fill:.0%} "
            f"Requests that an API would refuse {figures.repairs}"
        )

    def test_the_figures_are_those_of_replays(self, admin_client: Client, long: Conversation) -> None:
        query = {
            "1-window": "messages",
            "1-limit": "12",
            "1-low_water": "50",
            "1-whole_turns": "yes",
            "1-keep_tool_results": "",
            "2-window": "tokens",
            "2-limit": "80",
            "2-low_water": "70",
            "2-whole_turns": "no",
            "2-keep_tool_results": "3",
        }
        recorded, one, two = self.rows(admin_client.get(page(long, "replay"), query).content.decode())
        real = long.memory.replay()
        first = long.memory.replay(window="messages", limit=12, low_water=50, whole_turns=True)
        second = long.memory.replay(window="tokens", limit=80, low_water=70, keep_tool_results=3)
        share = f"{real.hit_share:.0%}"
        assert recorded == f"As recorded {share} of the input could have come from the cache. {self.said(real)}"
        assert one == (
            f"at most 12 messages, evicts down to 50%, whole turns {first.hit_share:.0%} of the input could have come "
            f"from the cache, instead of {share}. {self.said(first)}"
        )
        assert two == (
            "at most 80 tokens, evicts down to 70%, keeps only the last 3 tool results "
            f"{second.hit_share:.0%} of the input could have come from the cache, instead of {share}. "
            f"{self.said(second)}"
        )
        assert first.hit_share > real.hit_share

    def test_suggests_windows_that_are_worth_a_look(
        self, admin_client: Client, agent: Conversation, long: Conversation
    ) -> None:
        shown = self.rows(html(admin_client, page(long, "replay")))
        assert [row.split(" whole")[0] for row in shown[1:]] == [
            "at most 10 messages, evicts down to 70%,",
            "at most 10 messages, evicts down to 50%,",
        ]
        shown = self.rows(html(admin_client, page(agent, "replay")))
        assert len(shown) == 4
        assert "evicts down to 70%, whole turns, keeps only the last 3 tool results" in shown[2]

    def test_nonsense_is_refused_at_the_field(self, admin_client: Client, long: Conversation) -> None:
        query = {"1-window": "messages", "1-limit": "10", "1-low_water": "0", "1-whole_turns": "no"}
        answer = admin_client.get(page(long, "replay"), query)
        assert [list(form.errors) for form in answer.context["forms"]] == [["low_water"], [], []]
        assert self.rows(answer.content.decode()) == []

    def test_nothing_answered_is_nothing_to_compare(self, admin_client: Client) -> None:
        made = ConversationFactory()
        made.memory.add(UserMessage("hello"))
        shown = html(admin_client, page(made, "replay"))
        assert "no model has answered yet" in words(shown)
        assert self.rows(shown) == []

    def test_what_was_not_kept_is_said(self, admin_client: Client, settings: Any) -> None:
        settings.CHATMEMORY = {"KEEP_HISTORY": False}
        made = ConversationFactory(window="messages", limit=2)
        made.memory.add(UserMessage("one"), AiMessage("two"), UserMessage("three"), AiMessage("four"))
        assert "2 evicted messages were not kept" in words(html(admin_client, page(made, "replay")))

    def test_a_very_long_one_is_for_the_command(
        self, admin_client: Client, long: Conversation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(replay, "MOST_AT_ONCE", long.next_position)
        assert len(self.rows(html(admin_client, page(long, "replay")))) == 3
        monkeypatch.setattr(replay, "MOST_AT_ONCE", long.next_position - 1)
        shown = html(admin_client, page(long, "replay"))
        assert self.rows(shown) == []
        assert f"at most 60 messages. Use the command: manage.py chatmemory_replay --conversation {long.pk}" in words(
            shown
        )

    def test_is_for_all_who_may_see_and_has_no_words(self, staff: Any, long: Conversation) -> None:
        shown = html(staff("view_conversation"), page(long, "replay"))
        assert len(self.rows(shown)) == 3
        assert not LogEntry.objects.exists()

    def test_is_not_for_others(self, staff: Any, long: Conversation) -> None:
        assert staff("view_message").get(page(long, "replay")).status_code == 403


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
        assert set(map(int, re.findall(r'chatmemory-position">(\d+)<', shown))) == positions

    def test_say_what_is_pinned(self, admin_client: Client, conversation: Conversation) -> None:
        conversation.memory.pin(4)
        shown = html(admin_client, self.MESSAGES)
        assert re.findall(r'<td class="field-state[^>]*>(.*?)<', shown).count("pinned") == 1


def test_the_dashboard_counts_cleared_results(admin_client: Client, agent: Conversation) -> None:
    agent.memory.clear_tool_results(keep=0)
    dashboard = admin_client.get("/admin/chatmemory/").context["dashboard"]
    assert {str(label): count for label, count, _share in dashboard.reasons}["old tool result, cleared"] == 2
