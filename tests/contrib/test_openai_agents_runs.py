"""Sessions of OpenAI's Agents SDK as conversations: real runs over them, windows, history, other frameworks."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from agents import Agent, ModelResponse, RunConfig, Runner, Usage, function_tool
from agents.models.interface import Model as AgentsModel
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction
from django.db.transaction import TransactionManagementError
from django.test import override_settings
from django.utils import timezone
from openai.types.responses import (
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseReasoningItem,
)
from openai.types.responses.response import Response

from chatmemory import (
    AiMessage,
    CustomMessage,
    ImageContent,
    PdfFileContent,
    SystemMessage,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.contrib.openai_agents import DjangoSession
from chatmemory.formats.openai import to_openai
from chatmemory.models import Conversation, Message
from chatmemory.retention import purge_evicted
from tests.database.test_async import run
from tests.support.factories import UserFactory
from tests.support.openai_agents_items import EVERY_ITEM, PNG, call, output, reasoning, said

pytestmark = pytest.mark.django_db(transaction=True)

HI = {"role": "user", "content": "Hi"}
NO_TRACES = RunConfig(tracing_disabled=True)


def session(memory_id: str = "s", **more: Any) -> DjangoSession:
    return DjangoSession(memory_id, **({"window": "messages", "limit": 100} | more))


def add(*items: Any, **more: Any) -> None:
    run(session(**more).add_items(list(items)))


def get(**more: Any) -> Any:
    return run(session(**more).get_items())


def pop(**more: Any) -> Any:
    return run(session(**more).pop_item())


def conversation() -> Conversation:
    return Conversation.objects.get()


def messages() -> list[Any]:
    return conversation().memory.messages()


class TestRows:
    def test_an_answer_is_one_message(self) -> None:
        items = [reasoning("rs", "I need", "two"), said("Let me see.", "m"), call("1"), call("2", "time", "{}")]
        add(HI, *items, output("1"), output("2", "noon"))
        assert messages() == [
            UserMessage("Hi"),
            AiMessage(
                "Let me see.",
                [ToolExecutionRequest("1", "weather", '{"city": "Paris"}'), ToolExecutionRequest("2", "time", "{}")],
                thinking="I need\ntwo",
            ),
            ToolExecutionResultMessage("1", "weather", "sunny"),
            ToolExecutionResultMessage("2", "time", "noon"),
        ]

    def test_a_form_is_kept_only_where_the_message_is_not_enough(self) -> None:
        add(HI, said("Hi"), call("1"), output("1"), said("a"), said("b"), said("c", "m"))
        rows = conversation().messages.history()
        # What has no ID was said in several answers.
        assert [row.text for row in rows] == ["Hi", "Hi", "sunny", "a", "b\nc"]
        assert [row.native is None for row in rows] == [True, True, True, True, False]

    def test_contents(self) -> None:
        add(EVERY_ITEM[1])
        (message,) = messages()
        assert message.contents[0] == TextContent("Look:")
        assert message.contents[1] == ImageContent(
            base64_data="iVBORw0KGgo=", mime_type="image/png", detail_level="HIGH"
        )
        assert message.contents[2] == TextContent("[input_image file-1]")
        assert message.contents[3] == PdfFileContent(base64_data="JVBERg==", mime_type="application/pdf")
        assert [content.text for content in message.contents if isinstance(content, TextContent)][2:] == [
            "[input_file file-2]",
            "[input_new]",
        ]

    @pytest.mark.parametrize(
        ("kind", "name", "text"),
        [
            ("computer_call", "computer", ""),
            ("local_shell_call", "local_shell", '{"stdout": "a"}'),
            ("shell_call", "shell", '[{"stdout": "a\\n"'),
            ("apply_patch_call", "apply_patch", "done"),
            ("custom_tool_call", "sql", "1"),
            ("program", "program", "2"),
            ("mcp_approval_request", "t", '{"approve": true, "reason": "fine"}'),
        ],
    )
    def test_every_call_is_a_tool_request_and_its_output_a_result(self, kind: str, name: str, text: str) -> None:
        index = next(index for index, item in enumerate(EVERY_ITEM) if item.get("type") == kind)
        add(*EVERY_ITEM[index : index + 2])
        asked, result = messages()
        (request,) = asked.tool_execution_requests
        assert request.name == result.tool_name == name
        assert request.id == result.id
        assert Message.objects.get(position=1).text.startswith(text)

    def test_what_ran_at_openai_is_part_of_the_answer(self) -> None:
        kinds = ("web_search_call", "image_generation_call", "mcp_call", "compaction")
        add(*(item for item in EVERY_ITEM if item.get("type") in kinds), said("Here.", "m"))
        (message,) = messages()
        assert message.text == "Here."
        assert sorted(message.attributes["openai_agents"]) == sorted(kinds)

    def test_what_is_no_part_of_a_conversation_is_a_custom_message(self) -> None:
        add({"type": "item_reference", "id": "m"}, {"type": "of_a_later_version"})
        assert messages() == [
            CustomMessage({"openai_agents": ["item_reference"]}),
            CustomMessage({"openai_agents": ["of_a_later_version"]}),
        ]

    def test_a_new_system_message_takes_the_place_of_the_old_one(self) -> None:
        old, new = {"role": "system", "content": "old"}, {"role": "developer", "content": "new"}
        add(old, HI, new, new)
        assert get() == [HI, new]
        assert messages() == [UserMessage("Hi"), SystemMessage("new")]


class TestHistory:
    def test_keeps_what_was_popped_and_cleared(self) -> None:
        items = [reasoning("rs"), said("Hello.", "m"), call("1")]
        add(HI, *items)
        assert pop() == call("1")
        assert get() == [HI, *items[:2]]
        assert messages()[1].tool_execution_requests == ()
        assert pop() == items[1]
        assert get() == [HI, items[0]]
        run(session().clear_session())
        assert get() == []
        history = [row.message for row in conversation().messages.history()]
        assert history[1].text == "Hello."
        assert len(history[1].tool_execution_requests) == 1
        assert len(history) == 2

    def test_is_of_an_owner(self) -> None:
        user = UserFactory()
        add(HI, owner=user, title="Mine")
        assert get(owner=user) == [HI]
        assert get() == []
        made = conversation()
        assert (made.owner, made.title, made.window, made.limit) == (user, "Mine", "messages", 100)


class TestWindow:
    def test_takes_outputs_with_their_calls(self) -> None:
        add(HI, reasoning("rs"), call("1"), call("2"), output("1"), output("2"), said("Done.", "m"), limit=3)
        assert get() == [said("Done.", "m")]

    def test_leaves_no_output_whose_call_is_gone(self) -> None:
        add(call("1"), call("2"), output("1"), HI, output("2"), limit=4)
        assert len(get()) == 5
        add(HI, limit=4)  # the late output is left behind by its call
        assert get() == [HI, HI]
        assert len(messages()) == 3
        list(purge_evicted(timezone.now()))
        assert get() == [HI, HI]

    def test_an_output_without_a_call_stays_while_nothing_was_evicted(self) -> None:
        add(output("1"), HI)
        assert get() == [output("1"), HI]

    @override_settings(CHATMEMORY={"KEEP_HISTORY": False})
    def test_without_a_history_nobody_knows_what_was_evicted(self) -> None:
        add(output("1"), HI)
        assert get() == [HI]

    def test_what_is_no_item_is_refused(self) -> None:
        with pytest.raises(TypeError, match=r"items\[1\] must be a dict, but is: str"):
            add(HI, "Hi")
        assert get() == []


class TestOthers:
    def test_what_others_added_becomes_items(self) -> None:
        Conversation.objects.create(memory_id="s").memory.add(
            SystemMessage("Be brief."),
            UserMessage([TextContent("Look"), ImageContent(PNG), PdfFileContent("https://x.test/a.pdf")]),
            AiMessage("Two", [ToolExecutionRequest(None, "a", None), ToolExecutionRequest("x", "b", "{}")]),
            ToolExecutionResultMessage(None, "a", "1"),
            ToolExecutionResultMessage("x", "b", "2"),
            AiMessage(None),
            CustomMessage({"k": "é"}),
        )
        items = [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Look"},
                    {"type": "input_image", "image_url": PNG, "detail": "low"},
                    {"type": "input_file", "file_url": "https://x.test/a.pdf"},
                ],
            },
            said("Two"),
            call("call_2_0", "a", "{}"),
            call("x", "b", "{}"),
            output("call_2_0", "1"),
            output("x", "2"),
            said(""),
            {"role": "user", "content": '[custom message: {"k": "é"}]'},
        ]
        assert get() == items
        assert [pop() for _ in range(5)] == items[:3:-1]
        assert get() == items[:4]

    def test_others_read_what_was_added(self) -> None:
        add(HI, reasoning("rs", "Hm."), said("Let me see.", "m"), call("1"), output("1"))
        assert to_openai(messages()) == [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": "Let me see.",
                "tool_calls": [
                    {
                        "id": "1",
                        "type": "function",
                        "function": {"name": "weather", "arguments": '{"city": "Paris"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "1", "content": "sunny"},
        ]


class TestPydanticAi:
    def test_each_reads_what_the_other_added(self) -> None:
        from pydantic_ai import messages as theirs

        from chatmemory.contrib.pydantic_ai import DjangoMessageHistory

        add(HI, reasoning("rs", "Hm."), said("Let me see.", "m"), call("1"), output("1"))
        given = DjangoMessageHistory("s").messages()
        parts = [part for message in given for part in message.parts]
        assert [getattr(part, "content", None) for part in parts] == ["Hi", "Hm.", "Let me see.", None, "sunny"]
        assert parts[3] == theirs.ToolCallPart("weather", '{"city": "Paris"}', "1")
        assert (parts[4].tool_name, parts[4].tool_call_id) == ("weather", "1")
        answer = theirs.ModelResponse([theirs.TextPart("Sunny."), theirs.ToolCallPart("weather", {}, "2")])
        result = theirs.ModelRequest([theirs.ToolReturnPart("weather", {"degrees": 20}, "2")])
        DjangoMessageHistory("s").add([answer, result])
        assert get()[-3:] == [said("Sunny."), call("2", arguments="{}"), output("2", '{"degrees":20}')]
        assert DjangoMessageHistory("s").messages() == [*given, answer, result]
        assert get()[:-3] == [HI, reasoning("rs", "Hm."), said("Let me see.", "m"), call("1"), output("1")]


class Scripted(AgentsModel):
    """Gives one answer after the other, and looks at what it is given as OpenAI would."""

    def __init__(self, answers: Iterator[list[Any]]) -> None:
        self.answers = answers
        self.inputs: list[list[Any]] = []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        items = [{"role": "user", "content": input}] if isinstance(input, str) else list(input)
        check_input(items)
        self.inputs.append(items)
        return ModelResponse(output=next(self.answers), usage=Usage(), response_id=None)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        response = await self.get_response(*args, **kwargs)
        whole = Response(
            id="r",
            created_at=0,
            model="m",
            object="response",
            output=response.output,
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(type="response.completed", response=whole, sequence_number=0)


def check_input(items: list[Any]) -> None:
    """OpenAI takes it: every output has its call and every call its output, and reasoning what follows it."""
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    outputs = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    assert sorted(calls) == sorted(outputs)
    assert len(set(calls)) == len(calls)
    for index, item in enumerate(items):
        if item.get("type") == "reasoning":
            follows = items[index + 1]
            assert follows.get("type") in ("function_call", "message")
            assert follows["id"].removesuffix("_next") == item["id"]
        elif str(item.get("id")).endswith("_next"):
            assert items[index - 1].get("type") == "reasoning"
        if item.get("type") == "function_call_output":
            assert item["call_id"] in {before.get("call_id") for before in items[:index]}


def thinks(id: str) -> ResponseReasoningItem:
    return ResponseReasoningItem(id=id, type="reasoning", summary=[], encrypted_content="gAAAA")


def says(text: str, id: str) -> ResponseOutputMessage:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return ResponseOutputMessage.model_validate(
        {"id": id, "type": "message", "role": "assistant", "status": "completed", "content": content}
    )


def calls(name: str, call_id: str, id: str) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(id=id, type="function_call", call_id=call_id, name=name, arguments="{}")


@function_tool
def now() -> str:
    """The time."""
    return "noon"


def turns() -> Iterator[list[Any]]:
    """Reasoning and two calls at once, a handoff, reasoning and an answer; again and again."""
    for turn in itertools.count():
        yield [thinks(f"a{turn}"), calls("now", f"n{turn}", f"a{turn}_next"), calls("now", f"m{turn}", f"x{turn}")]
        yield [thinks(f"b{turn}"), calls("transfer_to_second", f"h{turn}", f"b{turn}_next")]
        yield [thinks(f"c{turn}"), says(f"It is noon. {turn}", f"c{turn}_next")]


async def chat(memory_id: str, model: AgentsModel, streamed: bool = False, **window: Any) -> list[Any]:
    second = Agent(name="second", model=model, tools=[now])
    first = Agent(name="first", model=model, tools=[now], handoffs=[second], instructions="Be brief.")
    outputs = []
    for turn in range(6):
        kept = DjangoSession(memory_id, **window)
        if streamed:
            result = Runner.run_streamed(first, f"Time? {turn}", session=kept, run_config=NO_TRACES)
            async for _event in result.stream_events():
                pass
            outputs.append(result.final_output)
        else:
            outputs.append((await Runner.run(first, f"Time? {turn}", session=kept, run_config=NO_TRACES)).final_output)
    return outputs


class TestRuns:
    @pytest.mark.slow
    @pytest.mark.parametrize("streamed", [False, True])
    def test_a_model_gets_all_that_was_said(self, streamed: bool) -> None:
        model = Scripted(turns())
        assert run(chat("s", model, streamed, window="messages", limit=1000)) == [f"It is noon. {n}" for n in range(6)]
        # A question, reasoning, two calls, two outputs, reasoning, handoff, its output, reasoning, an answer.
        assert len(model.inputs[-1]) == 11 * 5 + 9
        assert get()[:-2] == model.inputs[-1]
        assert [row.type for row in conversation().messages.history()][:7] == [
            "USER",
            "AI",
            "TOOL_EXECUTION_RESULT",
            "TOOL_EXECUTION_RESULT",
            "AI",
            "TOOL_EXECUTION_RESULT",
            "AI",
        ]

    def test_a_run_goes_on_whatever_a_tool_returns(self) -> None:
        @function_tool
        def raw() -> str:
            """Bytes of a file."""
            return "PK\x00\ud800"

        model = Scripted(iter([[calls("raw", "1", "a")], [says("A ZIP file.", "b")], [says("Yes.", "c")]]))
        agent = Agent(name="reader", model=model, tools=[raw])

        async def ask(question: str) -> Any:
            return (await Runner.run(agent, question, session=session(), run_config=NO_TRACES)).final_output

        assert run(ask("What is it?")) == "A ZIP file."
        assert run(ask("Sure?")) == "Yes."
        (result,) = [item for item in model.inputs[-1] if item.get("type") == "function_call_output"]
        assert result["output"] == "PK\ufffd\ufffd"

    @pytest.mark.slow
    def test_a_window_leaves_what_is_valid(self) -> None:
        for limit in (1, 2, 3, 4, 6, 9, 13):
            model = Scripted(turns())
            run(chat(f"{limit}", model, window="messages", limit=limit))
            check_input(get(memory_id=f"{limit}"))
            assert Conversation.objects.get(memory_id=f"{limit}").message_count == 6 * 7

    @pytest.mark.slow
    def test_a_window_of_tokens_leaves_what_is_valid(self) -> None:
        for limit in (20, 60, 100):
            run(chat(f"{limit}", Scripted(turns()), window="tokens", limit=limit))
            check_input(get(memory_id=f"{limit}"))


def _agent() -> Agent:
    return Agent(name="A", model=Scripted(iter([[says("Hi!", "m")]])))


def run_sync() -> Any:
    """The answer of a run over the session, in an event loop of this thread."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return Runner.run_sync(_agent(), "Hello", session=session(), run_config=NO_TRACES).final_output
    finally:
        loop.run_until_complete(sync_to_async(connections.close_all)())
        asyncio.set_event_loop(None)
        loop.close()


