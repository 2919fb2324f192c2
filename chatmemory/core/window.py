"""The windows that bound memories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, TypedDict

from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.exceptions import gettext_noop as _
from chatmemory.core.json_text import require_storable
from chatmemory.core.messages import ChatMessage
from chatmemory.core.tokens import TokenCountEstimator, tokens_of, tokens_of_request


class WindowKind(StrEnum):
    """The unit that a window counts."""

    MESSAGES = "messages"
    TOKENS = "tokens"


USUAL_LIMITS = {WindowKind.MESSAGES: 20, WindowKind.TOKENS: 4000}
"""The default limit of each kind of window."""


@dataclass(frozen=True, kw_only=True)
class WindowRules:
    """The settings that decide what a window evicts. ``SETTINGS`` describes each."""

    limit: int
    always_keep_system_message_first: bool = False
    low_water: int = 100
    whole_turns: bool = False
    keep_tool_results: int | None = None
    reserve: int = 0
    compact_keep_calls: int | None = None


RULES = tuple(rule.name for rule in fields(WindowRules))


class WindowOptions(TypedDict, total=False):
    """The keyword arguments of every memory: ``WindowRules`` without the limit, which memories name differently."""

    always_keep_system_message_first: bool
    low_water: int
    whole_turns: bool
    keep_tool_results: int | None
    reserve: int
    compact_keep_calls: int | None


@dataclass(frozen=True, kw_only=True)
class Window(WindowRules):
    """The current window of a memory."""

    kind: WindowKind

    estimator: TokenCountEstimator | None = None
    """The estimator that counts tokens. A window of messages needs none."""

    def cost(self, message: ChatMessage) -> int:
        """Return the part of ``limit`` that ``message`` takes."""
        if self.kind is WindowKind.MESSAGES or self.estimator is None:
            return 1
        return tokens_of(message, self.estimator)

    @property
    def overhead(self) -> int:
        """The part of ``limit`` that a request takes in addition to its messages."""
        if self.kind is WindowKind.MESSAGES or self.estimator is None:
            return 0
        return tokens_of_request(self.estimator)

    @property
    def reserved(self) -> int:
        """The part of ``limit`` that stays free: ``reserve``, at most half of the limit; 0 in a window of messages."""
        return min(self.reserve, self.limit // 2) if self.kind is WindowKind.TOKENS else 0

    @property
    def room(self) -> int:
        """The part of ``limit`` that messages may take, including the overhead of a request."""
        return self.limit - self.reserved


class Kind(StrEnum):
    CHOICE = "choice"
    FLAG = "flag"
    NUMBER = "number"
    PERCENT = "percent"
    TEXT = "text"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting of a window. Its texts are English, marked for translation."""

    name: str

    kind: Kind

    default: Any = None
    """The value if neither the conversation nor the project's defaults set one."""

    label: str
    """The name for people, in lower case."""

    help: str
    """The effect. It does not mention None, which forms, commands and REST write differently."""

    least: int = 1
    """The smallest number."""

    most: int | None = None
    """The largest number, or the maximum number of characters. None means what the column can store."""

    choices: Mapping[str, str] = field(default_factory=dict)
    """The values of a choice, with their labels."""

    null: bool = False
    """Whether None is allowed; it means never, or no number."""

    words: str = ""
    """The effect on a window, with the placeholder ``%(value)s``."""

    words_for: Mapping[Any, str] = field(default_factory=dict)
    """The effect of single values, where ``words`` does not fit."""

    @property
    def expected(self) -> str:
        """The allowed values other than None."""
        match self.kind:
            case Kind.CHOICE:
                return f"one of {', '.join(self.choices)}"
            case Kind.FLAG:
                return "true or false"
            case Kind.PERCENT:
                return f"a percentage from {self.least} to {self.most}"
            case Kind.TEXT:
                return f"a string of 1 to {self.most} characters"
        return {0: "a whole number of at least zero", 1: "a whole number greater than zero"}.get(
            self.least, f"a whole number of at least {self.least}"
        )

    def problem_of(self, value: Any) -> str | None:
        """Return the error code of a value other than None; None if the value is valid."""
        match self.kind:
            case Kind.CHOICE:
                return None if isinstance(value, str) and value in self.choices else "invalid_choice"
            case Kind.FLAG:
                return None if isinstance(value, bool) else "invalid_type"
            case Kind.TEXT:
                if not isinstance(value, str):
                    return "invalid_type"
                if not value.strip():
                    return "blank"
                return "max_length" if self.most is not None and len(value) > self.most else None
        if isinstance(value, bool) or not isinstance(value, int):
            return "invalid_type"
        if value < self.least:
            return "min_value"
        return "max_value" if self.most is not None and value > self.most else None


SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting(
            name="window",
            kind=Kind.CHOICE,
            default=WindowKind.TOKENS.value,
            label=_("window"),
            help=_("What the limit counts: messages, or their tokens."),
            choices={WindowKind.MESSAGES.value: _("messages"), WindowKind.TOKENS.value: _("tokens")},
        ),
        Setting(
            name="limit",
            kind=Kind.NUMBER,
            label=_("limit"),
            help=_("The largest number of messages or tokens. Each kind of window has its own default."),
        ),
        Setting(
            name="model",
            kind=Kind.TEXT,
            default="gpt-4o",
            most=255,
            label=_("model"),
            help=_("The model whose tokens are counted."),
        ),
        Setting(
            name="always_keep_system_message_first",
            kind=Kind.FLAG,
            default=False,
            label=_("always keep system message first"),
            help=_("Whether a new system message goes to the front of the memory instead of its end."),
            words_for={
                False: _("a new system message comes last"),
                True: _("a new system message comes first"),
            },
        ),
        Setting(
            name="low_water",
            kind=Kind.PERCENT,
            default=100,
            most=100,
            label=_("low-water mark"),
            help=_("A full window evicts down to this percent of its limit. 100: only as much as needed."),
            words=_("evicts down to %(value)s%%"),
        ),
        Setting(
            name="whole_turns",
            kind=Kind.FLAG,
            default=False,
            label=_("whole turns"),
            help=_(
                "Whether whole turns are evicted: a user message and all messages after it, up to the next user "
                "message."
            ),
            words_for={False: _("message by message"), True: _("whole turns")},
        ),
        Setting(
            name="keep_tool_results",
            kind=Kind.NUMBER,
            least=0,
            null=True,
            label=_("keep tool results"),
            help=_(
                "When the window is full, placeholders replace old tool results. This is the number of the latest "
                "results that stay. Without a number, no result is replaced."
            ),
            words=_("keeps only the last %(value)s tool results"),
            words_for={
                None: _("clears no tool results"),
                0: _("clears old tool results"),
                1: _("keeps only the last tool result"),
            },
        ),
        Setting(
            name="reserve",
            kind=Kind.NUMBER,
            least=0,
            default=0,
            label=_("reserve"),
            help=_(
                "The tokens of the limit that stay free for other parts of a request, such as tools. At most half of "
                "the limit stays free. A window of messages has no reserve."
            ),
            words=_("keeps %(value)s tokens free"),
            words_for={0: _("keeps no tokens free")},
        ),
        Setting(
            name="compact_at",
            kind=Kind.PERCENT,
            most=100,
            null=True,
            label=_("summarise at"),
            help=_(
                "A summary of older turns is due when the memory has reached this percent of its limit, or when the "
                "window has evicted messages that no summary covers. Without a number, no summary is ever due."
            ),
            words=_("a summary is due at %(value)s%%"),
            words_for={None: _("no summary is due by itself")},
        ),
        Setting(
            name="compact_keep",
            kind=Kind.PERCENT,
            default=50,
            least=0,
            most=100,
            label=_("keep when summarising"),
            help=_(
                "When older turns are summarised, the latest turns that fit this percent of the limit stay. The last "
                "turn always stays."
            ),
            words=_("a summary leaves %(value)s%% as it is"),
        ),
        Setting(
            name="compact_keep_calls",
            kind=Kind.NUMBER,
            null=True,
            label=_("keep calls when summarising"),
            help=_(
                "If the last turn is too long to stay whole, its older tool calls are summarised, too. This is the "
                "number of its latest calls that stay. Its question stays, also when the window is full. Without a "
                "number, the last turn is never summarised."
            ),
            words=_("a summary leaves the last %(value)s tool calls of a long turn"),
            words_for={
                None: _("a summary leaves the last turn as it is"),
                1: _("a summary leaves the last tool call of a long turn"),
            },
        ),
    )
}
"""The settings by name, in the order in which they are shown."""


