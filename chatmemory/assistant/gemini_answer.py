"""The answer in Gemini's responses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from chatmemory.assistant.answers import (
    as_it_came,
    broken_off,
    fields_of,
    readable,
    token_count,
    unbroken,
    whole_answer,
)
from chatmemory.assistant.deltas import Answered, Thinking, Usage, told_by_errors
from chatmemory.assistant.errors import ModelError
from chatmemory.core.exceptions import gettext_noop as _
from chatmemory.core.extras import extra
from chatmemory.core.messages import AiMessage
from chatmemory.formats.gemini import from_gemini

with extra("gemini"):
    from google.genai import errors
    from pydantic import ValidationError

__all__ = ["StreamedAnswer", "read_response", "understood"]

_WHOLE = ("STOP", "FINISH_REASON_UNSPECIFIED")

_CUT_OFF = {
    "MAX_TOKENS": "the model's limit was reached",
    "MALFORMED_FUNCTION_CALL": "its call of a tool was malformed",
    "UNEXPECTED_TOOL_CALL": "it called a tool that it was not given",
    **dict.fromkeys(
        (
            "SAFETY",
            "RECITATION",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
            "MODEL_ARMOR",
        ),
        "a content filter stopped it",
    ),
}
"""The finish reasons that leave an answer incomplete, in words."""

_BROKEN_JSON = _("%(name)s answered with broken JSON: %(answer)s")
_NOT_UNDERSTOOD = _("%(name)s gave an answer that cannot be understood: %(answer)s")


@contextmanager
def understood(name: str) -> Iterator[None]:
    """Raise a ``ModelError`` for an answer in the ``with`` block that is no response of Gemini's."""
    try:
        yield
    except json.JSONDecodeError as error:
        raise ModelError(_BROKEN_JSON, name=name, answer=as_it_came(error.doc)) from error
    except errors.UnknownApiResponseError as error:
        raise ModelError(_BROKEN_JSON, name=name, answer=as_it_came(str(error))) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ModelError(_NOT_UNDERSTOOD, name=name, answer=f"{place}: {first['msg']}") from error
    except (AttributeError, TypeError, UnicodeDecodeError) as error:
        # The package takes for granted that there are objects and lists where there should be.
        raise ModelError(_NOT_UNDERSTOOD, name=name, answer=as_it_came(str(error))) from error


def read_response(name: str, response: Any) -> Answered:
    """Return the answer in a response, and what it used.

    Raises:
        ModelError: it is no whole answer.
    """
    answer = StreamedAnswer(name)
    with told_by_errors(lambda: answer.usage):
        answer.take(response)
        return answer.whole(is_stream=False)


class StreamedAnswer:
    """An answer that comes in responses."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._parts: list[dict[str, Any]] = []
        self._has_begun = False
        self._finish_reason: str | None = None
        self._blocked: str | None = None
        self._used: dict[str, Any] = {}

    @property
    def usage(self) -> Usage | None:
        """The tokens of the call, as far as the server has told them."""
        return _usage(self._used)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Raise a ``ModelError`` if the connection breaks in the ``with`` block, in which responses are read."""

        def passes(error: Exception) -> bool:
            return isinstance(error, errors.APIError) or not self._has_begun

        with unbroken(self._name, passes), understood(self._name):
            yield

    def take(self, response: Any) -> list[str | Thinking]:
        """Take in a response and return what it says: thinking, texts, or an empty text as a sign of life.

        Raises:
            ModelError: it cannot be read.
        """
        self._has_begun = True
        said: list[str | Thinking] = []
        with readable(self._name, response):
            self._used |= {key: value for key, value in fields_of(response.usage_metadata).items() if value is not None}
            if response.prompt_feedback is not None and response.prompt_feedback.block_reason is not None:
                self._blocked = response.prompt_feedback.block_reason.value
            for candidate in (response.candidates or ())[:1]:
                if candidate.finish_reason is not None:
                    self._finish_reason = candidate.finish_reason.value
                for part in (candidate.content and candidate.content.parts) or ():
                    self._add(part.model_dump())
                    if part.text:
                        said.append(Thinking(part.text) if part.thought else part.text)
        return said or [""]

    def whole(self, *, is_stream: bool = True) -> Answered:
        """Return the whole answer, and what it used.

        Raises:
            ModelError: the answer is not whole.
        """
        if not self._has_begun:
            raise ModelError(_("%(name)s did not answer as a stream of responses."), name=self._name)
        if self._blocked and not self._parts:
            raise ModelError(
                _("%(name)s returned an empty answer: the request was blocked (%(reason)s)."),
                name=self._name,
                reason=self._blocked,
            )
        if is_stream and not self._finish_reason:
            raise broken_off(self._name)
        with readable(self._name, self._parts):
            [message] = from_gemini([{"role": "model", "parts": self._parts}])
            assert isinstance(message, AiMessage)
        return Answered(whole_answer(self._name, message, self._why()), self.usage)

    def _why(self) -> str | None:
        if self._finish_reason is None or self._finish_reason in _WHOLE:
            return None
        return _CUT_OFF.get(self._finish_reason, f"it ended with {self._finish_reason}")

    def _add(self, part: dict[str, Any]) -> None:
        part = {key: value for key, value in part.items() if value is not None}
        before = self._parts[-1] if self._parts else {}
        if part.keys() <= {"text", "thought"} and not part.get("text"):
            return
        # A text with a signature stays apart: Gemini wants it back as it came.
        if _is_plain(part) and _is_plain(before) and bool(part.get("thought")) == bool(before.get("thought")):
            before["text"] += part["text"]
        else:
            self._parts.append(part)


def _is_plain(part: Mapping[str, Any]) -> bool:
    return "text" in part and part.keys() <= {"text", "thought"}


def _usage(used: Mapping[str, Any]) -> Usage | None:
    """Return what Gemini says that a call used. Whatever is missing is not known."""

    def count(what: str) -> int | None:
        return token_count(used.get(f"{what}_token_count"))

    prompt, answer, thoughts = count("prompt"), count("candidates"), count("thoughts")
    usage = Usage(
        # Gemini counts apart what its own tools put into the request, and its thoughts.
        input_tokens=None if prompt is None else prompt + (count("tool_use_prompt") or 0),
        output_tokens=None if answer is None and thoughts is None else (answer or 0) + (thoughts or 0),
        cached_input_tokens=count("cached_content"),
        reasoning_tokens=thoughts,
    )
    return usage if usage != Usage() else None
