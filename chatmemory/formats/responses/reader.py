"""The strict reader of OpenAI's Responses; see :mod:`chatmemory.formats.responses`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from chatmemory.core.contents import Content, ImageContent, PdfFileContent, TextContent
from chatmemory.core.json_text import require_json, require_storable
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.serialization import Fields, expected
from chatmemory.formats.kept_parts import read_system, with_attributes, with_tool_names
from chatmemory.formats.media import openai_image, openai_pdf_file
from chatmemory.formats.responses.item_writer import answer_items

ATTRIBUTE = "openai_responses"
"""The attribute under which the items of an answer that messages here cannot express are kept, as ``items``."""

_ASYNC = "async_"  # as the SDK dumps async, unless by its alias
_MAY_BE_NULL = ("code", "outputs", "result")  # of code_interpreter_call and image_generation_call, which need them
_REFUSED = {
    "item_reference": "only OpenAI knows what this refers to; give the item itself",
    "custom_tool_call": "a call of a custom tool cannot be kept, only one of a function",
    "custom_tool_call_output": "the result of a custom tool cannot be kept, only that of a function",
    **dict.fromkeys(
        ("computer_call", "local_shell_call", "shell_call", "apply_patch_call", "mcp_approval_request"),
        "a call whose output is not a function's cannot be kept; leave it out",
    ),
}


def from_responses(data: Any, place: str = "") -> list[ChatMessage]:
    """Read messages from ``{"instructions": …, "input": …}``, items, a text, or a response that the SDK dumps.

    ``null`` is the same as a field that is not there. A tool result gets the name of the tool that an earlier item
    calls by its ID.

    Args:
        place: what the data is called in errors, ``body`` say.

    Raises:
        InvalidMessageError: a ``ValueError`` that names the place: ``input[3].content[0].text``.
    """
    if not isinstance(data, Mapping):
        return _items(data, place, "a list of items, a text or an object")
    fields = Fields(data, place)
    at = fields.at
    if "output" in data:
        return _items(data["output"], at("output"), "a list of items")
    fields.refuse_others("instructions", "input")
    said = _items(data.get("input"), at("input"), "a list of items or a text")
    return [*_instructions(data.get("instructions"), at("instructions")), *said]


def _instructions(text: Any, place: str) -> list[ChatMessage]:
    if not text:
        return []
    if not isinstance(text, str):
        raise expected("a string", text, place)
    return [read_system(require_storable(text, place), place)]


def read_answer(items: Iterable[Any]) -> AiMessage:
    """Read the items of an answer, without what a message here has no place for."""
    return _answer([part for index, item in enumerate(items) for part in _answer_parts(item, f"[{index}]")])


def clean_items(items: Iterable[Any]) -> list[Any]:
    """Return the items of an answer as they are kept."""
    return [_clean(item) for item in items]


def _items(data: Any, place: str, what: str) -> list[ChatMessage]:
    if isinstance(data, str):
        return [UserMessage(require_storable(data, place))]
    if not isinstance(data, (list, tuple)):
        raise expected(what, data, place)
    messages: list[ChatMessage] = []
    answer = _Answer()
    for index, item in enumerate(data):
        at = f"{place}[{index}]"
        require_json(item, at, 4)  # it becomes {"attributes": {"openai_responses": {"items": [item]}}}
        if _is_of_an_answer(item):
            parts = _answer_parts(item, at)
            if answer.is_said and "id" not in item and item.get("type") in (None, "message"):
                messages.append(answer.message())
                answer = _Answer()
            answer.add(item, parts)
            continue
        if answer.items:
            messages.append(answer.message())
            answer = _Answer()
        messages.append(Fields(item, at).build(_other))
    return list(with_tool_names([*messages, answer.message()] if answer.items else messages))


class _Answer:
    """The items of one answer, which follow one another."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self.is_said = False
        """Whether there is a message or a call, rather than what comes before them."""
        self._parts: list[AnswerPart] = []

    def add(self, item: Mapping[str, Any], parts: list[AnswerPart]) -> None:
        self.items.append(_clean(item))
        self.is_said = self.is_said or item.get("type") in (None, "message", "function_call")
        self._parts += parts

    def message(self) -> AiMessage:
        """Return the answer, with its items kept aside if writing it would not make them again."""
        answer = _answer(self._parts)
        if answer_items(answer, record=True) == self.items:
            return answer
        return with_attributes(answer, {ATTRIBUTE: {"items": self.items}})


def _answer(parts: list[AnswerPart]) -> AiMessage:
    texts = [part.text for part in parts if isinstance(part, TextContent)]
    refusals = [part.text for part in parts if isinstance(part, Refusal)]
    thoughts = [part.text for part in parts if isinstance(part, Thought)]
    return AiMessage(
        "".join(texts or refusals) if texts or refusals else None,
        [part for part in parts if isinstance(part, ToolExecutionRequest)],
        thinking="\n".join(thoughts) if thoughts else None,
    )


def _is_of_an_answer(item: Any) -> bool:
    if not isinstance(item, Mapping):
        return False
    kind = item.get("type")
    if kind in (None, "message"):
        return item.get("role") == "assistant"
    return isinstance(kind, str) and kind in _ANSWER_ITEMS


