"""With ``CALIBRATE_TOKENS`` a window of tokens has the room that the model's own count of tokens leaves."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client

from chatmemory import AiMessage, ChatMessage, OpenAiTokenCountEstimator
from chatmemory.assistant import Answered, Assistant, ChatModel, Usage
from chatmemory.models import TokenCalibration
from tests.support.factories import ConversationFactory, UserFactory

ESTIMATOR = OpenAiTokenCountEstimator("gpt-4o")
LIMIT = 1000


class OtherCount(ChatModel):
    """Counts ``factor`` times the tokens of a window, and tells so."""

    name = "claude-tiny"

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.counted: list[int] = []

    def chat(self, messages: Sequence[ChatMessage], tools: Any) -> Answered:
        tokens = ESTIMATOR.estimate_token_count_in_messages(messages)
        self.counted.append(round(tokens * self.factor))
        return Answered(AiMessage(f"Answer {len(self.counted)}. " + "word " * 40), Usage(input_tokens=self.counted[-1]))


@pytest.fixture
def calibrates(settings: Any) -> None:
    settings.CHATMEMORY = settings.CHATMEMORY | {"CALIBRATE_TOKENS": True}


def talk(model: OtherCount, turns: int = 40, **more: Any) -> Any:
    conversation = ConversationFactory(owner=None, window="tokens", limit=LIMIT)
    assistant = Assistant(model, **more)
    for number in range(turns):
        assistant.chat(conversation, f"Question {number}. " + "word " * 30)
    conversation.refresh_from_db()
    return conversation


@pytest.mark.django_db(transaction=True)
class TestRoom:
    @pytest.mark.slow
    def test_is_what_the_models_count_leaves(self, calibrates: None) -> None:
        model = OtherCount(1.3)
        conversation = talk(model, answer_tokens=100)
        assert LIMIT * 0.8 < max(model.counted[-10:]) <= LIMIT - 100
        row = TokenCalibration.objects.get()
        assert (row.model, row.calls, row.ratio) == ("claude-tiny", 40, pytest.approx(1.3, rel=0.01))
        assert conversation.retained_tokens < LIMIT / 1.3

    @pytest.mark.slow
    def test_counts_tools_as_part_of_the_request(self, calibrates: None) -> None:
        def look(number: int) -> str:
            """Look something up in the large collection of texts that this shop has about its teas."""
            return "found"

        model = OtherCount(1)
        talk(model, turns=10, tools=[look])
        assert TokenCalibration.objects.get().ratio < 1  # this model did not count them

    @pytest.mark.slow
    def test_stays_as_it_is_without_the_setting(self) -> None:
        model = OtherCount(1.3)
        conversation = talk(model)
        assert max(model.counted[-10:]) > LIMIT
        assert conversation.reserve == 0
        assert not TokenCalibration.objects.exists()

    @pytest.mark.slow
    def test_never_grows_beyond_the_limit(self, calibrates: None) -> None:
        conversation = talk(OtherCount(0.7))
        assert conversation.reserve == 0

    @pytest.mark.slow
    def test_is_half_of_the_limit_at_least(self, calibrates: None) -> None:
        model = OtherCount(1000)
        conversation = talk(model)
        assert conversation.retained_tokens > LIMIT / 4


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_calls_that_end_at_once_are_all_counted() -> None:
    def note(_number: int) -> None:
        TokenCalibration.note("default", "gpt-4o", estimated=100, reported=120)
        connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(note, range(40)))
    row = TokenCalibration.objects.get()
    assert (row.calls, row.ratio) == (40, pytest.approx(1.2))
    assert TokenCalibration.factor("default", "gpt-4o") == pytest.approx(1.2)


@pytest.mark.django_db
class TestAdmin:
    @pytest.fixture
    def client_of_staff(self) -> Client:
        client = Client()
        staff = UserFactory(is_staff=True)
        staff.user_permissions.add(Permission.objects.get(codename="view_tokencalibration"))
        client.force_login(staff)
        return client

    def test_shows_by_how_much_counts_err(self, calibrates: None, client_of_staff: Client) -> None:
        TokenCalibration.objects.create(model="claude-tiny", calls=12, estimated=1000, reported=1234)
        TokenCalibration.objects.create(model="gemini-tiny", calls=2, estimated=1000, reported=900)
        page = client_of_staff.get("/admin/chatmemory/tokencalibration/").content.decode()
        assert "+23.4 %" in page
        assert "−10.0 %" in page
        assert "/admin/chatmemory/tokencalibration/" in client_of_staff.get("/admin/").content.decode()

    def test_is_not_offered_without_the_setting(self, client_of_staff: Client) -> None:
        assert "/admin/chatmemory/tokencalibration/" not in client_of_staff.get("/admin/").content.decode()
