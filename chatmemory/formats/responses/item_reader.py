"""The reader of the items of OpenAI's Responses; see :mod:`chatmemory.formats.responses`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from chatmemory.core.contents import Content, ImageContent, PdfFileContent, TextContent
from chatmemory.core.messages import ToolExecutionRequest
from chatmemory.core.serialization.fields import Fields
from chatmemory.formats.media import openai_image, openai_pdf_file

__all__ = ["ANSWER_ITEMS", "CONTENTS", "TEXTS", "AnswerPart", "Refusal", "Thought", "refuse_programs"]

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


def _refusal(fields: Fields) -> Refusal:
    return Refusal(fields.text("refusal"))


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
    if fields.has("caller"):
        fields.object("caller", lambda caller: caller.choice("type", ["direct"], _PROGRAMS))


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


TEXTS = {"input_text": _input_text}
CONTENTS: dict[str, Callable[[Fields], Content]] = {
    "input_text": _input_text,
    "input_image": _input_image,
    "input_file": _input_file,
}
_ANSWER_CONTENTS: dict[str, Callable[[Fields], AnswerPart]] = {"output_text": _output_text, "refusal": _refusal}
ANSWER_ITEMS: dict[str, Callable[[Fields], list[AnswerPart]]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    # What ran at OpenAI needs no answer from here, and is of use only unchanged.
    "web_search_call": _whole,
    "file_search_call": _whole,
    "code_interpreter_call": _whole,
    "image_generation_call": _whole,
    "mcp_call": _whole,
    "mcp_list_tools": _whole,
    "compaction": _whole,
}
