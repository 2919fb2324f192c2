"""Types of tools' parameters and results that JSON does not have, functions that are partly filled, and who asks."""

from __future__ import annotations

import asyncio
import datetime
import functools
import json
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Optional

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from chatmemory import ImageContent, MessageWindowChatMemory, TextContent, ToolExecutionResultMessage
from chatmemory.assistant import Assistant, Tool, ToolContext, ToolError, ToolSpecification
from chatmemory.assistant.tools import Toolbox
from chatmemory.core.messages import ToolExecutionRequest
from chatmemory.models import Conversation
from chatmemory.stores import DjangoChatMemoryStore
from tests.database.test_async import run
from tests.support.assistant_models import ScriptedModel, calling
from tests.support.factories import ConversationFactory


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


class Tea(TypedDict):
    name: Annotated[str, "As on the packet."]
    grams: float


class Address(BaseModel):
    street: str
    city: str = "Köln"


@dataclass
class Page:
    title: Annotated[str, "At the top."]
    below: list[Page] = field(default_factory=list)


@dataclass
class Place:
    at: Annotated[Address, "A house."]
    near: Address | None = None


def call(function: Callable[..., Any], arguments: Any = None, **options: Any) -> ToolExecutionResultMessage:
    """Its result; the async twin's is the same."""
    tool = Tool(function, name="it", **options)
    request = ToolExecutionRequest("1", "it", json.dumps(arguments or {}))
    result = tool.run(request)
    assert asyncio.run(tool.arun(request)) == result
    return result


def returned(value: Any) -> ToolExecutionResultMessage:
    return call(lambda: value)


GIVEN: list[tuple[Any, Any, Any]] = [
    (datetime.date, "2026-11-23", datetime.date(2026, 11, 23)),
    (datetime.datetime, "2026-11-23T05:00:00Z", datetime.datetime(2026, 11, 23, 5, tzinfo=datetime.UTC)),
    (Decimal, "19.99", Decimal("19.99")),
    (Decimal, 0.1, Decimal("0.1")),
    (uuid.UUID, "6f3b6a3e-2f62-4a5c-9d4e-1f2d3c4b5a69", uuid.UUID("6f3b6a3e-2f62-4a5c-9d4e-1f2d3c4b5a69")),
    (Size, 2, Size.LARGE),
    (tuple[int, str], [1, "a"], (1, "a")),
    (set[int], [1, 2.0, 1], {1, 2}),
    (dict[int, str], {"1": "a"}, {1: "a"}),
    (Tea, {"name": "Assam", "grams": 50}, {"name": "Assam", "grams": 50.0}),
    (Address, {"street": "Hohe Straße 1"}, Address(street="Hohe Straße 1")),
    (Place, {"at": {"street": "x"}}, Place(Address(street="x"))),
    (Page, {"title": "a", "below": [{"title": "b"}]}, Page("a", [Page("b")])),
    (Annotated[int, Field(ge=1)], 3, 3),
    (int | datetime.date, "2026-11-23", datetime.date(2026, 11, 23)),
    (Annotated[int, Field(strict=False)], "3", 3),
]


@pytest.mark.parametrize(("kind", "value", "expected"), GIVEN)
def test_what_the_function_gets(kind: Any, value: Any, expected: Any) -> None:
    got = []

    def it(given: Any) -> None:
        got.append(given)

    it.__annotations__["given"] = kind
    assert not call(it, {"given": value}).is_error, call(it, {"given": value}).text
    assert got[0] == expected
    assert type(got[0]) is type(expected)


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        (int, "1", "given: Input should be a valid integer"),
        (int, 1.5, "given: Input should be a valid integer"),
        (int, True, "given: Input should be a valid integer"),
        (str, 1, "given: Input should be a valid string"),
        (bool, "yes", "given: Input should be a valid boolean"),
        (list[float], ["1"], "given[0]: Input should be a valid number"),
        (datetime.date, 5, "given: Input should be a valid date"),
        (datetime.date, "soon", "given: Input should be a valid date"),
        (Tea, {"name": "Assam", "grams": 5, "cups": 2}, "given.cups is not known"),
        (Address, {}, "given.street is missing"),
        (Page, {"title": "a", "below": [{}]}, "given.below[0].title is missing"),
        (Annotated[int, Field(ge=1)], 0, "given: Input should be greater than or equal to 1"),
    ],
)
def test_what_the_model_reads_of_a_wrong_argument(kind: Any, value: Any, problem: str) -> None:
    def it(given: Any) -> None: ...

    it.__annotations__["given"] = kind
    result = call(it, {"given": value})
    assert result.is_error
    assert result.text.startswith(problem)


