"""Hostile requests: valid ones of every route, with everything about them bent at random."""

from __future__ import annotations

import base64
import copy
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, quote_from_bytes

from django.test import Client

__all__ = ["FuzzRequest", "Fuzzer"]

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]

LANGCHAIN4J = [
    {"type": "SYSTEM", "text": "You are kind."},
    {"type": "USER", "contents": [{"type": "TEXT", "text": "Hello"}], "name": "ann", "attributes": {"a": [1, {}]}},
    {
        "type": "USER",
        "contents": [
            {"type": "IMAGE", "image": {"url": "https://example.com/a.png"}, "detailLevel": "LOW"},
            {"type": "AUDIO", "audio": {"binaryData": "/w==", "mimeType": "audio/wav"}},
            {"type": "VIDEO", "video": {"base64Data": "aGk=", "mimeType": "video/mp4"}},
            {"type": "PDF", "pdfFile": {"base64Data": "aGk="}},
        ],
    },
    {
        "type": "AI",
        "text": None,
        "thinking": "hm",
        "toolExecutionRequests": [{"id": "1", "name": "look_up", "arguments": "{}"}],
        "attributes": {},
    },
    {"type": "TOOL_EXECUTION_RESULT", "id": "1", "toolName": "look_up", "text": "found", "isError": False},
    {"type": "CUSTOM", "attributes": {"any": {"thing": [1.5, True, None, "x"]}}},
]
OPENAI = [
    {"role": "system", "content": "You are kind."},
    {"role": "developer", "content": [{"type": "text", "text": "You are kind."}]},
    {"role": "user", "content": "Hello", "name": "ann"},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk=", "detail": "low"}},
            {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf"}},
        ],
    },
    {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}],
        "annotations": [{"type": "url_citation"}],
        "audio": {"id": "audio_1"},
    },
    {"role": "tool", "tool_call_id": "1", "content": "found"},
]
IDS = ["0", "1", "2", "answer-0", "answer-1-3", "answer", "a", "b"]
PARTS = [
    [{"type": "text", "text": "Hello"}],
    [
        {"type": "step-start"},
        {
            "type": "dynamic-tool",
            "toolName": "a",
            "toolCallId": "1",
            "state": "output-available",
            "input": {},
            "output": 1,
        },
        {"type": "text", "text": "Hello"},
    ],
]
SETTINGS = {
    "memory_id": "mine",
    "title": "A title",
    "metadata": {"a": {"b": [1, 2.5, None, "x"]}, "c": True},
    "window": "messages",
    "limit": 5,
    "model": "gpt-4o",
    "always_keep_system_message_first": True,
    "low_water": 60,
    "whole_turns": True,
    "keep_tool_results": 1,
    "compact_at": 80,
}
CLEARING = {"keep": 0, "exclude_tools": ["remember", "look_up"], "placeholder": "."}
DATES = [
    "2026-01-01T00:00:00Z", "2026-01-01", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00",
    "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "24:00", "2026-01-01T00:00:00+99:99",
    "-0001-01-01T00:00:00Z", "2026-W01-1", "now",
]  # fmt: skip
NUMBERS = [
    "0", "1", "-1", "2147483647", "2147483648", "9223372036854775808", "9" * 400, "9" * 5000, "1.5", "1e3", "0x10",
    " 1", "+1", "١", "²", "1_000", "00", "NaN", "Infinity", "true",
]  # fmt: skip
ODD_TEXTS = [
    "", " ", "\n", "%", "_", "\\", "'", '"', "';--", "$", "$.a[*]", '"a".b', "a.b", "a__b", "[0]", "{}", "*", "?", "#",
    "/", "//", "..", "\u202e", "\ufeff", "é", "e\u0301", "ß", "İ", "🙂", "👩‍👩‍👧", "\U0010ffff", "\uffff", "\x00",
    "\x01\x1f\x7f", "\u2028", "<script>", "<b>&amp;", "null", "None", "%s", "%(a)s", "{0.__class__}", "x" * 255,
    "x" * 256, "🙂" * 255, "x" * 300, "x" * 60_000, "%_" * 120,
]  # fmt: skip
# Written into the JSON as they are.
RAW = [
    "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e-400", "-0", "-0.0", "1E+2", "0.1e1", "9" * 20, "9" * 400,
    "9" * 1001, "1.7976931348623157e308", "5e-324", "2147483648", "-1", "0", "01", "+1", "1.", ".5", "0x1", "true",
    "True", "undefined", "''", r'"\u0000"', r'"\ud800"', r'"\udc00\ud800"', r'"\ud83d\ude42"', r'"\x41"', '"\t"', '"',
    "[", "{", "]", "}", "[,]", "{,}", '{"a"}', "[" * 40 + "]" * 40, "[" * 600 + "]" * 600,
    '{"a":' * 35 + "1" + "}" * 35, '{"a":' * 480 + "1" + "}" * 480, "[" * 3000, "/*c*/1", '{"":0}',
    '{"type":"AI","type":"USER"}', r'{"\ud800":1}', r'{"\u0000":1}', '{"a":1,"a":{}}', "[" + "1," * 2000 + "1]",
]  # fmt: skip
KEYS = [
    "", "type", "role", "messages", "text", "contents", "content", "id", "name", "owner", "owner_key", "version",
    "created_at", "__proto__", "attributes", "memory_id", "metadata", "limit", "\x00", "é", "a.b", "x" * 5000,
    "non_field_errors", "detail",
]  # fmt: skip
HEADERS = {
    "Idempotency-Key": [
        "k1", "k2", "k3", "", " ", "x" * 255, "x" * 256, "ÿ\xa0", "ключ".encode().decode("latin-1"), "%", "a b", '"q"',
    ],
    "If-Match": [
        "*", '"0"', '"1"', '"5"', 'W/"1"', '"1.abc"', "1", "", '"', '""', '"a", "0"', "x" * 3000,
        '"' + "9" * 5000 + '"', ",,,", '"\xff"', "*, *", '"." , W/', "W/*",
    ],
    "If-None-Match": ["*", '"0"', '"1.abc"', "", '"', 'W/"0.0"', "x" * 3000, '"a","b"', "\xff\xfe"],
    "Accept": [
        "*/*", "application/json", "application/problem+json", "text/html", "text/html;q=0.9,*/*", "", ";", "text",
        "a/b/c", "*/json", "application/json; indent=8", "application/json; indent=99999999999999",
        "application/json; indent=x", "application/json; q=\xff", "application/xml", ",", "image/*",
        "application/json; charset=nothing", "x" * 3000,
    ],
    "Content-Type": [
        "application/json", "application/json; charset=utf-8", "application/json; charset=utf-16",
        "application/json; charset=nothing", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
        "multipart/form-data; boundary=x", "", ";", "application", "application/jsonx", "application/merge-patch+json",
        "APPLICATION/JSON", "*/*", "application/json;" * 50, "\xff/\xfe",
    ],
    "Accept-Language": ["de", "xx-invalid", "*", "\xff" * 50],
    "Range": ["bytes=0-1"],
    "X-HTTP-Method-Override": ["DELETE"],
    "If-Modified-Since": ["Sat, 29 Oct 1994 19:43:31 GMT", "nonsense"],
}  # fmt: skip
PARAMETERS: dict[str, Sequence[str]] = {
    "owner": ["*", "1", "0", "-1", "me", *NUMBERS],
    "format": ["openai", "langchain4j", "json", "api", "admin", "html", "xml", "OPENAI"],
    "at": NUMBERS,
    "at_message": NUMBERS,
    "cursor": ["x", "====", "é", "cD0lMDA="],  # and others that are made from positions
    "page_size": NUMBERS,
    "ordering": [
        "position", "-position", "updated_at", "-created_at", "--position", "id", "owner__password", "position,", ",",
        "?",
    ],
    "search": ["a", "Hello"],
    "q": ["a", "Hello", '"Hello', "-a Hello", "a " * 400],
    "order": ["newest", "relevance", "oldest"],
    "prefix": ["true", "false", "1", ""],
    "since": DATES,
    "until": DATES,
    "title": ["A"],
    "memory_id": ["mine"],
    "metadata_key": ["a", "c", "a.b", "$", "0"],
    "state": ["retained", "evicted", "retained,evicted", "retained,retained,", ",", "gone"],
    "type": ["USER", "AI,SYSTEM", "user", ",", ",".join(["USER"] * 2000)],
    "reason": ["window", "cleared,orphan,tool_cleared", "summarized", "", "synthetic", ","],
    "origin": ["said", "said,cleared,copy,rewrite", "summary", "", "SAID", ",", "pinned"],
    "branch": ["current", "other", ""],
    "pinned": ["true", "false", "1", ""],
    "uncovered": ["true", "false", "1", ""],
    "window": ["messages", "tokens", "hours"],
    "group": ["day", "model", "operation", "owner", "conversation", ""],
    "from": DATES,
    "to": DATES,
    "model": ["gpt-5"],
    "operation": ["chat", "summary", "CHAT", "chat,title", ""],
    "status": ["ok", "failed", "OK", ""],
    "conversation": ["01935c5e-0000-7000-8000-000000000001", "mine", *NUMBERS],
    "has_evicted": ["true", "false", "1", "0", "maybe", "None"],
    "position_min": NUMBERS,
    "position_max": NUMBERS,
    **{f"{what}_{when}": DATES for what in ("created", "updated", "evicted") for when in ("after", "before")},
    "limit": NUMBERS,
    "unknown": ["1"],
    "": [""],
    "owner__password": ["x"],
    "x" * 2000: ["1"],
    "\x00": ["\x00"],
}  # fmt: skip
CONVERSATION_LIST = {
    "memory_id", "window", "title", "search", "has_evicted", "metadata_key", "created_after", "created_before",
    "updated_after", "updated_before", "ordering", "cursor", "page_size",
}  # fmt: skip
MESSAGE_LIST = {
    "state", "type", "reason", "origin", "branch", "pinned", "uncovered", "position_min", "position_max",
    "created_after", "created_before", "evicted_after", "evicted_before", "search", "ordering", "cursor", "page_size",
}  # fmt: skip
USAGE_LIST = {"operation", "model", "status", "ordering", "cursor", "page_size"}
USAGE = {"group", "from", "to", "model", "operation", "conversation"}
SEARCH = {"q", "order", "prefix", "type", "state", "since", "until", "page_size", "cursor"}
FREE_TEXT = {
    "metadata",
    "attributes",
    "title",
    "memory_id",
    "text",
    "content",
    "arguments",
    "name",
    "thinking",
    "limit",
    "model",
}
BROKEN_QUERIES = [
    "%",
    "%zz=%zz",
    "a=%ff%fe",
    "title=%ff",
    "&&&===",
    "title",
    "=",
    "title=a&title=b",
    "title=%00",
    "format=%ed%a0%80",
    "title=+",
]


