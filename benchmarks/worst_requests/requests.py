"""Requests to every address of the API and of the admin, as an attacker might send them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import urlencode

from benchmarks.worst_requests.contents import KINDS, MOST_BYTES, batch, text

__all__ = ["Asked", "Site", "filling", "random_request", "warm_up"]

_FORMATS = ["langchain4j", "openai", "openai-responses", "anthropic", "gemini"]
_SIZES = [MOST_BYTES, MOST_BYTES // 3, MOST_BYTES // 10]
_LIMITS = [2_000_000_000, 2_000_000, 1_000_000, 2_000]  # the widest that is accepted is used


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request."""

    name: str
    """What is asked, for the table."""

    method: str
    path: str
    body: bytes = b""
    content_type: str = "application/json"


@dataclass
class Site:
    """The user and the conversations that requests name."""

    user: Any
    small: str
    """The primary key of an empty conversation, whose pages warm a worker up."""

    conversations: dict[str, str] = field(default_factory=dict)
    """The primary keys of conversations, with the kind of their messages."""


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def filling(random: Random, requests: int, ask: Callable[[Asked], Any], site: Site) -> None:
    """Create a conversation for each kind of messages, with the widest window that the API allows, and fill it.

    Args:
        random: makes the messages.
        requests: additions to each conversation.
        ask: sends a request, and returns the status and the JSON of its answer.
        site: gets the conversations.
    """
    for kind in KINDS:
        for limit in _LIMITS:
            wide = {"window": "tokens", "limit": limit, "title": text(random, 200).replace("\x00", ""), "metadata": {}}
            asked = Asked(name="POST conversations/", method="POST", path="/api/conversations/", body=_json(wide))
            status, answer = ask(asked)
            if status == 201:
                break
        else:
            raise RuntimeError(f"no conversation was made: {answer}")
        site.conversations[answer["id"]] = kind
        for _ in range(requests):
            path = f"/api/conversations/{answer['id']}/messages/"
            for most_bytes in _SIZES:  # the largest that is accepted
                body = _json({"messages": batch(random, kind, most_bytes)})
                status, _answer = ask(Asked(name=f"POST messages/ ({kind})", method="POST", path=path, body=body))
                if status == 201:
                    break


def warm_up(site: Site) -> list[Asked]:
    """Return small requests that make a worker load its vocabulary, templates and modules."""
    pk = site.small
    pages = [_admin(pk, part) for part in ("change/", "memory/", "window/")]
    said = _json({"messages": [{"type": "USER", "contents": [{"type": "TEXT", "text": "Hello"}]}]})
    return [
        *[Asked(name="", method="GET", path=path) for path in (*pages, _api(pk, "memory/"), _api(pk, "messages/"))],
        Asked(name="", method="POST", path=_api(pk, "memory/preview/"), body=said),
    ]


def random_request(random: Random, site: Site) -> Asked:
    """Return a random request, which may be invalid."""
    pk = random.choice(list(site.conversations))
    kind = site.conversations[pk]
    return random.choice(_ROUTES)(random, site, pk, kind)


def _get(name: str, path: str, **query: Any) -> Asked:
    given = {key: value for key, value in query.items() if value is not None}
    shown = " ".join(f"{key}={str(value)[:20]!a}" for key, value in given.items())
    return Asked(name=f"GET {name} {shown}", method="GET", path=f"{path}?{urlencode(given)}" if given else path)


def _some(random: Random, *values: Any) -> Any:
    return random.choice([None, *values])


def _search(random: Random) -> str:
    return random.choice(["zzz", "a" * 99 + "b", "a" * 254 + "b", "the quick brown cat", "%" * 99, "é" * 90, "1"])


def _api(pk: str, part: str = "") -> str:
    return f"/api/conversations/{pk}/{part}"


def _admin(pk: str, part: str) -> str:
    return f"/admin/chatmemory/conversation/{pk}/{part}"


def _list_messages(random: Random, site: Site, pk: str, kind: str) -> Asked:
    return _get(
        f"messages/ ({kind})",
        _api(pk, "messages/"),
        page_size=_some(random, 200, 10_000),
        ordering=_some(random, "position", "-position"),
        search=_some(random, _search(random)),
        format=_some(random, "langchain4j", "openai"),
        state=_some(random, "retained", "evicted"),
    )


def _list_conversations(random: Random, site: Site, pk: str, kind: str) -> Asked:
    search = _some(random, _search(random))
    return _get("conversations/", "/api/conversations/", page_size=_some(random, 200), search=search)


def _one_message(random: Random, site: Site, pk: str, kind: str) -> Asked:
    return _get(f"messages/… ({kind})", _api(pk, f"messages/{random.randrange(100)}/"))


def _memory(random: Random, site: Site, pk: str, kind: str) -> Asked:
    at = _some(random, random.randrange(8))
    return _get(f"memory/ ({kind})", _api(pk, "memory/"), format=random.choice(_FORMATS), at=at)


def _window(random: Random) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if random.random() < 0.5:
        given |= {"window": random.choice(["tokens", "messages"]), "limit": random.choice([1, *_LIMITS])}
    if random.random() < 0.7:
        given["model"] = random.choice(["gpt-4", "gpt-4o", "o4-mini", "x" * 255])
    return given


