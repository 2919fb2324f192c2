"""drf-spectacular's description of one operation, made from the tables of this package."""

from __future__ import annotations

import re
from copy import deepcopy
from http import HTTPStatus
from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentRegistry, ResolvedComponent
from rest_framework.permissions import SAFE_METHODS

from chatmemory.formats.registry import message_formats, one_for_one
from chatmemory.rest.formats import DEFAULT_FORMAT
from chatmemory.rest.openapi.conversation_schemas import resource_schemas
from chatmemory.rest.openapi.examples import EXAMPLES
from chatmemory.rest.openapi.langchain4j_schemas import LANGCHAIN4J
from chatmemory.rest.openapi.openai_schemas import OPENAI
from chatmemory.rest.openapi.operation import Operation
from chatmemory.rest.openapi.operations import OPERATIONS, TAGS
from chatmemory.rest.openapi.parameters import (
    ANSWER_HEADERS,
    PARAMETERS,
    filter_parameters,
    format_parameter,
    list_parameters,
)
from chatmemory.rest.openapi.problem_schemas import PROBLEM, PROBLEM_RESPONSES
from chatmemory.rest.openapi.sent_schemas import SENT
from chatmemory.rest.openapi.shapes import Schema, ref
from chatmemory.rest.views.stores import StoreViewSet

__all__ = ["ChatMemorySchema"]

_ALWAYS = {"Invalid", "NotSignedIn", "Forbidden", "NotFound", "NotExpressible", "TooOften", "DatabaseUnavailable"}
_WITH_BODY = {"LengthRequired", "TooLarge", "NotJson"}
_WITH_HEADER = {"If-Match": "VersionMoved", "Idempotency-Key": "IdempotencyKeyReused"}


class ChatMemorySchema(AutoSchema):
    """Describes the views of this app, in its own document as in that of a project."""

    view: Any

    @property
    def _described(self) -> Operation:
        return OPERATIONS[type(self.view), self._action]

    @property
    def _action(self) -> str:
        return str(self.view.action)

    def get_operation(
        self, path: str, path_regex: str, path_prefix: str, method: str, registry: ComponentRegistry
    ) -> Any:
        # Once for a document, for it takes a while; a project may have a component of a more common name.
        if ResolvedComponent("OpenAiMessageList", ResolvedComponent.SCHEMA, object=ChatMemorySchema) not in registry:
            self._register_components(registry)
        # Copies, here and there: hooks of a project change what they get.
        return deepcopy(super().get_operation(path, path_regex, path_prefix, method, registry))

    def _register_components(self, registry: ComponentRegistry) -> None:
        responses = {name: response for name, (_code, response) in PROBLEM_RESPONSES.items()}
        schemas = {**LANGCHAIN4J, **OPENAI, **SENT, **resource_schemas(self), "Problem": PROBLEM}
        for kind, components in ("schemas", schemas), ("responses", responses):
            for name, component in deepcopy(components).items():
                registry.register_on_missing(ResolvedComponent(name, kind, component, object=ChatMemorySchema))

    def get_operation_id(self) -> str:
        return self._described.id

    def get_summary(self) -> str:
        return self._described.summary

    def get_description(self) -> str:  # type: ignore[override]  # so has drf-spectacular
        return self._described.description

    def get_tags(self) -> list[str]:
        name, _description = TAGS[type(self.view)]
        return [name]

    def _get_parameters(self) -> list[Schema]:
        path = re.findall(r"{(\w+)}", self.path)
        query = sorted({"owner", *self.view.parameters.get(self._action, ())})
        found = [PARAMETERS[name] for name in (*path, *query)]
        if self._described.formatted:
            found.append(format_parameter(self._formats()))
        if self._action == "list":
            found += filter_parameters(self.view.filterset_class) + list_parameters(self.view)
        return found + [PARAMETERS[name] for name in self._described.headers]

    def _formats(self) -> list[str]:
        if isinstance(self.view, StoreViewSet):
            return [DEFAULT_FORMAT]
        if self._action in self.view.whole_memory:
            return list(message_formats())
        return one_for_one(readable=self.method not in SAFE_METHODS)

    def _get_request_body(self, direction: str = "request") -> Schema | None:
        name = self._described.body
        if name is None:
            return None
        schema = self.registry[name, ResolvedComponent.SCHEMA].schema
        return {"required": not any(map(_takes_nothing, schema.get("anyOf", [schema]))), "content": _content(name)}

    def _get_response_bodies(self, direction: str = "response") -> Schema:
        described = self._described
        status = HTTPStatus.OK if described.answer else HTTPStatus.NO_CONTENT
        if self._action == "create":
            status = HTTPStatus.CREATED
        answer: Schema = {"description": status.phrase}
        if described.answer_headers:
            answer["headers"] = {name: ANSWER_HEADERS[name] for name in described.answer_headers}
        if described.answer:
            answer["content"] = _content(described.answer)
        if described.links:
            answer["links"] = described.links
        responses = {str(status.value): answer}
        if described.stream:
            streamed = responses.setdefault("200", {"description": HTTPStatus.OK.phrase})
            streamed["content"] = {**streamed.get("content", {}), **_content(described.stream, "text/event-stream")}
        if described.accepted:
            responses["202"] = {**answer, "description": described.accepted}
        if "If-None-Match" in described.headers:
            responses["304"] = {"description": "There is nothing newer.", "headers": answer["headers"]}
        problems = _ALWAYS | described.problems | (_WITH_BODY if described.body else set())
        problems |= {problem for name, problem in _WITH_HEADER.items() if name in described.headers}
        codes = {PROBLEM_RESPONSES[name][0]: name for name in problems}
        return responses | {str(code): ref(codes[code], "responses") for code in sorted(codes)}


def _takes_nothing(schema: Schema) -> bool:
    return schema.get("type") == "object" and not schema.get("required")


def _content(schema: str, media_type: str = "application/json") -> Schema:
    examples = {name: {"value": value} for name, value in EXAMPLES[schema].items()}
    return {media_type: {"schema": ref(schema), "examples": examples}}
