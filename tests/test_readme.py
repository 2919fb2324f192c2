"""Every Python block of the README and of docs/frameworks.md runs, in its order, as a reader would type it."""

from __future__ import annotations

import gc
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from chatmemory.conf import DEFAULTS
from chatmemory.models import Conversation
from chatmemory.signals import messages_evicted
from tests.support.paths import ROOT


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


class ChatCompletions(BaseHTTPRequestHandler):
    """The part of OpenAI's protocol that the example needs; it answers how many messages it was sent."""

    asked: list[Any]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body["messages"])
        text = f"I got {len(body['messages'])} messages."
        streams = body.get("stream", False)
        said = {"role": "assistant", "content": text}
        completion = {
            "id": "1",
            "object": "chat.completion.chunk" if streams else "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "delta" if streams else "message": said}],
        }
        answer = (f"data: {json.dumps(completion)}\n\ndata: [DONE]\n\n" if streams else json.dumps(completion)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if streams else "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What a model on loopback was sent."""
    ChatCompletions.asked = []
    with HTTPServer(("127.0.0.1", 0), ChatCompletions) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield ChatCompletions.asked
        server.shutdown()
        thread.join()


@pytest.mark.django_db
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the example leaves its client to the garbage collector
def test_every_block_runs(asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, Any] = {}
    try:
        for block in blocks("README.md"):
            exec(compile(block, "README.md", "exec"), namespace)
    finally:
        messages_evicted.disconnect(namespace.pop("summarise_later", None))
    assert [message["role"] for message in asked[0]] == ["system", "user"]
    # One memory; one for each user; in the database; one for each user there; with tools, streamed.
    assert [len(messages) for messages in asked] == [2, 1, 3, 1, 1, 3, 1, 1, 3, 3]
    printed = capsys.readouterr().out
    assert "I got 2 messages." in printed
    assert "\nI got 3 messages.\nAdded(" in printed
    assert Conversation.objects.get(title="Hello").messages.history().count() == 10
    assert namespace["CHATMEMORY"] == DEFAULTS
    namespace.clear()
    gc.collect()  # now, for later the warning would be another test's
    assert len(blocks("README.md")) == 16


@pytest.mark.django_db
def test_the_frameworks_get_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, Any] = {}
    for block in blocks("docs/frameworks.md"):
        exec(compile(block, "docs/frameworks.md", "exec"), namespace)
    langchain, llama_index = capsys.readouterr().out.splitlines()
    assert langchain.startswith("[HumanMessage(content='Hi! My name is Ann.'")
    assert llama_index.startswith("[ChatMessage(role=<MessageRole.USER: 'user'>")
    assert {"answer", "answer_sync"} <= namespace.keys()
