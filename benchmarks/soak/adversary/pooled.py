"""A forked worker behind a pooler: it works in a conversation of its own, and every answer must be its own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chatmemory.models import Conversation

__all__ = ["work"]

_LATER = datetime(2100, 1, 1, tzinfo=UTC)


def work(conversation: Conversation, name: str, turns: int, log: Path) -> None:
    """Run turns, and after each make all other calls once.

    Args:
        conversation: the worker's own conversation, of its own user.
        name: the beginning of every text.
        turns: the number of turns.
        log: the file that gets a line for each call, with its problem, if any.
    """
    from django.db import connection

    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    worker = _Worker(conversation, name)
    for number in range(turns):
        for call, ask in worker.calls(number):
            problem = ""
            try:
                ask()
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
                connection.close()  # as Django does at the end of a request
            os.write(file, (json.dumps({"call": call, "problem": problem}) + "\n").encode())


class _Worker:
    def __init__(self, conversation: Conversation, name: str) -> None:
        from chatmemory import AiMessage, UserMessage
        from chatmemory.assistant import Assistant

        def answer(messages: Any, tools: Any) -> AiMessage:
            question = next(one for one in reversed(messages) if isinstance(one, UserMessage))
            return AiMessage(f"answer to {question.single_text()}")

        self._conversation = conversation
        self._name = name
        self._assistant = Assistant(answer, memory=lambda _: conversation.memory)

    def calls(self, number: int) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yield the calls of a turn."""
        yield "add", lambda: self._add(f"{self._name} fact {number}")
        question = f"{self._name} question {number}"
        yield "chat", lambda: self._chat(question)
        yield "chat again", lambda: self._chat(question)
        yield "verify", self._verify
        yield "export", self._export
        yield "history", self._history
        yield "import", self._restore
        yield "export the user", self._export_user
        if number % 5 == 4:
            yield "purge", self._purge

    def _add(self, text: str) -> None:
        from chatmemory import UserMessage

        first, again = (self._conversation.memory.add(UserMessage(text), idempotency_key=text) for _ in range(2))
        positions = [[row.position for row in change.added] for change in (first, again)]
        assert positions[0] == positions[1], f"a key that came again has added at {positions}"
        assert [row.text for row in again.added] == [text], f"a key that came again has added {again.added}"

    def _chat(self, question: str) -> None:
        told = self._assistant.chat(self._name, question, idempotency_key=question).text
        assert told == f"answer to {question}", f"{question} was answered by {told!r}"

    def _verify(self) -> None:
        from chatmemory.verification import verify

        findings = [str(finding) for finding in verify()]
        assert not findings, f"verify found {findings}"

    def _export(self) -> None:
        texts = [text for line in self._lines() if (text := json.loads(line).get("message"))]
        self._require_own(texts)

    def _history(self) -> None:
        from chatmemory.transfer.histories import langchain4j_lines

        self._require_own(json.loads("".join(langchain4j_lines(self._conversation))))

    def _restore(self) -> None:
        from chatmemory.transfer.records import Owners, Reports
        from chatmemory.transfer.restore import restore

        problems: list[str] = []
        reports = Reports(problems.append)
        lines = [(f"{number}", line) for number, line in enumerate(self._lines())]
        for _ in restore(lines, reports, Owners("default"), database="default"):
            pass
        assert (reports.unchanged, problems) == (1, []), f"an import of what is there: {problems}"

    def _export_user(self) -> None:
        from chatmemory.personal_data import export_user

        self._require_own(
            [text for line in export_user(self._conversation.owner) if (text := json.loads(line).get("message"))]
        )

    def _purge(self) -> None:
        from chatmemory.models import Conversation
        from chatmemory.retention import purge_evicted

        own = Conversation.objects.filter(pk=self._conversation.pk)
        assert sum(step.messages for step in purge_evicted(_LATER, own, batch_size=3)), "nothing was purged"

    def _lines(self) -> list[str]:
        from chatmemory.transfer.export import conversation_lines

        return list(conversation_lines([self._conversation.pk]))

    def _require_own(self, messages: list[Any]) -> None:
        texts = [json.dumps(message) for message in messages]
        assert texts, "nothing was read"
        strange = [text for text in texts if f"{self._name} " not in text]
        assert not strange, f"{self._name} got another's: {strange[0]}"