def described(function: Callable[..., Any]) -> dict[str, Any]:
    return Tool(function).specification.parameters


def test_schemas_have_no_references_where_types_end() -> None:
    def it(place: Place, tea: Tea, note: Annotated[str | None, "For the driver."] = None) -> None: ...

    address = {
        "type": "object",
        "properties": {"street": {"type": "string"}, "city": {"type": "string", "default": "Köln"}},
        "required": ["street"],
    }
    assert described(it)["properties"] == {
        "place": {
            "type": "object",
            "properties": {
                "at": address | {"description": "A house."},
                "near": {"anyOf": [address, {"type": "null"}], "default": None},
            },
            "required": ["at"],
            "additionalProperties": False,
        },
        "tea": {
            "type": "object",
            "properties": {"name": {"type": "string", "description": "As on the packet."}, "grams": {"type": "number"}},
            "required": ["name", "grams"],
            "additionalProperties": False,
        },
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "For the driver."},
    }
    assert "$defs" not in described(it)


def test_a_type_that_contains_itself_is_defined_once() -> None:
    def it(page: Page, title: str) -> None: ...

    schema = described(it)
    assert schema["properties"] == {"page": {"$ref": "#/$defs/Page"}, "title": {"type": "string"}}
    assert schema["$defs"]["Page"]["properties"] == {
        "title": {"type": "string", "description": "At the top."},
        "below": {"type": "array", "items": {"$ref": "#/$defs/Page"}},
    }


def test_names_that_pydantic_has_are_names_like_others() -> None:
    def it(json: str, copy: int, model_config: bool, schema: str = "") -> str:
        return f"{json} {copy} {model_config} {schema}"

    assert [*described(it)["properties"]] == ["json", "copy", "model_config", "schema"]
    assert call(it, {"json": "a", "copy": 1, "model_config": True}).text == "a 1 True "


def check(amount: int) -> int:
    match amount:
        case 1:
            raise ValueError("the balance is 55.20")
        case 2:
            raise ToolError("At most 100.")
        case 3:
            raise PydanticCustomError("much", "too much")
        case 4:
            raise LookupError("s3cret")
    return amount


def test_checks_of_the_project_keep_their_text_unless_it_is_for_the_model(caplog: pytest.LogCaptureFixture) -> None:
    def it(amount: Annotated[int, AfterValidator(check)], note: str = "") -> str:
        return f"{amount}"

    def read(amount: int, note: Any = "") -> str:
        return call(it, {"amount": amount, "note": note}).text

    assert [read(amount) for amount in range(5)] == [
        "0",
        "The tool failed: ValueError",
        "At most 100.",
        "amount: too much",
        "The tool failed: LookupError",
    ]
    assert "the balance is 55.20" in caplog.text
    assert read(1, 3) == "note: Input should be a valid string"


class Colour(Enum):
    RED = "red"


