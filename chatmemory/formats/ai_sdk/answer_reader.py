"""The reader of an assistant message's parts; see :mod:`chatmemory.formats.ai_sdk`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chatmemory.core.messages import AiMessage, ChatMessage, ToolExecutionRequest
from chatmemory.core.serialization.fields import Fields, expected
from chatmemory.formats.ai_sdk.rest import attributes_in
from chatmemory.formats.ai_sdk.tool_reader import Result, read_tool
from chatmemory.formats.anthropic.block_writer import REDACTED_THINKING, THINKING_SIGNATURE

__all__ = ["is_data", "read_answer"]

_REFUSED = {
    "file": "a file in an answer cannot be kept; leave it out",
    "reasoning-file": "a file in an answer cannot be kept; leave it out",
    "steering-message": "a steering message cannot be kept; make it a user message",
}
_NOT_SAID = ("source-url", "source-document", "custom")
_KNOWN = ("text", "reasoning", "step-start", "dynamic-tool", "tool-NAME", "data-NAME", *_NOT_SAID)


class _Step:
    """One answer of the model, with the results of its calls, while it is read."""

    def __init__(self, rest: Mapping[str, Any] | None = None, place: str = "") -> None:
        self._rest = rest
        self._place = place
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._signatures: list[str] = []
        self._redacted: list[str] = []
        self.requests: list[ToolExecutionRequest] = []
        self.results: list[Result] = []

    def read(self, kind: str, fields: Fields) -> None:
        """Read a part that says something."""
        text = fields.text("text")
        if kind == "text":
            self._texts.append(text)
        else:
            self._read_signature(fields)
            if text or not self._redacted:
                self._thoughts.append(text)
        fields.leave_all()

    def answer(self) -> list[AiMessage]:
        """Return the answer in a list, which is empty if there is none."""
        says_nothing = not (self._texts or self._thoughts or self._redacted or self.requests)
        if self._rest is None and says_nothing:
            return []
        attributes = attributes_in(self._rest, self._place)
        if self._rest is None:
            kept = {THINKING_SIGNATURE: "\n".join(self._signatures), REDACTED_THINKING: self._redacted}
            attributes = {key: value for key, value in kept.items() if value}
        return [
            AiMessage(
                "".join(self._texts) if self._texts else None,
                self.requests,
                thinking="\n".join(self._thoughts) if self._thoughts else None,
                attributes=attributes,
            )
        ]

    def _read_signature(self, fields: Fields) -> None:
        """Read what the AI SDK has of Anthropic's thinking, so that Anthropic gets it again."""
        if not fields.has("providerMetadata"):
            return
        metadata = fields.value("providerMetadata", Mapping, "an object").get("anthropic")
        if isinstance(metadata, Mapping):
            anthropic = Fields(metadata, f"{fields.at('providerMetadata')}.anthropic")
            self._signatures += filter(None, [anthropic.optional_text("signature")])
            self._redacted += filter(None, [anthropic.optional_text("redactedData")])


def read_answer(parts: Sequence[Any], place: str, rests: Mapping[str, Any], rests_place: str) -> list[ChatMessage]:
    """Read the answers and tool results that an assistant message is made of, in order.

    Each step is an answer, and the results of its calls follow it. What speaks behind a result begins another answer.

    Args:
        parts: the parts of the message.
        place: what errors call them.
        rests: what was kept of each step, by its number.
        rests_place: what errors call that.
    """
    steps = [_Step()]
    number = 0

    def read(fields: Fields) -> None:
        nonlocal number
        match kind := fields.choice("type", _KNOWN, _REFUSED):
            case "step-start":
                steps.append(_Step(_rest(rests, number, rests_place), f"{rests_place}.{number}"))
                number += 1
            case "text" | "reasoning":
                if steps[-1].results:
                    steps.append(_Step())
                steps[-1].read(kind, fields)
            case "dynamic-tool":
                request, result = read_tool(fields)
                steps[-1].requests += [request] if request else []
                steps[-1].results += [result] if result else []
        fields.leave_all()

    for index, part in enumerate(parts):
        if not is_data(part):
            Fields(_as_dynamic(part), f"{place}[{index}]").build(read)
    return _in_order(steps)


def is_data(part: Any) -> bool:
    """Return whether a part has data for the page alone."""
    return _type(part).startswith("data-")


def _as_dynamic(part: Any) -> Any:
    """Return a ``tool-NAME`` part as a ``dynamic-tool`` part with that name; any other part as it is."""
    type = _type(part)
    if not type.startswith("tool-"):
        return part
    return {**part, "type": "dynamic-tool", "toolName": type.removeprefix("tool-")}


def _type(part: Any) -> str:
    type = part.get("type") if isinstance(part, Mapping) else None
    return type if isinstance(type, str) else ""


def _rest(rests: Mapping[str, Any], number: int, place: str) -> Mapping[str, Any] | None:
    rest = rests.get(str(number))
    if rest is not None and not isinstance(rest, Mapping):
        raise expected("an object", rest, f"{place}.{number}")
    return rest


def _in_order(steps: Sequence[_Step]) -> list[ChatMessage]:
    messages: list[ChatMessage] = []
    elsewhere: list[Result] = []
    for step in steps:
        messages += step.answer()
        messages += [result.message for result in step.results if result.at is None]
        elsewhere += [result for result in step.results if result.at is not None]
    for result in sorted(elsewhere, key=lambda result: result.at or 0):
        messages.insert(result.at or 0, result.message)
    return messages
