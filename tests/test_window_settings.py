"""Each setting of a window is where its declaration says: column, REST, form, options, defaults and document."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import load_command_class
from django.http import QueryDict

from chatmemory.admin.display.window_words import SHOWN, setting_words
from chatmemory.admin.views.window import window_forms
from chatmemory.conf import DEFAULTS, window_default
from chatmemory.core.window import SETTINGS, Kind, Setting
from chatmemory.database.operations.replay import REPLAYED
from chatmemory.models import MAX_LIMIT, Conversation
from chatmemory.rest.serializers import ConversationSerializer, WindowSerializer
from chatmemory.rest.views.memory import VariantSerializer
from tests.support.factories import ConversationFactory
from tests.support.paths import ROOT

every_setting = pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.name)

OTHERS: dict[str, Any] = {
    "window": "messages",
    "limit": 7,
    "model": "gpt-4",
    "always_keep_system_message_first": True,
    "low_water": 70,
    "whole_turns": True,
    "keep_tool_results": 3,
    "reserve": 200,
    "compact_at": 80,
    "compact_keep": 30,
    "compact_keep_calls": 4,
}
"""Values that are not the defaults."""


@every_setting
def test_its_column(setting: Setting) -> None:
    column: Any = Conversation._meta.get_field(setting.name)
    assert column.null == setting.null
    assert (str(column.verbose_name), str(column.help_text)) == (setting.label, setting.help)
    bounds = {(type(each).__name__, each.limit_value) for each in column.validators if hasattr(each, "limit_value")}
    if setting.kind in (Kind.NUMBER, Kind.PERCENT):
        assert {("MinValueValidator", setting.least), ("MaxValueValidator", setting.most or MAX_LIMIT)} <= bounds


@every_setting
@pytest.mark.parametrize("serializer", [ConversationSerializer, WindowSerializer, VariantSerializer])
def test_its_fields_over_rest(setting: Setting, serializer: Any) -> None:
    field = serializer().fields.get(setting.name)
    if serializer is VariantSerializer and setting.name not in REPLAYED:
        assert field is None
        return
    assert (field.help_text, field.required, field.allow_null) == (setting.help, False, setting.null)
    if setting.kind in (Kind.NUMBER, Kind.PERCENT):
        assert (field.min_value, field.max_value) == (setting.least, setting.most or MAX_LIMIT)


@every_setting
@pytest.mark.django_db
def test_its_field_in_the_admin(setting: Setting) -> None:
    field = window_forms(ConversationFactory(), QueryDict())[0].fields.get(setting.name)
    assert (field is None) == (setting.name not in SHOWN)
    if field is not None:
        assert str(field.label).lower().startswith(setting.label)
        assert (field.help_text, field.required) == (setting.help, not setting.null)


@every_setting
@pytest.mark.parametrize("command", ["chatmemory_import", "chatmemory_replay"])
def test_its_options(setting: Setting, command: str) -> None:
    parser = load_command_class("chatmemory", command).create_parser("manage.py", command)
    option = parser._option_string_actions.get(f"--{setting.name.replace('_', '-')}")
    if command == "chatmemory_replay" and setting.name not in REPLAYED:
        assert option is None
    else:
        assert option is not None
        assert (option.dest, option.default) == (setting.name, None)
        assert parser.format_help()


@every_setting
@pytest.mark.django_db
def test_its_default_of_the_project(setting: Setting, settings: Any) -> None:
    assert DEFAULTS["WINDOW"][setting.name] == window_default(setting.name) == setting.default
    settings.CHATMEMORY = {"WINDOW": {setting.name: OTHERS[setting.name]}}
    made = Conversation.objects.create()
    made.refresh_from_db()
    assert getattr(made, setting.name) == OTHERS[setting.name] != setting.default


@every_setting
def test_its_words_tell_its_values_apart(setting: Setting) -> None:
    values = {setting.default, OTHERS[setting.name], *([None, 0, 1, 2] if setting.null else [])}
    assert len({setting_words(setting.name, value) for value in values}) == len(values)


def test_what_nobody_gave_words_has_its_label_and_value(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = Setting(name="keep_first", kind=Kind.NUMBER, null=True, label="keep first", help="")
    monkeypatch.setitem(SETTINGS, "keep_first", bare)
    assert setting_words("keep_first", 2000) == "keep first: 2,000"
    assert setting_words("keep_first", None) == "keep first: none"


def test_the_documents_table() -> None:
    lines = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8").splitlines()
    start = lines.index("| setting | value | default | what it does |") + 2
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[start : start + len(SETTINGS)]]
    assert rows == [
        [
            f"`{setting.name}`",
            setting.expected + (" or `None`" if setting.null else ""),
            f"`{setting.default!r}`".replace("'", '"'),
            setting.help,
        ]
        for setting in SETTINGS.values()
    ]
    assert not lines[start + len(SETTINGS)]
