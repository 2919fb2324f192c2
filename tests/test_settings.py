"""The settings, and what the system checks say of wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin import site
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured

from chatmemory import MessageWindowChatMemory, UserMessage
from chatmemory.contrib.native_memory import NativeMemory
from chatmemory.core.window import SETTINGS
from chatmemory.models import Conversation
from chatmemory.stores import DjangoChatMemoryStore

# Checks of other apps ask every database what it can do.
pytestmark = pytest.mark.django_db(databases="__all__")


def ids() -> list[str]:
    return [error.id for error in run_checks() if error.id.startswith("chatmemory.")]


def test_defaults_are_fine(settings: Any) -> None:
    assert ids() == []
    settings.CHATMEMORY = {}
    assert ids() == []


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ([], "E001"),
        ({"KEEP_HISTORIES": 1}, "E002"),
        ({"WINDOW": {"LIMIT": 1}}, "E002"),
        ({"WINDOW": {"limits": 1, "low_water": 70}}, "E002"),
        ({"WINDOW": None}, "E003"),
        ({"WINDOW": "tokens"}, "E003"),
        ({"WINDOW": {"window": None}}, "E004"),
        ({"WINDOW": {"window": []}}, "E004"),
        ({"WINDOW": {"window": "hours"}}, "E004"),
        ({"WINDOW": {"limit": 0}}, "E004"),
        ({"WINDOW": {"limit": True}}, "E004"),
        ({"WINDOW": {"limit": 2**31}}, "E004"),
        ({"WINDOW": {"model": " "}}, "E004"),
        ({"WINDOW": {"low_water": 0}}, "E004"),
        ({"WINDOW": {"low_water": 101}}, "E004"),
        ({"WINDOW": {"low_water": True}}, "E004"),
        ({"WINDOW": {"low_water": 70.0}}, "E004"),
        ({"WINDOW": {"whole_turns": 1}}, "E004"),
        ({"WINDOW": {"always_keep_system_message_first": "yes"}}, "E004"),
        ({"WINDOW": {"always_keep_system_message_first": None}}, "E004"),
        ({"WINDOW": {"compact_at": 0}}, "E004"),
        ({"WINDOW": {"model": "m" * 256}}, "E004"),
        ({"WINDOW": {"whole_turns": None}}, "E004"),
        ({"WINDOW": {"keep_tool_results": -1}}, "E004"),
        ({"WINDOW": {"keep_tool_results": False}}, "E004"),
        ({"WINDOW": {"keep_tool_results": 0.0}}, "E004"),
        ({"WINDOW": {"keep_tool_results": 2**31}}, "E004"),
        ({"FALLBACK_ENCODING": "p50k_base"}, "E006"),
        ({"KEEP_HISTORY": "no"}, "E007"),
        ({"MAX_MESSAGE_CHARS": None}, "E008"),
        ({"MAX_BATCH": "many"}, "E009"),
        ({"MAX_MEMORY_MESSAGES": 0}, "E011"),
        ({"MAX_BODY_BYTES": "10 MB"}, "E012"),
        ({"MAX_LIMIT": 0}, "E019"),
        ({"MAX_MEMORY_CHARS": None}, "E020"),
        ({"MAX_PAGE_CHARS": "many"}, "E021"),
        ({"PAGE_SIZE": 0}, "E013"),
        ({"MAX_PAGE_SIZE": None}, "E014"),
        ({"PAGE_SIZE": 201}, "E023"),
        ({"MAX_PAGE_SIZE": 49}, "E023"),
        ({"THROTTLE_RATES": {"write": "1/day"}}, "E015"),
        ({"THROTTLE_RATES": {"writes": "often"}}, "E015"),
        ({"THROTTLE_RATES": {"writes": "0/day"}}, "E015"),
        ({"THROTTLE_RATES": "1/day"}, "E015"),
        ({"MAX_METADATA_CHARS": 0}, "E016"),
        ({"ERASE_USER": "forget"}, "E017"),
        ({"SUMMARIZER_TIMEOUT": 0}, "E038"),
        ({"SUMMARIZER_TIMEOUT": None}, "E038"),
        ({"SUMMARIZER_TIMEOUT": float("inf")}, "E038"),
        ({"ERASE_USER": ["erase"]}, "E017"),
        ({"FORMATS": ["tests.formats.test_registry.SHOUTED"]}, "E018"),
        ({"FORMATS": {"shouted": "nobody.Knows"}}, "E018"),
        ({"FORMATS": {"shouted": "chatmemory.formats.openai.to_openai"}}, "E018"),
        ({"FORMATS": {"Shouted!": "tests.formats.test_registry.SHOUTED"}}, "E018"),
        ({"FORMATS": {"shouted": None}}, "E018"),
        ({"PERMISSION_CLASSES": "rest_framework.permissions.AllowAny"}, "E010"),
        ({"PERMISSION_CLASSES": ["nobody.Knows"]}, "E010"),
        ({"STAFF_CONVERSATIONS": len}, "E022"),
        ({"STAFF_CONVERSATIONS": "nobody"}, "E022"),
        ({"STAFF_CONVERSATIONS": ["tests.support.tenants.acme"]}, "E022"),
        ({"ASSISTANT": len}, "E032"),
        ({"ASSISTANT": "nobody"}, "E032"),
        ({"ASSISTANT": "tests.support.tenants.not_callable"}, "E032"),
        ({"THREAD_CONTEXT": len}, "E045"),
        ({"THREAD_CONTEXT": "nobody.knows"}, "E045"),
        ({"THREAD_CONTEXT": "tests.support.tenants.not_callable"}, "E045"),
    ],
    ids=str,
)
def test_each_mistake_has_its_code_and_a_hint(settings: Any, given: Any, code: str) -> None:
    settings.CHATMEMORY = given
    [error] = [error for error in run_checks() if error.id.startswith("chatmemory.")]
    assert error.id == f"chatmemory.{code}"
    assert error.hint


@pytest.mark.parametrize(
    "given",
    [
        {"WINDOW": {"low_water": 1, "whole_turns": True, "keep_tool_results": 0}},
        {"WINDOW": {"low_water": 100, "whole_turns": False, "keep_tool_results": 2**31 - 1}},
        {"WINDOW": {"keep_tool_results": None}},
        {"WINDOW": {"limit": None, "compact_at": None, "always_keep_system_message_first": True}},
        {"WINDOW": {}},
    ],
    ids=str,
)
def test_the_bounds_themselves_are_fine(settings: Any, given: Any) -> None:
    settings.CHATMEMORY = given
    assert ids() == []


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("keep_history", "Did you mean 'KEEP_HISTORY'?"),
        ("MAX_MESAGE_CHARS", "Did you mean 'MAX_MESSAGE_CHARS'?"),
        (5, "use one of WINDOW"),
    ],
)
def test_the_right_key_is_suggested(settings: Any, key: Any, hint: str) -> None:
    settings.CHATMEMORY = {key: 1}
    [error] = [error for error in run_checks() if error.id == "chatmemory.E002"]
    assert hint in error.hint


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("low_watter", "Did you mean 'low_water'?"),
        ("COMPACT_AT", "Did you mean 'compact_at'?"),
        (5, "use one of window"),
    ],
)
def test_the_right_key_of_a_window_is_suggested(settings: Any, key: Any, hint: str) -> None:
    settings.CHATMEMORY = {"WINDOW": {key: 1}}
    [error] = [error for error in run_checks() if error.id == "chatmemory.E002"]
    assert hint in error.hint
    assert "CHATMEMORY['WINDOW']" in error.msg


@pytest.mark.parametrize("name", list(SETTINGS))
def test_keys_of_before_have_a_new_place(settings: Any, name: str) -> None:
    settings.CHATMEMORY = {f"DEFAULT_{name.upper()}": SETTINGS[name].default}
    [error] = [error for error in run_checks() if error.id == "chatmemory.E002"]
    assert error.hint == f"Move it to {name!r} in the dict CHATMEMORY['WINDOW']."


def test_a_wrong_value_is_told_with_those_that_are_right(settings: Any) -> None:
    settings.CHATMEMORY = {"WINDOW": {"low_water": 101, "limit": 2**31}}
    assert [(error.msg, error.hint) for error in run_checks() if error.id == "chatmemory.E004"] == [
        ("CHATMEMORY['WINDOW']['limit'] is 2147483648.", "limit must be at most 2147483647, but is: 2147483648."),
        ("CHATMEMORY['WINDOW']['low_water'] is 101.", "low_water must be a percentage from 1 to 100, but is: 101."),
    ]


def test_a_window_that_is_no_dict_cannot_be_used(settings: Any) -> None:
    settings.CHATMEMORY = {"WINDOW": "tokens"}
    with pytest.raises(ImproperlyConfigured, match="must be a dict, but is: 'tokens'"):
        Conversation()


@pytest.mark.parametrize(
    ("given", "place"),
    [
        (lambda path: {"STAFF_CONVERSATIONS": path}, "['STAFF_CONVERSATIONS']"),
        (
            lambda path: {"PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated", path]},
            "['PERMISSION_CLASSES'][1]",
        ),
        (lambda path: {"FORMATS": {"mine": path}}, "['FORMATS']['mine']"),
        (lambda path: {"ASSISTANT": path}, "['ASSISTANT']"),
    ],
)
@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("nobody.support.tenants.acme", "'nobody' raises ModuleNotFoundError"),
        ("tests.suport.tenants.acme", "'tests.suport' raises ModuleNotFoundError"),
        ("tests.support.tenant.acme", "'tests.support.tenant' raises ModuleNotFoundError"),
        ("tests.support.tenants.acmee", "'tests.support.tenants' has no 'acmee'; did you mean 'acme'?"),
        ("tests.support.tenants.not_callable", "is not the path of a "),
        ("tests..tenants.acme", "is not the dotted path of a "),
        ("tests.support.broken.acme", "'tests.support.broken' raises LookupError: not ready"),
    ],
)
def test_it_says_which_part_of_a_path_is_wrong(settings: Any, given: Any, place: str, path: str, says: str) -> None:
    settings.CHATMEMORY = given(path)
    [error] = [error for error in run_checks() if error.id.startswith("chatmemory.")]
    assert f"CHATMEMORY{place}, {path!r}, " in error.msg
    assert says in error.msg
    settings.CHATMEMORY = {"STAFF_CONVERSATIONS": "tests.support.tenants.acme"}
    assert ids() == []


@pytest.mark.parametrize("formats", [{"mine": "nobody.Knows"}, {"mine": 5}, ["nobody.Knows"]], ids=str)
def test_a_wrong_format_does_not_keep_the_check_from_saying_so(settings: Any, formats: Any) -> None:
    settings.CHATMEMORY = {"FORMATS": formats}
    # The addresses are made while a project starts, so after the setting was made.
    assert any("export/openai" in str(address.pattern) for address in site.get_model_admin(Conversation).get_urls())
    assert ids() == ["chatmemory.E018"]


@pytest.mark.parametrize("name", ["TEA_SHOP", "by_host"])
def test_an_assistant_or_a_function_of_the_request_answers(settings: Any, name: str) -> None:
    settings.CHATMEMORY = {"ASSISTANT": f"tests.assistant.test_with_conversations.{name}"}
    assert ids() == []


def test_settings_are_read_on_every_access(settings: Any) -> None:
    settings.CHATMEMORY = {"WINDOW": {"window": "messages", "limit": 7, "model": "gpt-4"}}
    first = Conversation.objects.create()
    assert (first.window, first.limit, first.model) == ("messages", 7, "gpt-4")
    settings.CHATMEMORY = {"WINDOW": {"model": "some-new-model"}}
    second = Conversation.objects.create()
    assert (second.window, second.limit, second.model) == ("tokens", 4000, "some-new-model")
    counts = {}
    for fallback in ("o200k_base", "cl100k_base"):
        settings.CHATMEMORY = {"FALLBACK_ENCODING": fallback}
        change = second.memory.add(UserMessage("안녕하세요"))
        counts[fallback] = change.added[0].token_count
    assert counts == {"o200k_base": 6, "cl100k_base": 9}


MARKS = {"always_keep_system_message_first": True, "low_water": 70, "whole_turns": True, "keep_tool_results": 2}


@pytest.mark.parametrize(
    "make",
    [
        lambda api: Conversation.objects.create(memory_id="t"),
        lambda api: Conversation.objects.bulk_create([Conversation(memory_id="t")]),
        lambda api: NativeMemory("fw", "t").add([UserMessage("Hi")], [None]),
        lambda api: DjangoChatMemoryStore().update_messages("t", [UserMessage("Hi")]),
        lambda api: api.post("/api/conversations/", {"memory_id": "t"}, "application/json"),
        lambda api: api.put("/api/stores/t/", [{"type": "SYSTEM", "text": "Hi"}], "application/json"),
    ],
    ids=["the ORM", "many", "an adapter", "the store", "REST", "LangChain4j's store over REST"],
)
def test_whoever_makes_a_conversation_gets_the_defaults(settings: Any, api: Any, make: Callable[[Any], Any]) -> None:
    settings.CHATMEMORY = {"WINDOW": MARKS, "USERS": "all"}
    make(api)
    assert Conversation.objects.filter(memory_id="t").values(*MARKS).get() == MARKS
    settings.CHATMEMORY = {}
    usual = {"always_keep_system_message_first": False, "low_water": 100, "whole_turns": False}
    usual |= {"keep_tool_results": None}
    assert Conversation.objects.filter(pk=Conversation.objects.create().pk).values(*MARKS).get() == usual


def test_a_memory_with_a_window_of_its_own_describes_that(settings: Any) -> None:
    settings.CHATMEMORY = {"WINDOW": MARKS}
    MessageWindowChatMemory(id="t", max_messages=5, low_water=60, store=DjangoChatMemoryStore()).add(UserMessage("Hi"))
    given = {"always_keep_system_message_first": False, "low_water": 60, "whole_turns": False}
    given |= {"keep_tool_results": None}
    assert Conversation.objects.filter(memory_id="t").values(*MARKS).get() == given
