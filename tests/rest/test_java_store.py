"""The Java class of docs/rest.md, compiled against stand-ins of LangChain4j's classes and run against our server."""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from chatmemory import AiMessage, ChatMessage, SystemMessage, UserMessage, messages_from_json, messages_to_json
from chatmemory.models import Conversation
from chatmemory.stores import DjangoChatMemoryStore
from tests.support.factories import UserFactory

pytestmark = [pytest.mark.java, pytest.mark.django_db(transaction=True)]

_ROOT = Path(__file__).parents[2]
_STAND_INS = _ROOT / "tests/java"
_TOKEN = "a-token"
_PATIENCE = 60  # seconds, for what takes milliseconds


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the compiled classes."""
    folder = tmp_path_factory.mktemp("classes")
    _, _, code = (_ROOT / "docs/rest.md").read_text().partition("```java\n")
    (folder / "HttpChatMemoryStore.java").write_text(code.partition("```")[0])
    options = ["-Xlint:all", "-Werror", "--release", "17", "-sourcepath", f"{_STAND_INS}:{folder}", "-d", str(folder)]
    subprocess.run(["javac", *options, str(_STAND_INS / "Program.java")], check=True)
    return folder


class Gateway(ThreadingHTTPServer):
    """A proxy that passes requests on to our server, in the name of a user, except for those that go wrong."""

    daemon_threads = True

    def __init__(self, server: str, user: Any) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.server = server.removeprefix("http://")
        credentials = base64.b64encode(f"{user.username}:password".encode()).decode()
        self.headers = {"Authorization": f"Basic {credentials}"}
        self.passed_on: list[tuple[str, int]] = []
        self.troubles: deque[tuple[str, bool]] = deque()
        self.late: list[tuple[str, str, bytes, dict[str, str]]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/api/stores/"

    def hold_back(self, method: str) -> None:
        """Let the next request of this method wait for ``let_go``; its sender sees a connection that is closed."""
        self.troubles.append((method, False))

    def lose_answer(self, method: str) -> None:
        """Pass the next request of this method on, and close the connection instead of answering."""
        self.troubles.append((method, True))

    def let_go(self) -> list[int]:
        """Pass on what was held back, and return the answers' status codes."""
        answers = [self.pass_on(*request)[0] for request in self.late]
        self.late.clear()
        return answers

    def pass_on(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, Any, bytes]:
        connection = http.client.HTTPConnection(self.server, timeout=_PATIENCE)
        try:
            connection.request(method, path, body, headers | self.headers)
            answer = connection.getresponse()
            self.passed_on.append((method, answer.status))
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Gateway

    def exchange(self) -> None:
        assert self.headers["Authorization"] == f"Token {_TOKEN}"
        kept = {name: self.headers[name] for name in ("Content-Type", "If-Match") if name in self.headers}
        request = self.command, self.path, self.rfile.read(int(self.headers.get("Content-Length", 0))), kept
        troubles = self.server.troubles
        trouble = troubles.popleft() if troubles and troubles[0][0] == self.command else None
        if trouble == (self.command, False):
            self.server.late.append(request)
        else:
            status, headers, body = self.server.pass_on(*request)
        if trouble is not None:
            self.close_connection = True
            return
        self.send_response(status)
        for name in "ETag", "Content-Type":
            if name in headers:
                self.send_header(name, headers[name])
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_DELETE = exchange

    def log_message(self, *args: Any) -> None:
        pass


class Program:
    """The Java program."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def take(self, verb: str, memory_id: str, *messages: ChatMessage) -> str:
        """Take a step of tests/java/Program.java, and return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{verb}\t{memory_id}\t{messages_to_json(messages)}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().rstrip("\n")

    def messages(self, memory_id: str) -> list[ChatMessage]:
        return messages_from_json(self.take("get", memory_id))


@pytest.fixture
def owner(transactional_db: None) -> Any:
    return UserFactory()


@pytest.fixture
def gateway(live_server: Any, owner: Any) -> Iterator[Gateway]:
    owner.set_password("password")
    owner.save()
    with Gateway(live_server.url, owner) as gateway:
        thread = Thread(target=gateway.serve_forever, daemon=True)
        thread.start()
        yield gateway
        gateway.shutdown()
        thread.join()


