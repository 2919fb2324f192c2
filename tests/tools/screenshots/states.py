"""Conversations in every state that a page can show, by the name of the state."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from chatmemory import (
    AiMessage,
    SystemMessage,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
    VideoContent,
)
from chatmemory.assistant import Assistant
from chatmemory.models import ORDER_STEP, Conversation, Message
from demo_project.demo_user import ensure_demo_user
from demo_project.sample_loading import load_sample, read_samples

__all__ = ["LONG", "clerk", "demo_user", "make_states", "session_of"]

LONG = 20_000
"""The messages of the long conversation."""

_RULES = SystemMessage("You are a helpful clerk. Answer in two sentences, and name the order that you speak of.")
_HOSTILE = (
    '<script>alert("1")</script> <img src=x onerror=alert(2)> &amp; {{ 7|add:7 }} \u202eright to left\u202c ',
    "a" * 400,
    "# Not a heading\n\n```js\nalert(1)\n```\n\n[a link](javascript:alert(1)) **bold** | a | table |",
    "مرحبا، متى يصل طلبي رقم B-20931؟ 你好，订单什么时候到？ 🙂👩‍👩‍👧‍👧",
)


def make_states() -> dict[str, int]:
    """Make the conversations, and return their primary keys by state."""
    owner = ensure_demo_user()
    made: dict[str, Conversation] = {}
    for sample in read_samples():
        load_sample(sample, owner, lambda: None)
        made[sample.memory_id] = Conversation.objects.get(owner=owner, memory_id=sample.memory_id)
    made["fresh"] = Conversation.objects.create(owner=owner, memory_id="fresh", window="messages", limit=20)
    made["larger"] = _larger_than_its_window(owner)
    made["cleared"] = _talk(owner, "cleared", 12, limit=20)
    made["cleared"].memory.clear()
    made["rewritten"] = _rewritten(owner)
    made["pinned"] = _talk(owner, "pinned", 5, limit=16)
    for position in (1, 4):
        made["pinned"].memory.pin(position)
    made["pinned"].memory.add(*_turns(20))
    made["cleared-results"] = _tools_in_parallel(owner, "cleared-results")
    made["cleared-results"].memory.clear_tool_results(keep=1)
    made["parallel"] = _tools_in_parallel(owner, "parallel")
    made["hostile"] = _hostile(owner)
    made["nobody"] = _talk(None, "nobody", 4, limit=20)
    made["no-history"] = _without_history(owner)
    made["video"] = Conversation.objects.create(owner=owner, memory_id="video")
    made["video"].memory.add(UserMessage([TextContent("Look."), VideoContent("https://example.com/film.mp4")]))
    made["recalled"] = _talk(owner, "recalled", 6, limit=8)
    answers = Assistant(lambda messages, tools: AiMessage("It left on Monday."), recall="preload")
    answers.chat(made["recalled"], "Has order B-20932 left, which I asked about before?")
    made["branches"] = _branches(owner)
    made["long"] = _long(owner)
    return {name: conversation.pk for name, conversation in made.items()}


def demo_user() -> User:
    """Return the demo's user, who owns most conversations and may do everything."""
    return ensure_demo_user()


def clerk() -> User:
    """Make a member of staff who may do all but read what messages say."""
    made = User.objects.create_user("clerk", is_staff=True)
    made.user_permissions.set(
        Permission.objects.filter(content_type__app_label="chatmemory").exclude(codename="read_message_text")
    )
    return made


def session_of(user: User) -> str:
    """Return the key of a new session in which this user is signed in."""
    client = Client()
    client.force_login(user)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def _turns(count: int) -> Iterator[UserMessage | AiMessage]:
    for turn in range(1, count + 1):
        yield UserMessage(f"Where is order B-{20_930 + turn}? I have waited for {turn} days now.")
        yield AiMessage(f"Order B-{20_930 + turn} left the warehouse on Monday. It should be with you in two days.")


