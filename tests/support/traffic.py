"""A process that works on one conversation, and writes down what it asked for and what it was told.

``python -m tests.support.traffic ROLE NAME COUNT SEED CONVERSATION LOG``. The log is a file of JSON lines of its own;
an ``"asked"`` without its ``"done"`` may have happened or not. ROLE is one of

- ``add``: COUNT messages;
- ``use tools``: as ``add``, with results so long that their placeholders are smaller;
- ``meddle``: COUNT times rewrite, clear or change the window;
- ``insist``: each message with a key, again until it is acknowledged, however often the connection fails. COUNT
  messages, or fewer if the log's folder has a file ``stop``;
- ``read``: until there is that file, at least COUNT times;
- ``watch``: as ``read``, again when the connection fails;
- ``compact``: until there is that file, summarise, at least COUNT times;
- ``name`` and ``key``: see ``tests.support.traffic_names``.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import django

T = TypeVar("T")
Log = Callable[..., None]

# Between tries, in seconds: from the first to the longest. A server that starts again has better to do than to refuse.
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.5

# What the tools of ``use tools`` find: more tokens than a placeholder has.
_FOUND = " found" * 20

# Between reads, in seconds at most: more would mostly see the same, and take the processors from the writers.
_LOOKING_AWAY = 0.01


def open_log(path: Path) -> Log:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def log(act: str, **what: Any) -> None:
        os.write(file, (json.dumps({"act": act, **what}) + "\n").encode())  # in one piece, whoever is killed

    return log


def add(
    conversation: Any,
    name: str,
    count: int,
    chance: random.Random,
    log: Log,
    step: Callable[[], object],
    found: str = "",
) -> None:
    from chatmemory import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage

    number = 0
    while number < count:
        step()
        size = min(chance.choice([1, 1, 1, 1, 2, 3, 5]), count - number)
        said = [f"{name} {n}" for n in range(number, number + size)]
        batch: list[Any] = [(AiMessage if chance.random() < 0.5 else UserMessage)(text) for text in said]
        if size > 1 and chance.random() < 0.5:  # a call and its results
            said[1:] = [f"{text}{found}" for text in said[1:]]
            batch[0] = AiMessage(said[0], [ToolExecutionRequest(str(n), "tool", "{}") for n in range(1, size)])
            batch[1:] = [ToolExecutionResultMessage(str(n), "tool", said[n]) for n in range(1, size)]
        key = f"{name} {number}" if chance.random() < 0.3 else None
        log("asked", said=said, key=key)
        change = conversation.memory.add(*batch, idempotency_key=key)
        positions = [row.position for row in change.added]
        log("done", said=said, version=change.memory.version, positions=positions[:size])  # without placeholders
        if key is not None:
            again = conversation.memory.add(*batch, idempotency_key=key)
            assert [row.position for row in again.added] == positions, "a key that came twice has another account"
            assert again.memory == change.memory
        number += size


def meddle(
    conversation: Any, name: str, count: int, chance: random.Random, log: Log, step: Callable[[], object]
) -> None:
    from chatmemory import UserMessage, messages_to_json
    from chatmemory.database.change import Target
    from chatmemory.database.operations.rewrite import clear, rewrite

    for number in range(count):
        step()
        act = chance.choice(["set", "clear", "window", "window"])
        if act == "set":
            given = [UserMessage(f"{name} summary {number}"), *conversation.memory.messages()[-2:]]
            change = rewrite(Target.of(conversation), given)
            log("set", version=change.memory.version, given=messages_to_json(given))
        elif act == "clear":
            change = clear(Target.of(conversation))
            log("clear", version=change.memory.version, evicted=len(change.evicted))
        else:
            window, limit = chance.choice([("messages", 3), ("messages", 9), ("tokens", 40), ("tokens", 90)])
            change = conversation.memory.set_window(window=window, limit=limit)
            kind = {"window": window, "limit": limit}
            log("window", version=change.memory.version, evicted=len(change.evicted), **kind)


def insist(conversation: Any, name: str, count: int, chance: random.Random, log: Log, stop: Path) -> None:
    from chatmemory import UserMessage

    for number in range(count):
        if stop.exists():
            break
        text = f"{name} {number}"
        log("asked", said=[text], key=text)
        change = until_it_works(partial(conversation.memory.add, UserMessage(text), idempotency_key=text), log)
        log("done", said=[text], version=change.memory.version, positions=[change.added[0].position])


def read(conversation: Any, name: str, count: int, chance: random.Random, log: Log, stop: Path) -> None:
    _look(conversation.memory.messages, count, chance, log, stop)


def watch(conversation: Any, name: str, count: int, chance: random.Random, log: Log, stop: Path) -> None:
    _look(partial(until_it_works, conversation.memory.messages, log), count, chance, log, stop)


def _look(messages: Callable[[], list[Any]], count: int, chance: random.Random, log: Log, stop: Path) -> None:
    while count > 0 or not stop.exists():
        count -= 1
        memory = messages()
        log("read", texts=[text_of(message) for message in memory], without_calls=without_calls(memory))
        time.sleep(chance.random() * _LOOKING_AWAY)


def until_it_works(act: Callable[[], T], log: Log) -> T:
    """Return what ``act`` returns, once no connection fails in it. Other errors are raised."""
    from django.db import InterfaceError, InternalError, OperationalError

    from chatmemory.database.connections import is_unavailable

    pauses = pausing()
    while True:
        next(pauses)
        try:
            return act()
        except (InterfaceError, InternalError, OperationalError) as error:
            if isinstance(error, InternalError) and not is_unavailable(error):
                raise
            log("failed", kind=type(error).__name__, error=str(error))


def pausing() -> Iterator[None]:
    """Yield at once, then again after pauses that grow."""
    pause = _FIRST_PAUSE
    while True:
        yield
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def text_of(message: Any) -> str:
    """What tells one message of the traffic from another."""
    if hasattr(message, "contents"):
        return "".join(content.text for content in message.contents)
    return str(message.text)


def without_calls(memory: list[Any]) -> list[str]:
    """The texts of the tool results in a memory that do not follow their calls."""
    from chatmemory import AiMessage, ToolExecutionResultMessage

    called: set[str | None] = set()
    found = []
    for message in memory:
        if not isinstance(message, ToolExecutionResultMessage):
            requests = message.tool_execution_requests if isinstance(message, AiMessage) else ()
            called = {request.id for request in requests}
        elif message.id not in called:
            found.append(message.text)
    return found


def _say_ready() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def _go_on() -> None:
    """Wait for nobody."""


def work(
    role: str,
    name: str,
    count: str,
    seed: str,
    key: str,
    path: str,
    *,
    begin: Callable[[], object],
    step: Callable[[], object] = _go_on,
) -> None:
    """Do what the arguments of the program say.

    Args:
        role, name, count, seed, key, path: the arguments of the program.
        begin: is called once, before all.
        step: is called before each act of the roles ``add``, ``use tools`` and ``meddle``.
    """
    from chatmemory.models import Conversation
    from tests.support.compacting import compact_again_and_again
    from tests.support.traffic_names import make_by_keys, say_by_names

    given = (
        Conversation.objects.select_related("owner").get(pk=key),
        name,
        int(count),
        random.Random(seed),
        open_log(Path(path)),
    )
    begin()
    stepping: dict[str, Callable[..., None]] = {"add": add, "use tools": partial(add, found=_FOUND), "meddle": meddle}
    if role in stepping:
        stepping[role](*given, step=step)
    else:
        others = {
            "insist": insist,
            "read": read,
            "watch": watch,
            "compact": compact_again_and_again,
            "name": say_by_names,
            "key": make_by_keys,
        }
        others[role](*given, stop=Path(path).parent / "stop")


if __name__ == "__main__":
    django.setup()
    work(*sys.argv[1:], begin=_say_ready)
