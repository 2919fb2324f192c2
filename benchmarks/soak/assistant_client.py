"""A client of ``tests.support.asgi_site``.

``python -m benchmarks.soak.assistant_client PORT NAME TURNS SEED LOG CONVERSATION…`` takes each turn until it is
answered, always with the same key, and writes down what it asks and what it is told. Of a log that is there it goes on
where that ends: it may have been killed.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["main"]


def main(port: int, name: str, turns: int, seed: str, path: Path, conversations: list[str]) -> None:
    """Take the turns that the log does not know as answered."""
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {record["text"] for record in records if record["act"] == "done"}
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(act: str, **what: Any) -> None:
        os.write(log, (json.dumps({"act": act, **what}) + "\n").encode())  # in one piece, whoever is killed

    for number in range(turns):
        text = f"{name}-{number}"
        chance = random.Random(f"{seed} {text}")
        where, way = chance.choice(conversations), chance.choice(["chat", "stream"])
        if text in done:
            continue
        while True:
            write("asked", text=text, conversation=where)
            problem, answer = _ask(port, where, way, text)
            if answer is not None:
                write("done", text=text, conversation=where, answer=answer)
                break
            write("failed", text=text, conversation=where, problem=problem)
            time.sleep(chance.random() * 0.05)


def _ask(port: int, conversation: str, way: str, text: str) -> tuple[str, str | None]:
    """Return the error, or the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("POST", f"/{conversation}/{way}/", json.dumps({"text": text, "key": text}))
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__, None
    finally:
        connection.close()
    if way == "chat":
        told = json.loads(body) if response.headers["Content-Type"] == "application/json" else {}
        return told.get("error", f"status {response.status}"), told.get("text")
    events = [json.loads(line) for line in body.splitlines()] if response.status == 200 else []
    if events and "done" in events[-1]:
        return "", "".join(event["piece"] for event in events[:-1]).rstrip()
    return (events[-1].get("error") if events else None) or f"status {response.status}", None


if __name__ == "__main__":
    _, port, name, turns, seed, path, *conversations = sys.argv
    main(int(port), name, int(turns), seed, Path(path), conversations)
