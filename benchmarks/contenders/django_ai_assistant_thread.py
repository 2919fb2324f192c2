"""A thread of django-ai-assistant."""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.db.models import Max
from django_ai_assistant.helpers.django_messages import save_django_messages
from django_ai_assistant.models import Message, Thread
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, message_to_dict

from benchmarks.contenders.base import SyncContender
from benchmarks.contenders.langchain_window import batches, texts, trim

__all__ = ["DjangoAiAssistantThread"]


class DjangoAiAssistantThread(SyncContender):
    """A thread saved as the package's assistants save, on Django's connection, which chatmemory uses too."""

    def fill(self, history: int) -> None:
        self.thread = Thread.objects.create(name="1")
        key = Message.objects.aggregate(last=Max("id"))["last"] or 0
        for messages in batches(history):
            rows: list[Any] = []
            for message in messages:
                key += 1  # what the database will count too; the message has it as its own ID
                message.id = str(key)
                rows.append(Message(thread=self.thread, message=message_to_dict(message)))
            Message.objects.bulk_create(rows)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")

    def turn(self, user_text: str, ai_text: str) -> list[BaseMessage]:
        save_django_messages([HumanMessage(user_text)], self.thread)
        save_django_messages([AIMessage(ai_text)], self.thread)
        return trim(self.thread.get_messages(), self.window)

    def texts(self, window: list[BaseMessage]) -> list[str]:
        return texts(window)

    def close(self) -> None:
        pass  # the connection is Django's
