"""A server on loopback that speaks the part of OpenAI's protocol that examples need."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

__all__ = ["chat_completions"]


class _ChatCompletions(BaseHTTPRequestHandler):
    """It answers how many messages it was sent."""

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


@contextmanager
def chat_completions() -> Iterator[tuple[str, list[Any]]]:
    """Serve; give the address for ``OPENAI_BASE_URL``, and the list of the messages of each request."""

    class Handler(_ChatCompletions):
        asked = []

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1", Handler.asked
        server.shutdown()
        thread.join()