@dataclass
class FuzzRequest:
    """One request, as a call that reproduces it."""

    method: str
    path: str
    query: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

    def send(self, client: Client) -> Any:
        headers = dict(self.headers)
        content_type = headers.pop("Content-Type", "application/json")
        return client.generic(self.method, self.path, self.body, content_type, headers=headers, QUERY_STRING=self.query)

    def __str__(self) -> str:
        headers = dict(self.headers)
        content_type = headers.pop("Content-Type", "application/json")
        shown = ", ".join(_short(part) for part in (self.method, self.path, self.body, content_type))
        return f"client.generic({shown}, headers={_short(headers)}, QUERY_STRING={_short(self.query)})"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 3000 else f"{text[:2000]} … {len(text)} characters … {text[-500:]}"


class Fuzzer:
    """Requests, the same for the same seed and addresses."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def request(self, conversations: Sequence[Any], memory_ids: Sequence[str]) -> FuzzRequest:
        """One request.

        Args:
            conversations: IDs of those that exist, own ones and others.
            memory_ids: of those that exist.
        """
        draw = self.random
        conversation = str(conversations[0] if draw.random() < 0.7 else draw.choice(conversations))
        openai = draw.random() < 0.3
        messages = OPENAI if openai else LANGCHAIN4J
        several = draw.choices(messages, k=draw.randrange(4))
        store = f"/api/stores/{self.segment(draw.choice([*memory_ids, 'new']))}/"
        base = f"/api/conversations/{conversation if draw.random() < 0.95 else self.segment(conversation)}/"
        summary = draw.choice([{"keep": 10}, {"through": draw.randrange(9), "text": "."}])
        windowed = ("window", "limit", "low_water", "whole_turns", "keep_tool_results")
        window = {name: SETTINGS[name] for name in windowed if draw.random() < 0.5}
        clearing = {name: value for name, value in CLEARING.items() if draw.random() < 0.7}
        position = f"{base}messages/{self.segment(draw.choice(['0', '1', '2', *NUMBERS]))}/"
        id = draw.choice(IDS)
        message = {"id": id, "role": draw.choice(["user", "assistant", "system"]), "parts": draw.choice(PARTS)}
        settings = {name: value for name, value in SETTINGS.items() if name != "memory_id" or draw.random() < 0.2}
        routes: list[tuple[float, str, str, Any]] = [
            (1.5, "POST", "/api/conversations/", settings),
            (1.5, "PATCH", base, {name: value for name, value in settings.items() if name != "memory_id"}),
            (3, "POST", f"{base}messages/", draw.choice([draw.choice(messages), {"messages": several}])),
            (1.5, "PUT", f"{base}memory/", {"messages": several}),
            (1.5, "POST", f"{base}memory/preview/", {**window, "model": "gpt-4o", "messages": several}),
            (1, "POST", f"{position}pin/", None),
            (0.5, "POST", f"{position}unpin/", None),
            (1, "POST", f"{base}memory/clear-tool-results/", clearing),
            (1, "GET", f"{base}compaction/", None),
            (1.5, "POST", f"{base}compaction/", summary),
            (1, "POST", f"{base}memory/replay/", {"variants": [window] * draw.randrange(4)}),
            (1.5, "PUT", store, [message for message in several if "type" in message]),
            (1, "GET", store, None),
            (2, "GET", "/api/conversations/", None),
            (0.5, "GET", base, None),
            (2, "GET", f"{base}messages/", None),
            (1, "GET", "/api/search/", None),
            (1, "GET", f"{base}search/", None),
            (1, "GET", position, None),
            (0.5, "PUT", f"{position}feedback/", {"value": draw.choice(["up", "down"]), "comment": "Why?"}),
            (0.2, "DELETE", f"{position}feedback/", None),
            (0.3, "GET", f"{base}feedback/", None),
            (0.5, "GET", f"{base}usage/", None),
            (1, "GET", "/api/usage/", None),
            (0.5, "POST", f"{base}rewind/", {"before": draw.randrange(5)}),
            (0.5, "POST", f"{base}edit/", {"position": draw.randrange(5), "message": draw.choice(messages)}),
            (0.5, "POST", f"{base}switch/", {"position": draw.randrange(5)}),
            (0.2, "POST", f"{base}fork/", {"at": draw.randrange(5), "title": "A title"}),
            (0.5, "GET", f"{base}tree/", None),
            (1, "PUT", f"{base}tree/{self.segment(id)}/", {"parentId": draw.choice([None, *IDS]), "message": message}),
            (0.3, "DELETE", f"{base}tree/{self.segment(id)}/", None),
            (1.5, "GET", f"{base}memory/", None),
            (0.1, "DELETE", f"{base}memory/", None),
            (0.05, "DELETE", base, None),
            (0.1, "DELETE", store, None),
        ]
        [(_, method, path, body)] = draw.choices(routes, [weight for weight, *_ in routes])
        if draw.random() < 0.08:
            method = draw.choice(METHODS)
        return FuzzRequest(
            method,
            path,
            self.query(method, path, openai and "/stores/" not in path),
            b"" if body is None else self.body(body),
            self.headers(),
        )

    def segment(self, text: str) -> str:
        """A part of a path, escaped, and mostly not what it was."""
        draw = self.random
        match draw.randrange(8):
            case 0 | 1 | 2:
                return quote(text, safe="")
            case 3:
                return quote(draw.choice(ODD_TEXTS)[:400], safe=draw.choice(["", "/"])) or "%20"
            case 4:
                return quote(text + draw.choice(ODD_TEXTS)[:400], safe="/")
            case 5:
                return quote_from_bytes(draw.randbytes(draw.randrange(1, 12)))
            case 6:
                return draw.choice(["%ff", "%c3%28", "%ed%a0%80", "%f4%90%80%80", "%", "%zz", "%2F%2e%2e", "a%0Ab", "a%0D%0A", "%00", "%E2%80%A8"])  # fmt: skip  # noqa: E501
            case _:
                return "/".join([quote(text)] * draw.randrange(1, 4))

    def query(self, method: str, path: str, openai: bool) -> str:
        draw = self.random
        known = set() if openai else {"format"}
        if draw.random() < 0.25:
            known.add("owner")
        if method in {"GET", "HEAD"}:
            if path == "/api/conversations/":
                known |= CONVERSATION_LIST
            elif path.endswith("/messages/"):
                known |= MESSAGE_LIST
            elif path.endswith("/search/"):
                known |= SEARCH
            elif path == "/api/usage/":
                known |= USAGE
            elif path.endswith("/usage/"):
                known |= USAGE_LIST
            elif path.endswith("/memory/"):
                known |= {"at", "at_message"}
        pairs = ["format=openai"] if openai else []
        if draw.random() < (0.7 if method in {"GET", "HEAD"} else 0.1):
            names = draw.sample(sorted(known), min(len(known), draw.choice([1, 1, 1, 1, 2, 3])))
            if draw.random() < 0.05:
                names.append(draw.choice(list(PARAMETERS)))
            if "cursor" in known and draw.random() < 0.2:
                names = sorted({*names, "cursor"})
            for name in names:
                value = draw.choice(PARAMETERS[name] if draw.random() < 0.6 else ODD_TEXTS)
                if name == "cursor" and draw.random() < 0.8:
                    value = self.cursor()
                pairs.append(f"{quote(name)}={quote(value)}")
        if draw.random() < 0.03:
            pairs.append(draw.choice(BROKEN_QUERIES))
        return "&".join(pairs)

    def cursor(self) -> str:
        """A cursor as pages have them, with anything for a place in it."""
        draw = self.random
        place = draw.choice([*NUMBERS, *DATES, *ODD_TEXTS])
        parts = [f"p={quote(place)}", "r=1", f"o={draw.choice(NUMBERS)}"]
        return base64.b64encode("&".join(draw.sample(parts, draw.randrange(1, 4))).encode()).decode()

    def headers(self) -> dict[str, str]:
        draw = self.random
        chances = {
            "Accept": 0.08,
            "Content-Type": 0.05,
            "Idempotency-Key": 0.2,
            "If-Match": 0.12,
            "If-None-Match": 0.12,
        }
        return {
            name: draw.choice(values) for name, values in HEADERS.items() if draw.random() < chances.get(name, 0.02)
        }

    def body(self, valid: Any) -> bytes:
        draw = self.random
        value = copy.deepcopy(valid)
        for _ in range(draw.choice([0, 1, 1, 1, 1, 2, 4])):
            value = self.bend(value)
        text = _encode(value)
        if draw.random() < 0.15:
            text = self.twice(text)
        data = text.encode("utf-8", "surrogatepass")
        return self.break_bytes(data) if draw.random() < 0.12 else data

    def bend(self, value: Any) -> Any:
        """``value`` with one place of it changed."""
        places = list(_places(value))
        free = [place for place in places if FREE_TEXT & set(place)]
        place = self.random.choice(free if free and self.random.random() < 0.6 else places)
        if not place:
            return self.odd(value) if self.random.random() < 0.3 else value
        holder = value
        for step in place[:-1]:
            holder = holder[step]
        last = place[-1]
        match self.random.randrange(6):
            case 0:
                del holder[last]
            case 1 if isinstance(holder, dict):
                holder[self.random.choice(KEYS)] = holder.pop(last)
            case 2 if isinstance(holder, dict):
                holder[self.random.choice(KEYS)] = self.odd(holder[last])
            case 3 if isinstance(holder, list):
                holder.insert(self.random.randrange(len(holder) + 1), self.odd(holder[last]))
            case _:
                holder[last] = self.odd(holder[last])
        return value

    def odd(self, value: Any) -> Any:
        draw = self.random
        choices: list[Callable[[], Any]] = [
            lambda: draw.choice(ODD_TEXTS), lambda: draw.choice(ODD_TEXTS) + (value if isinstance(value, str) else ""),
            lambda: _Raw(draw.choice(RAW)),
            lambda: draw.choice([None, True, False, 0, -1, 1.5, [], {}, "", [[]], {"": None}, 10**30]),
            lambda: [value], lambda: {"type": value}, lambda: str(value),
            lambda: [value] * draw.choice([2, 101, 0]) if len(str(value)) < 200 else [value, value],
            lambda: "".join(chr(draw.randrange(1, 0x11000)) for _ in range(draw.randrange(30))),
            lambda: draw.choice(["x", "🙂", "\n", "a "]) * draw.choice([9, 400, 3000]),
            lambda: "x" * 400_001 if draw.random() < 0.05 else "",
            lambda: draw.choice([*LANGCHAIN4J, *OPENAI, SETTINGS]),
        ]  # fmt: skip
        return copy.deepcopy(draw.choice(choices)())

    def twice(self, text: str) -> str:
        """One of the keys of an object again, with another value."""
        found = list(re.finditer(r'"\w+": ', text))
        if not found:
            return text
        key, opening = self.random.choice(found)[0], text.find("{")
        return f"{text[: opening + 1]}{key}{self.random.choice(RAW)}, {text[opening + 1 :]}"

    def break_bytes(self, data: bytes) -> bytes:
        draw = self.random
        at = draw.randrange(len(data) + 1)
        match draw.randrange(8):
            case 0:
                return data[:at]
            case 1:
                return data[:at] + draw.randbytes(3) + data[at:]
            case 2:
                return data[:at] + data[at + draw.randrange(1, 9) :]
            case 3:
                return draw.choice(
                    [b"", b" ", b"\x00", b"null", b'""', b"[]", b"{}", b"0", b"[null]", b"[[]]", b"[{}]", b"a=b&c=d"]
                )
            case 4:
                return b"\xef\xbb\xbf" + data
            case 5:
                return data.decode("utf-8", "replace").encode(draw.choice(["utf-16", "utf-32", "utf-16-le"]))
            case 6:
                return data + draw.choice([data, b",", b"]", b"\x00", b" x", b"\n\n", b"\xc0\x80"])
            case _:
                depth = draw.choice([10, 499, 501, 5000])
                return b"[" * depth + data + b"]" * depth


class _Raw:
    """Text that goes into the JSON as it is."""

    def __init__(self, text: str) -> None:
        self.text = text


def _encode(value: Any) -> str:
    raw: list[str] = []

    def keep(item: Any) -> str:
        raw.append(item.text)
        return f"\uf8ff{len(raw) - 1}\uf8ff"

    text = json.dumps(value, default=keep, ensure_ascii=False)
    return re.sub('"\uf8ff(\\d+)\uf8ff"', lambda found: raw[int(found[1])], text)


def _places(value: Any, place: tuple[Any, ...] = ()) -> Any:
    yield place
    if isinstance(value, dict):
        for key in value:
            yield from _places(value[key], (*place, key))
    elif isinstance(value, list):
        for index in range(min(len(value), 20)):
            yield from _places(value[index], (*place, index))