class Hidden(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    inner: int = Field(alias="outer")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime.date(2026, 11, 23), '"2026-11-23"'),
        ({"at": datetime.datetime(2026, 11, 23, 5, tzinfo=datetime.UTC)}, '{"at": "2026-11-23T05:00:00Z"}'),
        ([Decimal("19.90")], '["19.90"]'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Address(street="x"), '{"street": "x", "city": "Köln"}'),
        ([Place(Address(street="x"))], '[{"at": {"street": "x", "city": "Köln"}, "near": null}]'),
        ({Colour.RED: Colour.RED}, '{"red": "red"}'),
        ({1}, "[1]"),
        (b"\xff", '"_w=="'),
        (Hidden(inner=1), '{"inner": 1}'),
        (["a", "b"], '["a", "b"]'),
        (
            {"image": ImageContent("https://x.test/a.png")},
            '{"image": {"image": {"url": "https://x.test/a.png", "base64_data": null, "mime_type": null, '
            '"revised_prompt": null}, "detail_level": "LOW"}}',
        ),
    ],
)
def test_what_the_model_gets(value: Any, text: str) -> None:
    result = returned(value)
    assert result.text == text
    assert not result.is_error


def test_what_cannot_be_written_is_written_as_text() -> None:
    class Thing:
        def __str__(self) -> str:
            return "a thing"

    assert returned([Thing()]).text == '["a thing"]'


def test_what_contains_itself_is_an_error() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert returned(endless).text == "The tool failed: ValueError"


class TestContents:
    image = ImageContent("https://x.test/a.png")

    def test_they_stay_what_they_are(self) -> None:
        assert returned(self.image).contents == (self.image,)
        assert returned(TextContent("a")).contents == (TextContent("a"),)
        assert returned(["See:", self.image]).contents == (TextContent("See:"), self.image)
        assert returned((self.image, TextContent("b"))).contents == (self.image, TextContent("b"))

    def test_their_texts_are_cut_and_what_is_no_text_stays(self) -> None:
        def look() -> list[Any]:
            return ["a" * 6, self.image, "b" * 6, "c", self.image]

        request = ToolExecutionRequest("1", "look", "{}")
        note = TextContent("[The result was cut here: it had 15 characters.]")
        assert Toolbox([look], 8).run(request).contents == (
            TextContent("a" * 6),
            self.image,
            TextContent("bb"),
            self.image,
            note,
        )
        assert Toolbox([look], 15).run(request).contents[-2:] == (TextContent("c"), self.image)


class TestPartials:
    def test_what_is_filled_is_not_shown(self) -> None:
        def add(base: object, step: Lock, number: int, times: int = 1) -> str:
            """Adds."""
            return f"{base} {step} {number} {times}"

        tool = Tool(functools.partial(functools.partial(add, "a"), step="b", times=2))
        assert tool.specification == ToolSpecification(
            "add",
            "Adds.",
            {
                "type": "object",
                "properties": {"number": {"type": "integer"}},
                "required": ["number"],
                "additionalProperties": False,
            },
        )
        assert tool.run(ToolExecutionRequest("1", "add", '{"number": 3}')).text == "a b 3 2"
        assert tool.run(ToolExecutionRequest("1", "add", '{"number": 3, "times": 9}')).text == (
            "times is not known; there is number"
        )

    def test_of_async_functions_methods_and_objects(self) -> None:
        class Shop:
            async def sell(self, tea: str, count: int) -> str:
                return f"{count} {tea}"

            def __call__(self, tea: str, count: int) -> str:
                return f"{count} {tea}!"

        assert call(functools.partial(Shop().sell, "Assam"), {"count": 2}).text == "2 Assam"
        assert call(functools.partial(Shop(), count=2), {"tea": "Assam"}).text == "2 Assam!"
        assert Tool(functools.partial(Shop(), count=2)).specification.name == "Shop"


class Lock: ...


def plain(context: ToolContext, number: int = 1) -> str:
    return f"{context.memory_id} {context.data} {number}"


def optional(number: int = 1, *, who: Optional[ToolContext] = None) -> str:  # noqa: UP045
    assert who is not None
    return plain(who, number)


async def annotated(who: Annotated[ToolContext | None, "Never shown."], number: int = 1) -> str:
    assert who is not None
    return plain(who, number)


