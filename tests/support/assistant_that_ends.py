"""A process that ends while a summary is made: ``python -m tests.support.assistant_that_ends CONVERSATION``."""

from __future__ import annotations

import sys

import django


def main(conversation_id: str) -> None:
    from chatmemory import AiMessage
    from chatmemory.assistant import Assistant
    from chatmemory.models import Conversation
    from tests.support.due_conversations import BlockedSummarizer

    summarizer = BlockedSummarizer()
    assistant = Assistant(
        lambda messages, tools: AiMessage("Seven."),
        memory=lambda key: Conversation.objects.get(pk=key).memory,
        summarizer=summarizer,
    )
    print(assistant.chat(conversation_id, "How many?").text)  # noqa: T201
    assert summarizer.asked.wait(60)


if __name__ == "__main__":
    django.setup()
    main(sys.argv[1])
