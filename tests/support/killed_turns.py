"""Turns that are killed: ``python -m tests.support.killed_turns LOG``.

Each turn has a conversation and a process of its own. The first one is killed before its first statement, the second
one before its second, and so on, until a turn ends. The model writes the memory ID to the log at the end of each call.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from typing import Any

import django


def main(path: str) -> None:
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for moment in count(1):
        process = os.fork()
        if not process:
            take_turn(f"turn {moment}", moment, log)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if code != -signal.SIGKILL:
            sys.exit(code)


def take_turn(memory_id: str, moment: int, log: int) -> None:
    """Take a turn, and be killed before its statement number ``moment``."""
    from django.db import connection

    from chatmemory import AiMessage
    from chatmemory.assistant import Answered, Assistant, Usage
    from chatmemory.models import Conversation

    def model(messages: Any, tools: Any) -> Answered:
        os.write(log, f"{memory_id}\n".encode())
        return Answered(AiMessage("Yes."), Usage(input_tokens=5))

    statements = count(1)

    def kill(execute: Any, sql: str, *args: Any) -> Any:
        if next(statements) == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        return execute(sql, *args)

    conversation = Conversation.objects.create(memory_id=memory_id)
    with connection.execute_wrapper(kill):
        Assistant(model).chat(conversation, "Hi", idempotency_key="k")


if __name__ == "__main__":
    django.setup()
    main(sys.argv[1])