_TURNS = {"low_water": 70, "whole_turns": True}
_USUAL = {
    name: SETTINGS[name].default
    for name in (
        "low_water",
        "whole_turns",
        "keep_tool_results",
        "compact_at",
        "compact_keep",
        "compact_keep_calls",
    )
}


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Settings of a window for a use."""

    label: str
    """The use, as people read it, marked for translation."""

    settings: Mapping[str, Any]


PRESETS: dict[str, Preset] = {
    "langchain4j": Preset(label="LangChain4j", settings=_USUAL),
    "chat": Preset(label=_("Chat"), settings=_USUAL | _TURNS),
    "agent": Preset(label=_("Agent with tools"), settings=_USUAL | _TURNS | {"keep_tool_results": 3}),
    "long": Preset(
        label=_("Long chat with summaries"), settings=_USUAL | _TURNS | {"compact_at": 95, "compact_keep": 30}
    ),
}


def without_preset(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``settings`` with the settings of their ``preset`` instead of the preset. Explicit settings take
    precedence.

    Raises:
        InvalidValueError: the preset is unknown.
    """
    others = {name: value for name, value in settings.items() if name != "preset"}
    preset = settings.get("preset")
    if preset is None:
        return others
    if not isinstance(preset, str) or preset not in PRESETS:
        raise InvalidValueError(
            "%(name)s must be %(expected)s, but is: %(value)s",
            code="invalid_choice",
            name="preset",
            expected=f"one of {', '.join(PRESETS)}",
            value=f"{preset!r:.300}",
        )
    return {**PRESETS[preset].settings, **others}


class WindowSettings(TypedDict, total=False):
    """The settings of a window, as keyword arguments. ``SETTINGS`` describes each. A setting that is missing is
    unchanged.

    A setting that is None is also unchanged, unless None is one of its values. Without a limit, a new conversation, and
    one whose window changes its kind, get the default limit of the kind.
    """

    window: str | None
    limit: int | None
    model: str | None
    always_keep_system_message_first: bool | None
    low_water: int | None
    whole_turns: bool | None
    keep_tool_results: int | None
    reserve: int | None
    compact_at: int | None
    compact_keep: int | None
    compact_keep_calls: int | None

    preset: str | None
    """One of ``PRESETS``, whose settings apply unless they are also passed."""


def check(name: str, value: Any, called: str = "") -> Any:
    """Return ``value``.

    Args:
        name: the setting.
        value: a value for it.
        called: the name of the setting in the error, if it differs.

    Raises:
        InvalidValueError: the value is invalid for the setting.
    """
    setting, called = SETTINGS[name], called or name
    if value is None and setting.null:
        return value
    code = "null" if value is None else setting.problem_of(value)
    if code is None:
        return require_storable(value, called) if setting.kind is Kind.TEXT else value
    expected = setting.expected
    if name == "limit" and code in ("null", "min_value"):
        expected = "greater than zero"  # LangChain4j's wording
    raise InvalidValueError(
        "%(name)s must be %(expected)s, but is: %(value)s",
        code=code,
        name=called,
        expected=f"{expected}, or null" if setting.null else expected,
        value="null" if value is None else f"{value!r:.300}",
    )