def _preview(random: Random, site: Site, pk: str, kind: str) -> Asked:
    body = _window(random)
    other = random.choice(KINDS)
    if random.random() < 0.5:
        body["messages"] = batch(random, other, random.choice(_SIZES))
    return Asked(
        name=f"POST memory/preview/ ({kind}; {', '.join(body)})",
        method="POST",
        path=_api(pk, "memory/preview/"),
        body=_json(body),
    )


def _patch(random: Random, site: Site, pk: str, kind: str) -> Asked:
    body = _window(random)
    return Asked(name=f"PATCH conversation ({kind}; {body})"[:90], method="PATCH", path=_api(pk), body=_json(body))


def _describe(random: Random, site: Site, pk: str, kind: str) -> Asked:
    metadata = random.choice([{"x": text(random, 19_000)}, {f"k{n}": n for n in range(1_500)}, {"l": [0] * 9_000}])
    return Asked(
        name="PATCH conversation (metadata)", method="PATCH", path=_api(pk), body=_json({"metadata": metadata})
    )


def _add(random: Random, site: Site, pk: str, kind: str) -> Asked:
    other = random.choice(KINDS)
    return Asked(
        name=f"POST messages/ ({other} to {kind})",
        method="POST",
        path=_api(pk, "messages/"),
        body=_json({"messages": batch(random, other, random.choice(_SIZES))}),
    )


def _put(random: Random, site: Site, pk: str, kind: str) -> Asked:
    other = random.choice(KINDS)
    messages = batch(random, other, random.choice(_SIZES))
    if other == "short":
        messages = (messages * 100)[:10_000]
    return Asked(
        name=f"PUT memory/ ({other} over {kind})",
        method="PUT",
        path=_api(pk, "memory/"),
        body=_json({"messages": messages}),
    )


def _store(random: Random, site: Site, pk: str, kind: str) -> Asked:
    path = f"/api/stores/{random.choice('abc')}/"
    if random.random() < 0.5:
        return _get("stores/", path)
    other = random.choice(KINDS)
    messages = (batch(random, other, random.choice(_SIZES)) * (10 if other == "short" else 1))[:2_000]
    return Asked(name=f"PUT stores/ ({other})", method="PUT", path=path, body=_json(messages))


def _junk(random: Random, site: Site, pk: str, kind: str) -> Asked:
    junk: Any = random.choice(
        [
            b"[" * 5_800_000,
            b'{"messages": [' + b"0," * 2_900_000 + b"0]}",
            b'{"messages": [' + b'{"":0},' * 800_000 + b"{}]}",
            b'{"messages": [' + b"1" * 5_800_000 + b"]}",
            _json({"messages": [{"type": "USER", "contents": [], text(random, 300_000): 1}]}),
            _json({text(random, 300_000): 1}),
            b'"' + b"\\u0001" * 900_000 + b'"',
            b" " * 5_800_000,
            b'"' + b"," * 5_800_000 + b'"',
            b'"' + b'\\"' * 2_800_000,
        ]
    )
    return Asked(name=f"POST messages/ ({junk[:24]!a}…)", method="POST", path=_api(pk, "messages/"), body=junk)


def _timeline(random: Random, site: Site, pk: str, kind: str) -> Asked:
    whole = _some(random, 0, 3)
    return _get(f"admin: timeline ({kind})", _admin(pk, "change/"), position=_some(random, 0, 60, 99), whole=whole)


def _past(random: Random, site: Site, pk: str, kind: str) -> Asked:
    download, version = _some(random, *_FORMATS), _some(random, 1, 3, 8)
    return _get(f"admin: past memory ({kind})", _admin(pk, "memory/"), version=version, download=download)


def _try(random: Random, site: Site, pk: str, kind: str) -> Asked:
    limit = random.choice([1, 1_000, 1_000_000, 2_000_000_000])
    window = random.choice(["tokens", "messages"])
    return _get(f"admin: window ({kind})", _admin(pk, "window/"), **{"1-window": window, "1-limit": limit})


def _pages(random: Random, site: Site, pk: str, kind: str) -> Asked:
    page = random.choice(["clear", "delete", "export/jsonl", *(f"export/{name}" for name in _FORMATS)])
    return _get(f"admin: {page} ({kind})", _admin(pk, f"{page}/"))


def _lists(random: Random, site: Site, pk: str, kind: str) -> Asked:
    model = random.choice(["conversation", "message"])
    q = _some(random, _search(random))
    page = _some(random, 1)
    return _get(f"admin: list of {model}s", f"/admin/chatmemory/{model}/", q=q, p=page)


def _home(random: Random, site: Site, pk: str, kind: str) -> Asked:
    path = random.choice(["/admin/", "/admin/chatmemory/", f"/admin/auth/user/{site.user.pk}/delete/"])
    return _get(f"admin: {path}", path)


_ROUTES: list[Callable[[Random, Site, str, str], Asked]] = [
    *[_list_messages, _memory, _preview, _patch, _add, _put, _timeline, _past, _try] * 2,
    *[_list_conversations, _one_message, _describe, _store, _junk, _pages, _lists, _home],
]