class TestWithinATransaction:
    @pytest.mark.usefixtures("short_wait_for_lock")
    def test_that_changed_the_conversation_the_error_says_what_to_do(self) -> None:
        add(HI)
        with transaction.atomic():
            conversation().memory.add(UserMessage("And?"))
            with pytest.raises(TransactionManagementError, match=r"async_to_sync\(Runner.run\)\(…\) instead"):
                run_sync()
        assert _texts() == ["Hi", "And?"]
        assert run_sync() == "Hi!"
        assert _texts() == ["Hi", "And?", "Hello", "Hi!"]

    def test_that_changed_nothing_a_run_is_stored(self) -> None:
        add(HI)
        with transaction.atomic():
            assert run_sync() == "Hi!"
            transaction.set_rollback(True)
        assert _texts() == ["Hi", "Hello", "Hi!"]

    def test_a_run_on_the_same_connection_is_a_part_of_it(self) -> None:
        add(HI)
        with transaction.atomic():
            conversation().memory.add(UserMessage("And?"))
            async_to_sync(Runner.run)(_agent(), "Hello", session=session(), run_config=NO_TRACES)
            assert _texts() == ["Hi", "And?", "Hello", "Hi!"]
            transaction.set_rollback(True)
        assert _texts() == ["Hi"]


def _texts() -> list[str]:
    return [row.text for row in conversation().messages.retained()]
