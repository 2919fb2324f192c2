"""drf-spectacular's description of one operation, made from the tables of this package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent

from chatmemory.rest.openapi import parameters
from chatmemory.rest.openapi.conversation_schemas import resource_schemas
from chatmemory.rest.openapi.examples import EXAMPLES
from chatmemory.rest.openapi.langchain4j_schemas import LANGCHAIN4J
from chatmemory.rest.openapi.openai_schemas import OPENAI
from chatmemory.rest.openapi.operations import OPERATIONS, Operation
from chatmemory.rest.openapi.problem_schemas import PROBLEM, PROBLEM_RESPONSES
from chatmemory.rest.openapi.sent_schemas import SENT
from chatmemory.rest.openapi.shapes import Schema, ref

__all__ = ["ChatMemorySchema"]

_ALWAYS = {400, 401, 403, 404, 406, 429, 503}
_WITH_BODY = {411, 413, 415}


class ChatMemorySchema(AutoSchema):
    """Describes the views of this app, in its own document as in that of a project."""

    @property
    def _described(self) -> Operation:
        return OPERATIONS[type(self.view), self._action]

    @property
    def _action(self) -> str:
        view: Any = self.view
        return str(view.action)

    def get_operation(self, *args: Any, **kwargs: Any) -> Any:
        operation = super().get_operation(*args, **kwargs)
        self._register(operation)
        return operation

    def get_operation_id(self) -> str:
        return self._described.id

    def get_summary(self) -> str:
        return self._described.summary

    def get_description(self) -> str:  # type: ignore[override]  # so has drf-spectacular
        return self._described.description

    def get_tags(self) -> list[str]:
        return [self._described.tag]

    def _get_parameters(self) -> list[Schema]:
        described = self._described
        view: Any = self.view
        variables = [name for name in parameters.PATH if f"{{{name}}}" in self.path]
        taken = {"owner", *view.parameters.get(self._action, ())}
        found = [parameters.PATH[name] for name in variables]
        found += parameters.query_parameters(taken, described.formats() if described.formats else [])
        if self._action == "list":
            found += parameters.filter_parameters(view.filterset_class) + parameters.list_parameters(view)
        return found + [parameters.HEADERS[name] for name in sorted(described.headers)]

    def _get_request_body(self, direction: str = "request") -> Schema | None:
        body = self._described.body
        if body is None:
            return None
        return {"required": self._described.body_required, "content": _content(body)}

    def _get_response_bodies(self, direction: str = "response") -> Schema:
        described = self._described
        status = described.status
        answer: Schema = {"description": status.phrase}
        if described.answer_headers:
            answer["headers"] = described.answer_headers
        if described.answer:
            answer["content"] = _content(described.answer)
        if described.links:
            answer["links"] = described.links
        responses = {str(status.value): answer}
        if "If-None-Match" in described.headers:
            responses["304"] = {"description": "There is nothing newer.", "headers": described.answer_headers}
        statuses = _ALWAYS | described.problems
        statuses |= _WITH_BODY if described.body else set()
        statuses |= {412} if "If-Match" in described.headers else set()
        for status_code in sorted(statuses):
            name, _response = PROBLEM_RESPONSES[status_code]
            responses[str(status_code)] = ref(name, "responses")
        return responses

    def _register(self, part: Any) -> None:
        """Register the components that ``part`` refers to, and those that they refer to."""
        components = {
            "schemas": {**LANGCHAIN4J, **OPENAI, **SENT, **resource_schemas(self), "Problem": PROBLEM},
            "responses": dict(PROBLEM_RESPONSES.values()),
        }
        waiting = list(_references(part))
        while waiting:
            kind, name = waiting.pop()
            component = ResolvedComponent(name, kind, components[kind][name], object=ChatMemorySchema)
            if component not in self.registry:
                self.registry.register(component)
                waiting += _references(component.schema)


def _content(schema: str) -> Schema:
    examples = {name: {"value": value} for name, value in EXAMPLES[schema].items()}
    return {"application/json": {"schema": ref(schema), "examples": examples}}


def _references(part: Any) -> Iterator[tuple[str, str]]:
    if isinstance(part, dict):
        if "$ref" in part:
            _, _, kind, name = part["$ref"].split("/")
            yield kind, name
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from _references(each)