def _answer_parts(item: Any, place: str) -> list[AnswerPart]:
    fields = Fields(item, place)
    kind = fields.choice("type", _ANSWER_ITEMS) if fields.has("type") else "message"
    return fields.build(_ANSWER_ITEMS[kind])


def _clean(value: Any, *, within: bool = False) -> Any:
    """Return the item without fields that say nothing."""
    if isinstance(value, Mapping):
        cleaned = {
            ("async" if key == _ASYNC else key): _clean(item, within=True)
            for key, item in value.items()
            if (item is not None or key in _MAY_BE_NULL)
            and key not in ("parsed", "parsed_arguments")
            and (key, item) != ("caller", {"type": "direct"})
        }
        if not within and "id" not in cleaned and cleaned.get("type") == "message":
            del cleaned["type"]
        return cleaned
    return [_clean(item, within=True) for item in value] if isinstance(value, (list, tuple)) else value


def _other(fields: Fields) -> ChatMessage:
    kind = fields.choice("type", ("message", "function_call_output"), _REFUSED) if fields.has("type") else "message"
    fields.leave("id", "status")
    if kind == "function_call_output":
        return _tool_result(fields)
    if fields.choice("role", ("user", "system", "developer", "assistant")) == "user":
        return UserMessage(fields.content(CONTENTS))
    return _system(fields)


def _system(fields: Fields) -> SystemMessage:
    content = fields.content(_TEXTS)
    return SystemMessage(content if isinstance(content, str) else "".join(part.text for part in content))


def _tool_result(fields: Fields) -> ToolExecutionResultMessage:
    fields.leave("namespace")
    refuse_programs(fields)
    id, name, output = fields.text("call_id"), fields.optional_text("name"), fields.content(CONTENTS, "output")
    contents = [TextContent(output)] if isinstance(output, str) else output
    return ToolExecutionResultMessage(id, name, contents=contents)


_PROGRAMS = {"program": "calls of programs cannot be kept, only those of the model"}


class Thought(NamedTuple):
    text: str


class Refusal(NamedTuple):
    text: str


AnswerPart = TextContent | Refusal | Thought | ToolExecutionRequest


def _message(fields: Fields) -> list[AnswerPart]:
    fields.choice("role", ["assistant"])
    fields.leave("id", "status", "phase")
    content = fields.content(_ANSWER_CONTENTS)
    return [TextContent(content)] if isinstance(content, str) else list(content)


def _output_text(fields: Fields) -> TextContent:
    fields.leave("annotations", "logprobs", "parsed")
    return TextContent(fields.text("text"))


def _reasoning(fields: Fields) -> list[AnswerPart]:
    fields.leave("id", "status", "encrypted_content")
    summary = fields.items("summary", lambda part: _thought(part, "summary_text"))
    return [*(fields.items("content", lambda part: _thought(part, "reasoning_text")) or summary)]


def _thought(fields: Fields, kind: str) -> Thought:
    fields.choice("type", [kind])
    return Thought(fields.text("text"))


def _function_call(fields: Fields) -> list[AnswerPart]:
    fields.leave("id", "status", "namespace", "async", "async_", "parsed_arguments")
    refuse_programs(fields)
    return [ToolExecutionRequest(fields.text("call_id"), fields.text("name"), fields.text("arguments"))]


def refuse_programs(fields: Fields) -> None:
    """Raise an error for a call by a program, or its result."""
    fields.optional_object("caller", lambda caller: caller.choice("type", ["direct"], _PROGRAMS))


def _whole(fields: Fields) -> list[AnswerPart]:
    fields.leave_all()
    return []


def _input_text(fields: Fields) -> TextContent:
    fields.leave("prompt_cache_breakpoint")
    return TextContent(fields.text("text"))


def _input_image(fields: Fields) -> ImageContent:
    fields.leave("prompt_cache_breakpoint")
    fields.refuse("file_id", "an image that OpenAI holds cannot be kept; give its image_url")
    return openai_image(fields.text("image_url"), fields)


def _input_file(fields: Fields) -> PdfFileContent:
    fields.leave("prompt_cache_breakpoint", "filename", "detail")
    fields.refuse("file_id", "a file that OpenAI holds cannot be kept; give its file_data")
    if fields.has("file_url"):
        fields.refuse("file_data", "given twice, there is a file_url", code="repeated")
        return PdfFileContent(fields.text("file_url"))
    return openai_pdf_file(fields)


_TEXTS = {"input_text": _input_text}
CONTENTS: dict[str, Callable[[Fields], Content]] = {
    "input_text": _input_text,
    "input_image": _input_image,
    "input_file": _input_file,
}
_ANSWER_CONTENTS: dict[str, Callable[[Fields], AnswerPart]] = {
    "output_text": _output_text,
    "refusal": lambda fields: Refusal(fields.text("refusal")),
}
_ANSWER_ITEMS: dict[str, Callable[[Fields], list[AnswerPart]]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    # What ran at OpenAI needs no answer from here, and is of use only unchanged.
    **dict.fromkeys(
        (
            *("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"),
            *("mcp_call", "mcp_list_tools", "compaction"),
        ),
        _whole,
    ),
}
