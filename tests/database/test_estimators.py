"""What a project's own estimator may return: a whole number that a column holds; all else is an error."""

from __future__ import annotations

import math

import pytest

from chatmemory import InMemoryChatMemoryStore, TokenWindowChatMemory, UserMessage
from chatmemory.models import Conversation, Message
from chatmemory.stores import DjangoChatMemoryStore

pytestmark = pytest.mark.django_db


class Words:
    """An estimator whose counts a test chooses."""

    model = "words"

    def __init__(self, count, overhead=0):
        self.count, self.overhead = count, overhead

    def estimate_token_count_in_text(self, text):
        return self.count

    def estimate_token_count_in_message(self, message):
        return self.count

    def estimate_token_count_in_messages(self, messages):
        return self.overhead


NO_COUNTS = [(3.7, TypeError), (None, TypeError), (True, TypeError), (math.nan, TypeError), ("3", TypeError)]
NO_COUNTS += [(-1, ValueError), (2**31, ValueError), (2**40, ValueError)]


@pytest.fixture(params=[InMemoryChatMemoryStore, DjangoChatMemoryStore])
def store(request):
    return request.param()


def memory(store, estimator):
    return TokenWindowChatMemory(id="a", max_tokens=100, token_count_estimator=estimator, store=store)


@pytest.mark.parametrize(("count", "error"), NO_COUNTS)
class TestWhatIsNoCount:
    def test_is_refused_for_a_new_message(self, store, count, error):
        with pytest.raises(error, match=r"Words must return a whole number from 0 to 2147483647, but returned: "):
            memory(store, Words(count)).add(UserMessage("Hi"))
        assert memory(store, Words(1)).messages() == []

    def test_is_refused_for_a_rewritten_memory(self, store, count, error):
        memory(store, Words(1)).add(UserMessage("Hi"))
        with pytest.raises(error, match=r"but returned: "):
            memory(store, Words(count)).set([UserMessage("Ho")])
        assert memory(store, Words(1)).messages() == [UserMessage("Hi")]

    def test_is_refused_for_a_request(self, store, count, error):
        memory(store, Words(1)).add(UserMessage("Hi"))
        with pytest.raises(error, match=r"but returned: "):
            memory(store, Words(1, overhead=count)).add(UserMessage("Ho"))
        assert memory(store, Words(1)).messages() == [UserMessage("Hi")]

    def test_is_refused_for_a_message_that_another_estimator_counted(self, store, count, error):
        class Others(Words):
            """Counts what it knows not to have counted."""

        memory(store, Words(1)).add(UserMessage("Hi"))
        with pytest.raises(error, match=r"but returned: "):
            memory(store, Others(count)).add(UserMessage("Ho"))
        assert memory(store, Words(1)).messages() == [UserMessage("Hi")]


@pytest.mark.parametrize("count", [0, 2**31 - 1])
def test_the_least_and_the_most_count_are_stored(count):
    store = DjangoChatMemoryStore()
    wide = TokenWindowChatMemory(id="a", max_tokens=2**31 - 1, token_count_estimator=Words(count), store=store)
    wide.add(UserMessage("Hi"), UserMessage("Ho"))
    assert set(Message.objects.values_list("token_count", flat=True)) == {count}
    assert Conversation.objects.get().retained_tokens in {0, 2**31 - 1}