@contextmanager
def running(classes: Path, gateway: Gateway, way: str) -> Iterator[Program]:
    command = ["java", "-cp", str(classes), "-Dstdout.encoding=UTF-8", "Program", gateway.address, _TOKEN, way]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        yield Program(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=_PATIENCE) == 0


@pytest.fixture(params=["sync", "async"])
def program(request: pytest.FixtureRequest, classes: Path, gateway: Gateway) -> Iterator[Program]:
    """Calls the three methods, or those that LangChain4j calls for a CompletableFuture or a Flow.Publisher."""
    with running(classes, gateway, request.param) as program:
        yield program


@pytest.fixture
def another(classes: Path, gateway: Gateway) -> Iterator[Program]:
    with running(classes, gateway, "sync") as program:
        yield program


A, B, C = UserMessage("one"), AiMessage("two 二"), UserMessage("three")
CHANGED = "java.util.ConcurrentModificationException: Memory {} has changed since it was read. "
CHANGED += "Read it again, and decide whether you still want this."


def test_a_program_keeps_its_memory_here(program: Program, gateway: Gateway, owner: Any) -> None:
    name = "support 42/é"
    assert program.messages(name) == []
    for message in A, B, C:
        assert program.take("add", name, message) == "done"
    assert program.messages(name) == [A, B, C]
    assert program.take("set", name, A, C) == "done"
    assert program.take("set", name, A) == "done"
    assert program.take("set", "elsewhere", SystemMessage("s"), B) == "done"
    assert program.messages("elsewhere") == [SystemMessage("s"), B]
    assert program.take("delete", name) == "done"
    assert program.messages(name) == []
    conversation = Conversation.objects.get(owner=owner, memory_id=name)
    assert [row.message for row in conversation.messages.history()] == [A, B, C]
    assert {status for _method, status in gateway.passed_on} == {200, 204}


def test_an_update_that_arrives_late_takes_no_message_away(program: Program, gateway: Gateway, owner: Any) -> None:
    program.take("add", "m", A)
    gateway.hold_back("PUT")
    assert program.take("add", "m", B) == "done"
    assert program.take("add", "m", C) == "done"
    assert gateway.let_go() == [412]
    assert program.messages("m") == [A, B, C]
    assert not Conversation.objects.get(owner=owner).messages.evicted()


def test_a_deletion_that_arrives_late_takes_no_message_away(program: Program, gateway: Gateway) -> None:
    program.take("add", "m", A)
    gateway.hold_back("DELETE")
    assert program.take("delete", "m") == "done"
    assert program.take("add", "m", B) == "done"
    assert gateway.let_go() == [412]
    assert program.messages("m") == [B]


@pytest.mark.parametrize(("method", "verb", "left"), [("PUT", "add", [A, B]), ("DELETE", "delete", [])])
def test_what_was_done_is_done_though_its_answer_was_lost(
    method: str, verb: str, left: list[ChatMessage], program: Program, gateway: Gateway, owner: Any
) -> None:
    program.take("add", "m", A)
    gateway.lose_answer(method)
    assert program.take(verb, "m", B) == "done"
    assert [status for how, status in gateway.passed_on if how == method][-2:] == [204, 412]
    assert program.messages("m") == left
    assert program.take("set", "m", *left, C) == "done"
    assert [row.message for row in Conversation.objects.get(owner=owner).messages.retained()] == [*left, C]


def test_what_another_program_added_is_not_overwritten(program: Program, another: Program, owner: Any) -> None:
    program.take("add", "m", A)
    another.take("add", "m", B)
    assert program.take("set", "m", A, C) == CHANGED.format("m")
    assert program.take("set", "m", A, C) == CHANGED.format("m")  # nobody has read it
    assert program.take("add", "m", C) == "done"
    assert program.messages("m") == [A, B, C]
    assert another.take("delete", "m") == "done"  # what is there now, whoever wrote it
    assert DjangoChatMemoryStore(owner=owner).get_messages("m") == []


def test_what_the_server_refuses_is_an_exception(program: Program, gateway: Gateway) -> None:
    program.take("add", "m", A)
    answer = program.take("add", "x" * 300, A)
    assert answer.startswith('java.lang.IllegalStateException: 400: {"type":"urn:chatmemory:problem:invalid"')
    gateway.hold_back("PUT")
    gateway.hold_back("PUT")
    assert "IOException" in program.take("add", "m", B)
    assert gateway.let_go() == [204, 412]
    assert json.loads(program.take("get", "m")) == json.loads(messages_to_json([A, B]))
