"""A process that takes turns: ``python -m tests.support.assistant_speaker CONVERSATION NAME COUNT LOG``.

Its model says what it was asked, a little later. Each turn is written to the log before it begins and when it is
answered. With COUNT 0 its model never answers, and it prints ``thinking`` when it is asked; its turns last a second.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import django


def main(conversation_id: str, name: str, count: int, path: str) -> None:
    from chatmemory import AiMessage, UserMessage
    from chatmemory.assistant import Assistant
    from chatmemory.models import Conversation

    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def model(messages: Sequence[Any], tools: Any) -> AiMessage:
        last = messages[-1]
        assert isinstance(last, UserMessage)
        if not count:
            print("thinking", flush=True)  # noqa: T201
            time.sleep(600)
        time.sleep(0.005)
        return AiMessage(f"Re: {last.single_text()}")

    assistant = Assistant(
        model,
        memory=lambda key: Conversation.objects.get(pk=key).memory,
        turn_timeout=60 if count else 1,
        wait_timeout=120,
    )
    for number in range(max(count, 1)):
        text = f"{name} {number}"
        answer = assistant.chat(conversation_id, text)
        assert answer.text == f"Re: {text}", f"{text!r} was answered by {answer.text!r}"
        os.write(log, f"{text}\n".encode())


if __name__ == "__main__":
    django.setup()
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
