"""Replays: the windows that a request asks for, and the figures that are answered."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import ValidationError

from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.database.operations.replay import MOST_AT_ONCE, Replay
from chatmemory.models import WINDOW_SETTINGS, Conversation, WindowSettings
from chatmemory.rest.problems import TooLarge, invalid
from chatmemory.rest.serializers import WindowSerializer

__all__ = ["FIGURES", "MOST_VARIANTS", "REPLAYED_SETTINGS", "VariantSerializer", "read_variants", "replays_to_data"]

MOST_VARIANTS = 5

REPLAYED_SETTINGS = tuple(name for name in WINDOW_SETTINGS if name in Replay.__dataclass_fields__)
"""The names of the settings with which the answer describes a variant."""

FIGURES = (
    *(name for name in Replay.__dataclass_fields__ if name not in REPLAYED_SETTINGS),
    "hit_share",
    "full_price_tokens",
)
"""The names of the figures in the answer, of what happened and of each variant."""


class VariantSerializer(WindowSerializer):
    """A window to replay a history with. It has no model, because the stored tokens are used, and makes no summary."""

    class Meta(WindowSerializer.Meta):
        fields = tuple(name for name in WINDOW_SETTINGS if name not in {"model", "compact_at"})
        extra_kwargs = {name: {"required": False} for name in fields}


def read_variants(data: Any, conversation: Conversation) -> list[WindowSettings]:
    """Read the windows to replay: ``{"variants": [...]}``, or nothing.

    Raises:
        InvalidMessageError: there is an unknown field.
        TooLarge: the conversation has too many messages.
        ValidationError: a window has no meaning, or there are too many.
    """
    if conversation.next_position > MOST_AT_ONCE:
        raise TooLarge(
            f"The conversation has {conversation.next_position} messages; at most {MOST_AT_ONCE} are replayed by a "
            "request. conversation.memory.replay() in Python has no bound."
        )
    if not isinstance(data, dict):
        raise invalid("", "expected an object")
    extra = next((key for key in data if key != "variants"), None)
    if extra is not None:
        raise InvalidMessageError("unknown field; leave it out", extra[:100])
    variants = data.get("variants", [])
    if not isinstance(variants, list):
        raise invalid("variants", "expected a list")
    if len(variants) > MOST_VARIANTS:
        raise invalid("variants", f"has {len(variants)} windows; at most {MOST_VARIANTS} are replayed at once")
    return [_read_variant(each, f"variants[{index}]") for index, each in enumerate(variants)]


def replays_to_data(recorded: Replay, variants: list[Replay]) -> dict[str, Any]:
    """Return the figures of what happened, and those of each variant with its settings."""
    return {
        "recorded": _pick(recorded, FIGURES),
        "variants": [_pick(each, REPLAYED_SETTINGS + FIGURES) for each in variants],
    }


def _read_variant(data: Any, place: str) -> WindowSettings:
    serializer = VariantSerializer(data=data)
    try:
        serializer.is_valid(raise_exception=True)
    except ValidationError as error:
        raise ValidationError({place: error.detail}) from error
    except InvalidMessageError as error:
        raise InvalidMessageError(error.problem, f"{place}.{error.place}") from error
    settings: WindowSettings = serializer.validated_data
    return settings


def _pick(replay: Replay, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(replay, name) for name in names}