class TestWhoAsks:
    @pytest.mark.parametrize("function", [plain, optional, annotated])
    @pytest.mark.parametrize("parameters", [None, {"type": "object"}])
    def test_it_is_filled_and_not_shown(self, function: Any, parameters: Any) -> None:
        tool = Tool(function, name="it", parameters=parameters)
        assert "who" not in json.dumps(tool.specification.parameters)
        assert "context" not in json.dumps(tool.specification.parameters)
        context = ToolContext(memory_id="m", data="d")
        for arguments, text in (('{"number": 2}', "m d 2"), ("{}", "m d 1")):
            request = ToolExecutionRequest("1", "it", arguments)
            assert tool.run(request, context).text == text
            assert asyncio.run(tool.arun(request, context)).text == text
        for name in ("who", "context"):
            stolen = tool.run(ToolExecutionRequest("1", "it", f'{{"{name}": {{"memory_id": "x"}}}}'), context)
            assert stolen.is_error
            assert "x d" not in stolen.text

    def test_a_memory_in_process_has_an_id_alone(self) -> None:
        seen = []

        def look(context: ToolContext) -> None:
            seen.append(context)

        model = ScriptedModel(calling(("look", "{}")), "Done")
        memory = MessageWindowChatMemory(id="m", max_messages=9)
        Assistant(model, memory=memory, tools=[look]).chat("m", "Hi", context=self)
        assert seen == [ToolContext(memory_id="m", data=self)]

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("is_async", [False, True])
    @pytest.mark.parametrize("kind", ["row", "store"])
    def test_a_conversation_and_its_owner(self, user: Any, is_async: bool, kind: str) -> None:
        row = Conversation.objects.get(pk=ConversationFactory(owner=user).pk)  # its owner is not read yet
        seen: list[Any] = []

        def look(context: ToolContext) -> str:
            seen.append(context)
            return f"{context.owner.username}"

        async def alook(context: ToolContext) -> str:
            return look(context)

        model = ScriptedModel(calling(("look", "{}"), ("alook", "{}")), "Done")
        store = DjangoChatMemoryStore(owner=user)
        memory = MessageWindowChatMemory(id=row.memory_id, max_messages=9, store=store)
        assistant = Assistant(model, memory=memory, tools=[look, alook])
        given = row if kind == "row" else row.memory_id
        if is_async:
            run(assistant.achat(given, "Hi", context={"ip": "::1"}))
        else:
            assistant.chat(given, "Hi", context={"ip": "::1"})
        assert [message.text for message in model.asked[1][-2:]] == [user.username] * 2  # type: ignore[union-attr]
        for context in seen:
            assert (context.conversation, context.owner, context.memory_id) == (row, user, row.memory_id)
            assert context.data == {"ip": "::1"}
            assert (context.conversation is row) == (kind == "row")

    @pytest.mark.django_db(transaction=True)
    def test_nobody_may_own_it(self) -> None:
        def look(context: ToolContext) -> str:
            return f"{context.owner}"

        model = ScriptedModel(calling(("look", "{}")), "Done")
        Assistant(model, tools=[look]).chat(ConversationFactory(owner=None), "Hi")
        assert model.asked[1][-1].text == "None"  # type: ignore[union-attr]


WITHOUT_TOOLS = """
import sys
sys.modules["pydantic"] = None
from chatmemory import MessageWindowChatMemory, AiMessage, ToolExecutionRequest
from chatmemory.assistant import Assistant, Tool
memory = MessageWindowChatMemory(max_messages=9)
calls = [AiMessage(None, [ToolExecutionRequest("1", "it", '{"a": 3}')]), AiMessage("Done")]
own = Tool(lambda a: {"a": a}, name="it", parameters={"type": "object"})
print(Assistant(lambda messages, tools: calls.pop(0), memory=memory, tools=[own]).chat("default", "Hi").text)
print(memory.messages()[2].text)
try:
    Tool(lambda: 1, name="it")
except ImportError as error:
    print(error)
"""


@pytest.mark.slow
def test_pydantic_is_needed_for_types_alone() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_TOOLS], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[:2] == ["Done", '{"a": 3}']
    assert 'pip install "django-chatmemory[assistant]"' in done.stdout
