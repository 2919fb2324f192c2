"""A walk through a site: every link, form and file that its pages lead to.

Pages, filters and orders of lists are too many together, so an address is followed only if it asks for something new: a
path, or a value of a parameter that this path was not asked for before, and not for many values of one parameter.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode, urljoin, urlsplit

from django.db import transaction
from django.test import Client

__all__ = ["Answer", "crawl"]

_MOST_VALUES = 2
_MOST_ALIKE = 8
_MOST_ADDRESSES = 1500
# Who erases a user sees the log of all that the user did, and searches are in it with their words.
_NEVER = re.compile("/logout/|/password|/jsi18n/|/auth/")
_NOT_POSTED = re.compile("/compact/")  # which runs in no transaction, so that nothing could be undone

_BUTTONS = {"submit", "button", "image", "reset", "file"}


@dataclass(frozen=True)
class Answer:
    """An answer of the site."""

    asked: str
    """The method and the address, and of a form what was sent."""

    status: int

    said: str
    """Its headers, its body as it came, and the text of its body, without tags and entities."""


@dataclass
class Form:
    """A form of a page."""

    action: str
    method: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    buttons: list[tuple[str, str, str]] = field(default_factory=list)
    """Name, value and address of each button."""

    choices: list[tuple[str, list[str]]] = field(default_factory=list)
    """The values of each list of choices."""


class Page(HTMLParser):
    """The links and forms of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.forms: list[Form] = []
        self._by_id: dict[str, Form] = {}
        self._form: Form | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in has:
            self.links.append(has["href"])
        elif tag == "form":
            self._form = Form(has.get("action", ""), has.get("method", "get").lower())
            self.forms.append(self._form)
            self._by_id[has.get("id", "")] = self._form
        form = self._by_id.get(has["form"]) if "form" in has else self._form
        if form is None:
            return
        if tag == "button" or (tag == "input" and has.get("type") in _BUTTONS):
            form.buttons.append((has.get("name", ""), has.get("value", ""), has.get("formaction", "")))
        elif tag == "input" and has.get("name"):
            ticked = "on" if has.get("type") in {"checkbox", "radio"} else ""
            form.fields.append((has["name"], has.get("value", ticked)))
        elif tag == "textarea" and has.get("name"):
            form.fields.append((has["name"], ""))
        elif tag == "select" and has.get("name"):
            form.choices.append((has["name"], []))
        elif tag == "option" and form.choices:
            form.choices[-1][1].append(has.get("value", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None


def crawl(client: Client, start: str, *more: str) -> Iterator[Answer]:
    """Yield the answers that a browser of ``client`` gets from ``start`` and ``more`` on, below ``start``.

    What is posted is undone after the answer to it, and the page to which it leads, were read.
    """
    walk = _Walk(client, start, more)
    yield from walk.answers()


class _Walk:
    def __init__(self, client: Client, start: str, more: Iterable[str]) -> None:
        self._client = client
        self._start = start
        self._open = [start, *more]
        self._paths: dict[str, set[str]] = defaultdict(set)
        self._values: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._posted: set[tuple[Any, ...]] = set()

    def answers(self) -> Iterator[Answer]:
        asked = 0
        while self._open:
            address = self._open.pop(0)
            asked += 1
            assert asked < _MOST_ADDRESSES, "the site has no end"
            response = self._client.get(address)
            body = _body(response)
            yield _answer(f"GET {address}", response, body)
            if "Location" in response:
                self._follow(address, response["Location"])
            if not response.get("Content-Type", "").startswith("text/html"):
                continue
            page = Page(body)
            for link in page.links:
                self._follow(address, link)
            for form in page.forms:
                if form.method == "get":
                    self._ask(address, form)
                else:
                    yield from self._post(address, form)

    def _follow(self, page: str, link: str) -> None:
        address = urljoin(page, link).partition("#")[0]
        parts = urlsplit(address)
        if not parts.path.startswith(self._start) or parts.netloc or _NEVER.search(parts.path):
            return
        alike = self._paths[_kind_of(parts.path)]
        is_new = parts.path not in alike
        if is_new and len(alike) == _MOST_ALIKE:
            return
        alike.add(parts.path)
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            known = self._values[parts.path, name]
            if value not in known and len(known) < _MOST_VALUES:
                known.add(value)
                is_new = True
        if is_new:
            self._open.append(address)

    def _ask(self, page: str, form: Form) -> None:
        fields = [(name, value) for name, value in form.fields if value != ""]
        fields += [(name, values[0]) for name, values in form.choices if values]
        self._follow(page, f"{form.action.partition('?')[0] or urlsplit(page).path}?{urlencode(fields)}")
        for name, value in form.fields:
            if value == "":
                self._follow(page, f"{form.action or urlsplit(page).path}?{urlencode([(name, '1')])}")

    def _post(self, page: str, form: Form) -> Iterator[Answer]:
        for name, value, elsewhere in form.buttons or [("", "", "")]:
            address = urljoin(page, elsewhere or form.action)
            if not address.startswith(self._start) or _NEVER.search(address) or _NOT_POSTED.search(address):
                continue
            for choice in _choices(form):
                fields = [*form.fields, *choice, *([(name, value)] if name else [])]
                kind = (_kind_of(urlsplit(address).path), tuple(sorted({key for key, _ in fields})), tuple(choice))
                if kind in self._posted:
                    continue
                self._posted.add(kind)
                yield from self._undone(address, fields)

    def _undone(self, address: str, fields: list[tuple[str, str]]) -> Iterator[Answer]:
        data: dict[str, list[str]] = defaultdict(list)
        for name, value in fields:
            data[name].append(value)
        found = []
        with transaction.atomic():
            response = self._client.post(address, data)
            found.append(_answer(f"POST {address} {dict(data)}", response, _body(response)))
            if "Location" in response:
                after = urljoin(address, response["Location"])
                then = self._client.get(after, follow=True)
                found.append(_answer(f"GET {after} after POST {address}", then, _body(then)))
            transaction.set_rollback(True)
        yield from found


def _choices(form: Form) -> Iterator[list[tuple[str, str]]]:
    """Yield what may be chosen: each action of a list by itself; elsewhere the first value of each field."""
    for name, values in form.choices:
        if name == "action":
            for value in filter(None, values):
                yield [(name, value)]
            return
    yield [(name, values[0]) for name, values in form.choices if values]


def _kind_of(path: str) -> str:
    """Return the path without the keys of rows."""
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|(?<=/)\d+(?=/)", "*", path)


def _body(response: Any) -> str:
    whole: bytes = b"".join(response.streaming_content) if response.streaming else response.content
    return whole.decode()


def _answer(asked: str, response: Any, body: str) -> Answer:
    headers = unquote_plus(repr(response.headers))
    text = unescape(re.sub(r"<[^>]*>", "", body))
    return Answer(asked, response.status_code, f"{headers}\n{body}\n{text}")
