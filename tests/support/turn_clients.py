"""Clients on bad networks that take turns over HTTP, and what must be true afterwards.

The model is that of ``tests.support.signalled``.
"""

from __future__ import annotations

import http.client
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from chatmemory.models import Conversation, Message
from tests.support.server import HttpClient
from tests.support.signalled import Signals
from tests.support.turn_streams import open_stream
from tests.support.turns import texts_of, ui_message

__all__ = ["TurnClients", "check_turns"]

_PATIENCE = 300  # seconds
_PAUSE = 0.1  # seconds, at most, before a client tries again


@dataclass
class TurnClients:
    """Clients that repeat each turn, with its key, until it is answered; they hang up, ask twice at once, and again."""

    http_client: HttpClient
    conversations: Sequence[str]
    """The primary keys."""

    signals: Signals
    """A place to note what was answered: ``done``, and its text."""

    seed: str

    said: dict[str, list[str]] = field(default_factory=dict)
    """By conversation, what was said and answered."""

    figures: Counter[str] = field(default_factory=Counter)
    """How often it happened that a request was dropped, refused and so on."""

    def run(self, clients: int, turns: int) -> None:
        """Take so many turns, by so many clients at once."""
        with ThreadPoolExecutor(clients) as pool:
            for future in [pool.submit(self._client, number, turns // clients) for number in range(clients)]:
                future.result()

    def _client(self, number: int, turns: int) -> None:
        for index in range(turns):
            text = f"{number}-{index} of some words"
            chance = random.Random(f"{self.seed} {text}")
            where = chance.choice(self.conversations)
            turn = _Turn(self, f"/api/conversations/{where}/turns/", text, by_use_chat=chance.random() < 0.3)
            if chance.random() < 0.3:
                self.figures["asked twice at once"] += 1
                with ThreadPoolExecutor(2) as pool:
                    others = [pool.submit(turn.until_answered, random.Random(chance.random())) for _ in range(2)]
                    answers = {other.result() for other in others}
            else:
                answers = {turn.until_answered(chance)}
            if chance.random() < 0.3:
                self.figures["asked again after the answer"] += 1
                answers.add(turn.until_answered(chance))
            assert answers == {f"Re: {text}"}, f"{text} was answered with {answers}"
            self.said.setdefault(where, []).append(text)


@dataclass(frozen=True)
class _Turn:
    clients: TurnClients
    path: str
    text: str
    by_use_chat: bool

    def until_answered(self, chance: random.Random) -> str:
        """Ask until there is an answer, and return it."""
        until = time.monotonic() + _PATIENCE
        figures = self.clients.figures
        while True:
            assert time.monotonic() < until, f"{self.text} is not answered"
            if chance.random() < 0.3:
                figures["dropped"] += 1
                self._drop(chance)
            try:
                found = self._stream() if self.by_use_chat or chance.random() < 0.6 else self._json()
            except (OSError, http.client.HTTPException, EOFError) as error:
                figures[f"broken: {type(error).__name__}"] += 1
                found = None
            if found is not None:
                self.clients.signals.note("done", self.text)
                return found
            time.sleep(chance.uniform(0, _PAUSE))

    def _json(self) -> str | None:
        answer = self.clients.http_client.request("POST", self.path, self._body(), **self._headers("application/json"))
        if answer.status == 200:
            return str(answer.json()["answer"]["text"])
        self._note_refusal(answer.status)
        return None

    def _stream(self) -> str | None:
        with open_stream(self.clients.http_client, self.path, self._body(), **self._headers("*/*")) as stream:
            if stream.status != 200:
                self._note_refusal(stream.status)
                return None
            parts = list(stream)
        if parts[-1]["type"] == "finish":
            return texts_of(parts)
        self.clients.figures[f"ended with {parts[-1]['type']}"] += 1
        return None

    def _drop(self, chance: random.Random) -> None:
        """Ask, and go away: at once, or after some parts."""
        headers = self._headers("text/event-stream")
        if chance.random() < 0.3:
            self.clients.http_client.send_and_hang_up(self.path, self._body(), **headers)
            return
        try:
            with open_stream(self.clients.http_client, self.path, self._body(), **headers) as stream:
                if stream.status == 200:
                    for _ in range(chance.randrange(5)):
                        stream.next()
        except (OSError, http.client.HTTPException, EOFError):
            pass  # its worker was killed

    def _note_refusal(self, status: int) -> None:
        assert status in (409, 502, 503), f"{self.text} was refused with {status}"
        self.clients.figures[f"refused: {status}"] += 1

    def _body(self) -> dict[str, Any]:
        if self.by_use_chat:
            return {"id": "chat", "messages": [ui_message(self.text, self.text)], "trigger": "submit-message"}
        return {"message": self.text}

    def _headers(self, accept: str) -> dict[str, str]:
        accept = "text/event-stream" if accept == "*/*" and not self.by_use_chat else accept
        return {"Accept": accept, **({} if self.by_use_chat else {"Idempotency_Key": self.text})}


def check_turns(said: dict[str, list[str]], signals: Signals) -> int:
    """
    Args:
        said: by conversation, what was said and answered.
        signals: where the model noted its calls, and the clients what was answered.

    Returns:
        the number of calls of the model beyond one for each turn.

    Raises:
        AssertionError: something is lost, there twice, out of place, or was asked again after it was answered.
    """
    for conversation in Conversation.objects.filter(pk__in=said):
        _check_history(conversation.messages.all(), said[str(conversation.pk)])
    texts = {text for some in said.values() for text in some}
    done: set[str] = set()
    calls = 0
    for act, text in signals.notes():
        assert text in texts, f"{text} was never said"
        if act == "done":
            done.add(text)
        else:
            assert text not in done, f"the model was asked for {text} again"
            calls += 1
    assert done == texts
    return calls - len(texts)


def _check_history(rows: Iterable[Message], said: list[str]) -> None:
    rows = list(rows)
    asked = [row.text for row in rows if row.type == "USER" and not row.synthetic]
    assert sorted(asked) == sorted(said), "history is not what was said"
    answers = [row.text for row in rows if row.type == "AI"]
    assert sorted(answers) == sorted(f"Re: {text}" for text in said), "an answer is lost, or there twice"
    for before, row in pairwise(rows):
        if row.type == "AI":
            assert (before.type, f"Re: {before.text}") == ("USER", row.text), "an answer to another question"
