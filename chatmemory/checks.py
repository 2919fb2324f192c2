"""The system checks: settings, apps and databases. Each error says how to correct it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.checks import CheckMessage, Error, Warning
from django.db import router
from django.template import engines
from django.template.utils import get_app_template_dirs
from django.urls import get_resolver
from django.utils.module_loading import import_string

from chatmemory.addresses import api_places
from chatmemory.conf import (
    DEFAULTS,
    default_limit,
    first_day_of,
    is_assistant,
    is_assistant_or_function,
    problem_of_path,
    setting,
    window_default,
)
from chatmemory.core.tokens import ENCODING_NAMES
from chatmemory.core.window import SETTINGS, without_preset
from chatmemory.formats import MessageFormat
from chatmemory.models.conversation_names import kept_names
from chatmemory.models.window_settings import check_stored

_NAME = re.compile("[a-z0-9]+([-_][a-z0-9]+)*")
_RATE = re.compile("[1-9][0-9]*/(s|sec|second|m|min|minute|h|hour|d|day)")


def _positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _names(formats: Any) -> bool:
    return isinstance(formats, dict) and all(isinstance(name, str) and _NAME.fullmatch(name) for name in formats)


def _rates(rates: Any) -> bool:
    if not isinstance(rates, dict) or not rates.keys() <= DEFAULTS["THROTTLE_RATES"].keys():
        return False
    return all(rate is None or (isinstance(rate, str) and _RATE.fullmatch(rate)) for rate in rates.values())


_PRICES = frozenset(
    {
        "input",
        "output",
        "cache_read",
        "cache_write",
        "cache_write_1h",
        "input_audio",
        "cache_read_audio",
        "output_audio",
        "web_searches",
    }
)


def _prices(prices: Any) -> bool:
    return isinstance(prices, dict) and all(
        isinstance(model, str) and all(map(_is_entry, price if isinstance(price, (list, tuple)) else [price]))
        for model, price in prices.items()
    )


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    tiers, currency = entry.get("tiers", {}), entry.get("currency", "USD")
    prices = {name: value for name, value in entry.items() if name not in ("from", "currency", "tiers")}
    return (
        isinstance(tiers, dict)
        and isinstance(currency, str)
        and re.fullmatch("[A-Z]{3}", currency) is not None
        and all(
            isinstance(each, dict) and {"input"} <= each.keys() <= _PRICES and all(map(_is_number, each.values()))
            for each in (prices, *tiers.values())
        )
    )


def _days_of_prices(prices: Any) -> bool:
    """Return whether each model has prices with different first days; of other values their own rule tells."""
    if not _prices(prices):
        return True
    for given in prices.values():
        try:
            days = [first_day_of(entry) for entry in (given if isinstance(given, (list, tuple)) else [given])]
        except ValueError:
            return False
        if len({*days}) < len(days) or any(type(day) is not date for day in days):
            return False
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) and 0 <= value < float("inf")


# Dotted paths have their own check.
_RULES: list[tuple[str, str, Callable[[Any], bool], str]] = [
    ("E003", "WINDOW", lambda v: isinstance(v, dict), 'Set it to a dict such as {"limit": 4000, "low_water": 70}.'),
    ("E006", "FALLBACK_ENCODING", lambda v: v in ENCODING_NAMES, f"Set it to one of {', '.join(ENCODING_NAMES)}."),
    ("E007", "KEEP_HISTORY", lambda v: isinstance(v, bool), "Set it to True or False."),
    ("E039", "CALIBRATE_TOKENS", lambda v: isinstance(v, bool), "Set it to True or False."),
    ("E008", "MAX_MESSAGE_CHARS", _positive, "Set it to a whole number above zero."),
    ("E009", "MAX_BATCH", _positive, "Set it to a whole number above zero."),
    (
        "E010",
        "PERMISSION_CLASSES",
        lambda v: isinstance(v, (list, tuple)),
        "Set it to a list of dotted paths of permission classes.",
    ),
    ("E011", "MAX_MEMORY_MESSAGES", _positive, "Set it to a whole number above zero."),
    ("E012", "MAX_BODY_BYTES", _positive, "Set it to a whole number above zero."),
    ("E013", "PAGE_SIZE", _positive, "Set it to a whole number above zero."),
    ("E014", "MAX_PAGE_SIZE", _positive, "Set it to a whole number above zero."),
    ("E019", "MAX_LIMIT", _positive, "Set it to a whole number above zero."),
    ("E020", "MAX_MEMORY_CHARS", _positive, "Set it to a whole number above zero."),
    ("E021", "MAX_PAGE_CHARS", _positive, "Set it to a whole number above zero."),
    ("E016", "MAX_METADATA_CHARS", _positive, "Set it to a whole number above zero."),
    ("E017", "ERASE_USER", lambda v: v in ("erase", "anonymise"), 'Set it to "erase" or "anonymise".'),
    ("E040", "USERS", lambda v: v in ("turns", "all"), 'Set it to "turns" or "all".'),
    (
        "E041",
        "USERS_SEE",
        lambda v: isinstance(v, (list, tuple)) and all(each in ("instructions", "tools") for each in v),
        'Set it to a list of "instructions", "tools", or both.',
    ),
    (
        "E038",
        "SUMMARIZER_TIMEOUT",
        lambda v: _is_number(v) and v > 0,
        "Set it to a number of seconds above zero.",
    ),
    (
        "E029",
        "PRICES",
        _prices,
        'Set it to a dict such as {"gpt-4o": {"input": 2.5, "cache_read": 1.25, "output": 10}}: prices per million '
        f"tokens. Each model needs the price of its input, and may have: {', '.join(sorted(_PRICES - {'input'}))}, "
        "from, currency and tiers.",
    ),
    (
        "E042",
        "PRICES",
        _days_of_prices,
        'Give each price of a model another first day: "from", a date or a text such as "2026-01-31".',
    ),
    (
        "E018",
        "FORMATS",
        _names,
        "Set it to a dict of names (lower-case letters and digits, separated by single - or _) and dotted paths of "
        "MessageFormats.",
    ),
    (
        "E015",
        "THROTTLE_RATES",
        _rates,
        'Set it to a dict of "reads", "writes", "previews", "searches" and "turns", each None or a rate such as '
        '"100/minute".',
    ),
]


def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """Return an error for each key of ``CHATMEMORY`` that is unknown or has an invalid value.

    Valid values that are probably a mistake are warnings.
    """
    given = getattr(settings, "CHATMEMORY", {})
    if not isinstance(given, dict):
        hint = "Set it to a dict, or leave it out."
        return [Error(f"CHATMEMORY is not a dict, but: {given!r:.100}.", hint=hint, id="chatmemory.E001")]
    wrong = [*_unknown_keys(given), *_wrong_values(), *_wrong_window(), *_wrong_paths()]
    return wrong or list(_doubtful_values())


def _unknown_keys(given: dict[Any, Any]) -> Iterator[CheckMessage]:
    for key in given:
        moved = str(key).removeprefix("DEFAULT_").lower()
        if key not in DEFAULTS and str(key).startswith("DEFAULT_") and moved in SETTINGS:
            hint = f"Move it to {moved!r} in the dict CHATMEMORY['WINDOW']."
            yield Error(f"CHATMEMORY has an old key: {key!r}.", hint=hint, id="chatmemory.E002")
        elif key not in DEFAULTS:
            yield _unknown_key("CHATMEMORY", key, str(key).upper(), DEFAULTS)
    window = setting("WINDOW")
    for key in window if isinstance(window, dict) else ():
        if key not in (*SETTINGS, "preset"):
            yield _unknown_key("CHATMEMORY['WINDOW']", key, str(key).lower(), (*SETTINGS, "preset"))


def _unknown_key(place: str, key: Any, likely: str, known: Iterable[str]) -> CheckMessage:
    close = get_close_matches(likely, known, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Take it out, or use one of {', '.join(known)}."
    return Error(f"{place} has an unknown key: {key!r}.", hint=hint, id="chatmemory.E002")


def _wrong_window() -> Iterator[CheckMessage]:
    if not isinstance(setting("WINDOW"), dict):
        return
    wrong = set()
    try:
        without_preset(setting("WINDOW"))
    except ValueError as error:
        preset = setting("WINDOW")["preset"]
        yield Error(f"CHATMEMORY['WINDOW']['preset'] is {preset!r}.", hint=f"{error}.", id="chatmemory.E004")
    for name in SETTINGS:
        value = window_default(name)
        if name == "limit" and value is None:
            continue
        try:
            check_stored(name, value)
        except ValueError as error:
            wrong.add(name)
            yield Error(f"CHATMEMORY['WINDOW'][{name!r}] is {value!r}.", hint=f"{error}.", id="chatmemory.E004")
    most = setting("MAX_LIMIT")
    if wrong.isdisjoint({"window", "limit"}) and _positive(most) and default_limit() > most:
        yield Error(
            f"The limit of new conversations is {default_limit()}, more than CHATMEMORY['MAX_LIMIT'], {most}.",
            hint="Set the limit in WINDOW to at most MAX_LIMIT, or raise MAX_LIMIT.",
            id="chatmemory.E033",
        )


def _wrong_values() -> Iterator[CheckMessage]:
    wrong = set()
    for code, name, holds, hint in _RULES:
        value = setting(name)
        if not holds(value):
            wrong.add(name)
            yield Error(f"CHATMEMORY[{name!r}] is {value!r}.", hint=hint, id=f"chatmemory.{code}")
    size, most = setting("PAGE_SIZE"), setting("MAX_PAGE_SIZE")
    if wrong.isdisjoint({"PAGE_SIZE", "MAX_PAGE_SIZE"}) and size > most:
        yield Error(
            f"CHATMEMORY['PAGE_SIZE'] is {size}, which is greater than MAX_PAGE_SIZE, {most}.",
            hint="Set PAGE_SIZE to at most MAX_PAGE_SIZE, or raise MAX_PAGE_SIZE.",
            id="chatmemory.E023",
        )


def _wrong_paths() -> Iterator[CheckMessage]:
    classes = setting("PERMISSION_CLASSES")
    if isinstance(classes, (list, tuple)):
        hint = "Set it to a list of dotted paths of permission classes."
        for index, path in enumerate(classes):
            yield from _wrong_path("E010", f"['PERMISSION_CLASSES'][{index}]", path, hint, "a permission class")
    formats = setting("FORMATS")
    if isinstance(formats, dict):
        hint = "Set it to the dotted path of a chatmemory.formats.MessageFormat."
        for name, path in formats.items():
            yield from _wrong_path("E018", f"['FORMATS'][{name!r}]", path, hint, "a MessageFormat", _is_format)
    path = setting("STAFF_CONVERSATIONS")
    if path is not None:
        hint = "Set it to the dotted path of a function that takes a user and returns a queryset of conversations."
        yield from _wrong_path("E022", "['STAFF_CONVERSATIONS']", path, hint, "a function")
    path = setting("THREAD_CONTEXT")
    if path is not None:
        hint = "Set it to the dotted path of a function that returns a function that returns a context manager."
        yield from _wrong_path("E045", "['THREAD_CONTEXT']", path, hint, "a function")
    path = setting("SUMMARIZER")
    if path is not None:
        hint = "Set it to the dotted path of a function that takes messages and the summary before them."
        yield from _wrong_path("E031", "['SUMMARIZER']", path, hint, "a function")
    path = setting("ASSISTANT")
    if path is not None:
        hint = "Set it to the dotted path of an Assistant, or of a function that takes the request and returns one."
        yield from _wrong_path(
            "E032", "['ASSISTANT']", path, hint, "a function or an Assistant", is_assistant_or_function
        )


def _doubtful_values() -> Iterator[CheckMessage]:
    if not setting("PERMISSION_CLASSES"):
        yield Warning(
            "CHATMEMORY['PERMISSION_CLASSES'] is empty, so the REST API does not check permissions.",
            hint="Remove it to require that users are signed in. To check nothing, set it to "
            '["rest_framework.permissions.AllowAny"].',
            id="chatmemory.W035",
        )
    named = {name: import_string(path) for name in ("ASSISTANT", "SUMMARIZER") if (path := setting(name)) is not None}
    for name, found in named.items():
        # Found by its method, because checks must not import the assistant. What a function or a class returns is
        # unknown.
        if not isinstance(found, type) and (key := getattr(found, "missing_key", str)()):
            yield Warning(
                f"CHATMEMORY[{name!r}], {setting(name)!r}, has no API key: the environment variable {key} is not set.",
                hint=f"Set {key}, or create the model with a client that has a key.",
                id="chatmemory.W034",
            )
    assistant = named.get("ASSISTANT")
    is_known = assistant is None or is_assistant(assistant)
    summarizes = "SUMMARIZER" in named or getattr(assistant, "summarizer", None) is not None
    compact_at = window_default("compact_at")
    if compact_at is not None and is_known and not summarizes:
        yield Warning(
            f"CHATMEMORY['WINDOW']['compact_at'] is {compact_at}, but nothing writes summaries.",
            hint="Set SUMMARIZER, or pass a summarizer to the Assistant in ASSISTANT.",
            id="chatmemory.W036",
        )
    if compact_at is None and summarizes:
        yield Warning(
            "There is a summarizer, but CHATMEMORY['WINDOW']['compact_at'] is None, so in new conversations no summary "
            "becomes due.",
            hint='Set it to a percentage of the limit, or set the preset "long". If conversations get a compact_at of '
            'their own, or summaries are made by hand only, add "chatmemory.W037" to SILENCED_SYSTEM_CHECKS.',
            id="chatmemory.W037",
        )


def _is_format(value: Any) -> bool:
    return isinstance(value, MessageFormat)


def _wrong_path(
    code: str, place: str, path: Any, hint: str, kind: str, holds: Callable[[Any], bool] = callable
) -> Iterator[CheckMessage]:
    problem = problem_of_path(path, kind, holds)
    # An error, although ``migrate`` then makes no tables either. Django does the same for ROOT_URLCONF and
    # CSRF_FAILURE_VIEW, and ``migrate`` is the only command of many deployments that runs checks: it stops them before
    # anything has changed, where a warning would be lost in a log, and users would get the error.
    if problem is not None:
        yield Error(f"CHATMEMORY{place}, {path!r}, {problem}.", hint=hint, id=f"chatmemory.{code}")


_APPS_WITH_PAGES = ("rest_framework", "django_filters")


def check_apps(**kwargs: Any) -> list[CheckMessage]:
    """Return an error for each missing app that the browsable REST API needs."""
    missing = [name for name in _APPS_WITH_PAGES if not apps.is_installed(name)]
    if not (missing and _has_api() and _has_pages()):
        return []
    return [
        Error(
            f"The browsable REST API needs {name!r}, which is not in INSTALLED_APPS.",
            hint=f'Add "{name}" to INSTALLED_APPS, or remove the BrowsableAPIRenderer from '
            'REST_FRAMEWORK["DEFAULT_RENDERER_CLASSES"].',
            id="chatmemory.E024",
        )
        for name in missing
    ]


_CHAT_TAG = re.compile(rb"\{%-?\s*chatmemory_(chat|conversations)\b")


def check_authentication(**kwargs: Any) -> list[CheckMessage]:
    """Return a warning if a template draws a chat, but the REST API does not read the session that the chat sends."""
    if not _has_api() or _reads_sessions():
        return []
    template = next(_templates_with_chats(), None)
    if template is None:
        return []
    return [
        Warning(
            f"The chat in {template} sends the user's session to the REST API, which no class in "
            "REST_FRAMEWORK['DEFAULT_AUTHENTICATION_CLASSES'] reads, so that users get the status 401.",
            hint='Add "rest_framework.authentication.SessionAuthentication" after the other classes. If one of them '
            'reads the session or a cookie, add "chatmemory.W045" to SILENCED_SYSTEM_CHECKS.',
            id="chatmemory.W045",
        )
    ]


def _templates_with_chats() -> Iterator[Path]:
    """Yield the files of templates that use the tags of the chat."""
    for engine in engines.all():
        for folder in (*engine.dirs, *get_app_template_dirs(engine.app_dirname or "templates")):
            for file in sorted(Path(str(folder)).rglob("*.*")):
                if file.is_file() and _CHAT_TAG.search(file.read_bytes()):
                    yield file


def check_databases(**kwargs: Any) -> list[CheckMessage]:
    """Return an error if a router sends tables that refer to each other to different databases."""
    user = get_user_model()
    users = router.db_for_write(user)
    if kept_names(users) is not None:
        return []  # the tables are distributed by conversation, and each node is the same database
    return [
        Error(
            f"{model._meta.label} is in the database {database!r}, but {user._meta.label} is in {users!r}.",
            hint=f"Send {user._meta.label} and all models of chatmemory to one database in DATABASE_ROUTERS, because "
            "their rows refer to each other.",
            id="chatmemory.E025",
        )
        for model in apps.get_models()
        if model.__module__.startswith("chatmemory.") and (database := router.db_for_write(model)) != users
    ]


def _has_api() -> bool:
    return bool(getattr(settings, "ROOT_URLCONF", None)) and any(True for _ in api_places(get_resolver()))


def _reads_sessions() -> bool:
    from rest_framework.authentication import SessionAuthentication
    from rest_framework.settings import api_settings

    classes: Any = api_settings.DEFAULT_AUTHENTICATION_CLASSES
    return any(issubclass(each, SessionAuthentication) for each in classes)


def _has_pages() -> bool:
    from rest_framework.renderers import BrowsableAPIRenderer
    from rest_framework.settings import api_settings

    renderers: Any = api_settings.DEFAULT_RENDERER_CLASSES
    return any(issubclass(renderer, BrowsableAPIRenderer) for renderer in renderers)