def _talk(owner: User | None, name: str, turns: int, *, limit: int) -> Conversation:
    made = Conversation.objects.create(
        owner=owner, memory_id=name, title=f"A conversation that is {name}", window="messages", limit=limit
    )
    made.memory.add(_RULES)
    for message in _turns(turns):
        made.memory.add(message)
    return made


def _larger_than_its_window(owner: User) -> Conversation:
    made = Conversation.objects.create(owner=owner, memory_id="larger", window="tokens", limit=60, model="gpt-4o")
    for message in (*_turns(2), UserMessage("Here is the whole contract. " * 40), AiMessage("Thank you, I read it.")):
        made.memory.add(message)
    return made


def _rewritten(owner: User) -> Conversation:
    made = _talk(owner, "rewritten", 6, limit=20)
    messages = made.memory.messages()
    made.memory.set([messages[0], UserMessage("What was said until now, in one sentence."), *messages[-4:]])
    return made


def _branches(owner: User) -> Conversation:
    made = _talk(owner, "branches", 5, limit=8)
    made.edit(5, UserMessage("When does order B-20,940 arrive instead?"), user=owner)
    made.memory.add(AiMessage("Order B-20,940 arrives on Thursday."))
    made.edit(9, UserMessage("Can I return order B-20934?"), user=owner)
    made.memory.add(AiMessage("You can return it within thirty days."))
    made.switch(10, user=owner)
    return made


def _tools_in_parallel(owner: User, name: str) -> Conversation:
    made = Conversation.objects.create(
        owner=owner, memory_id=name, title=f"Tools: {name}", window="messages", limit=14, model="gpt-4o"
    )
    made.memory.add(_RULES)
    cities = ("Osselby", "Quill", "Cog")
    for turn in range(1, 5):
        made.memory.add(UserMessage(f"Compare the weather of three cities on day {turn}."))
        calls = [
            ToolExecutionRequest(f"{turn}-{city}", "weather", f'{{"city": "{city}", "day": {turn}}}') for city in cities
        ]
        made.memory.add(AiMessage("I look it up.", calls))
        for city in cities:
            fails = city == "Cog" and turn == 4
            made.memory.add(
                ToolExecutionResultMessage(
                    f"{turn}-{city}",
                    "weather",
                    "The station does not answer." if fails else f'{{"city": "{city}", "degrees": {10 + turn}}}',
                    is_error=fails,
                )
            )
        made.memory.add(AiMessage(f"On day {turn} it is warmest in Quill."))
    return made


def _hostile(owner: User) -> Conversation:
    made = Conversation.objects.create(
        owner=owner,
        memory_id="<b>hostile</b>",
        title="<script>alert(1)</script> " + "W" * 150,
        window="messages",
        limit=20,
    )
    for text in _HOSTILE:
        made.memory.add(UserMessage(text, name="<i>name</i>"), AiMessage(text))
    return made


def _without_history(owner: User) -> Conversation:
    made = _talk(owner, "no-history", 20, limit=10)
    made.messages.evicted().delete()
    return made


def _long(owner: User) -> Conversation:
    made = Conversation.objects.create(
        owner=owner, memory_id="long", title=f"A conversation of {LONG:,} messages", window="messages", limit=100
    )
    moment = timezone.now()
    said = list(_turns(LONG // 2))
    rows = []
    for position, message in enumerate(said):
        leaves = position < LONG - 100
        rows.append(
            Message(
                conversation=made,
                position=position,
                type=message.type.value,
                text=message.text or "",
                token_count=20 + position % 37,
                memory_order=position * ORDER_STEP,
                added_in=position + 1,
                evicted_in=position + 101 if leaves else None,
                evicted_at=moment if leaves else None,
                eviction_reason="window" if leaves else "",
                created_at=moment,
            )
        )
    Message.objects.bulk_create(rows, batch_size=2000)
    retained = sum(row.token_count for row in rows[-100:])
    Conversation.objects.filter(pk=made.pk).update(
        version=LONG, next_position=LONG, message_count=LONG, retained_count=100, retained_tokens=retained
    )
    return made
