"""ChatGPT's export of one's data. No real one can be published: these are built of the parts that real ones have."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from chatmemory import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.models import Conversation
from chatmemory.models.branch import on_current_branch
from tests.support.imports import run_import

pytestmark = pytest.mark.django_db

START = 1_700_000_000.5


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    """A message; of a text if ``content`` is one."""
    if isinstance(content, str):
        content = {"content_type": "text", "parts": [content]}
    author = {"role": role, "name": more.pop("name", None), "metadata": {}}
    return {"author": author, "content": content, "recipient": "all", "metadata": {}, **more}


def conversation(*messages: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    """One that nobody asked anything anew: a root without a message, then one after the other."""
    mapping: dict[str, Any] = {"n0": {"id": "n0", "message": None, "parent": None, "children": []}}
    for number, message in enumerate(messages, 1):
        own = message and {"id": f"m{number}", "create_time": START + number, **message}
        mapping[f"n{number - 1}"]["children"].append(f"n{number}")
        mapping[f"n{number}"] = {"id": f"n{number}", "message": own, "parent": f"n{number - 1}", "children": []}
    return {
        "conversation_id": "c1",
        "title": "Tea",
        "create_time": START,
        "mapping": mapping,
        "current_node": f"n{len(messages)}",
        **more,
    }


@pytest.fixture
def load(tmp_path: Path) -> Any:
    def load(*conversations: Any, text: str = "") -> str:
        file = tmp_path / "conversations.json"
        file.write_text(text or json.dumps(conversations, indent=1))
        return run(str(file))

    return load


def run(*args: str) -> str:
    return run_import("chatgpt", *args)


def history() -> list[ChatMessage]:
    return [row.message for row in Conversation.objects.get().messages.history()]


def thoughts(*texts: str) -> dict[str, Any]:
    return said(
        "assistant", {"content_type": "thoughts", "thoughts": [{"summary": "S", "content": text} for text in texts]}
    )


def test_a_talk(load: Any) -> None:
    load(conversation(said("system", ""), said("user", "Hi"), said("assistant", "Hello"), default_model_slug="gpt-x"))
    made = Conversation.objects.get()
    assert (made.memory_id, made.title, made.created_at.timestamp()) == ("c1", "Tea", START)
    assert history() == [UserMessage("Hi"), AiMessage("Hello")]
    assert [row.created_at.timestamp() for row in made.messages.history()] == [START + 2, START + 3]
    assert made.metadata["chatgpt"] == {"default_model_slug": "gpt-x", "without_content": 1}


@pytest.mark.parametrize(
    ("message", "whole"),
    [
        (said("user", "Hi"), {"gizmo_id": "g-abc", "gizmo_type": "gpt"}),
        (said("user", "Hi", metadata={"gizmo_id": "g-abc"}), {}),
        (said("user", "Hi", metadata={"gizmo_id": "g-abc"}), {"gizmo_id": None}),
        (said("system", "", metadata={"gizmo_id": "g-abc"}), {}),
        (said("user", "Hi", metadata={"gizmo_id": "g-other"}), {"gizmo_id": "g-abc"}),
    ],
)
def test_the_custom_gpt_is_kept(load: Any, message: Any, whole: Any) -> None:
    load(conversation(message, said("assistant", "Hello"), **whole))
    kept = Conversation.objects.get().metadata["chatgpt"]
    assert kept["gizmo_id"] == "g-abc"
    assert kept.get("gizmo_type") == whole.get("gizmo_type")


def test_a_conversation_with_no_custom_gpt_names_none(load: Any) -> None:
    load(conversation(said("user", "Hi", metadata={"gizmo_id": None}), said("assistant", "Hello")))
    assert Conversation.objects.get().metadata["chatgpt"] == {}


def test_each_message_keeps_what_it_was_made_of(load: Any) -> None:
    answer = said("assistant", "Yes", metadata={"citations": [{"url": "https://example.com"}], "model_slug": "gpt-x"})
    load(conversation(said("user", "Hi"), thoughts("Hm."), answer))
    row = Conversation.objects.get().messages.get(position=1)
    thought, said_then = row.native_of("chatgpt")
    assert said_then["metadata"] == answer["metadata"]
    assert thought["content"]["content_type"] == "thoughts"
    assert row.message == AiMessage("Yes", thinking="S\nHm.")


def current_branch() -> list[ChatMessage]:
    made = Conversation.objects.get()
    return [row.message for row in made.messages.history().filter(on_current_branch(made))]


class TestTheBranch:
    @pytest.fixture
    def asked_anew(self) -> dict[str, Any]:
        """The first question has two answers; the talk went on after the second."""
        made = conversation(said("user", "Hi"), said("assistant", "one"))
        made["mapping"]["n1"]["children"].append("n3")
        for number, (message, parent) in enumerate([(said("assistant", "two"), 1), (said("user", "more"), 3)], 3):
            made["mapping"][f"n{number}"] = {"message": message, "parent": f"n{parent}", "children": [f"n{number + 1}"]}
        return made | {"current_node": "n4"}

    def test_is_the_one_that_is_shown(self, load: Any, asked_anew: dict[str, Any]) -> None:
        load(asked_anew)
        made = Conversation.objects.get()
        assert history() == [UserMessage("Hi"), AiMessage("one"), AiMessage("two"), UserMessage("more")]
        assert current_branch() == [UserMessage("Hi"), AiMessage("two"), UserMessage("more")]
        assert made.memory.messages() == current_branch()
        assert made.tree().children(0) == (1, 2)
        assert made.metadata["chatgpt"] == {}

    def test_is_an_earlier_one(self, load: Any, asked_anew: dict[str, Any]) -> None:
        load({**asked_anew, "current_node": "n2"})
        assert history()[1:] == [AiMessage("one"), AiMessage("two"), UserMessage("more")]
        assert Conversation.objects.get().memory.messages() == current_branch() == history()[:2]

    def test_is_the_newest_if_nothing_says_which(self, load: Any, asked_anew: dict[str, Any]) -> None:
        del asked_anew["current_node"]
        load(asked_anew)
        assert current_branch()[1:] == [AiMessage("two"), UserMessage("more")]

    def test_is_the_only_one_without_a_history(self, load: Any, asked_anew: dict[str, Any]) -> None:
        with override_settings(CHATMEMORY={"KEEP_HISTORY": False}):
            load(asked_anew)
            assert history() == [UserMessage("Hi"), AiMessage("two"), UserMessage("more")]
        assert Conversation.objects.get().metadata["chatgpt"] == {"other_branches": 1}

    @pytest.mark.slow
    def test_follows_the_source(self, load: Any, asked_anew: dict[str, Any]) -> None:
        """Also if nothing new was said; but not if the conversation was changed here."""
        load(asked_anew)
        assert "Imported conversations: 1, messages: 0" in load({**asked_anew, "current_node": "n2"})
        assert current_branch()[1:] == [AiMessage("one")]
        assert "there already: 1" in load({**asked_anew, "current_node": "n2"})
        Conversation.objects.get().memory.add(UserMessage("mine"))
        load(asked_anew)
        assert current_branch()[1:] == [AiMessage("one"), UserMessage("mine")]

    def test_goes_on_where_messages_are_left_out(self, load: Any, asked_anew: dict[str, Any]) -> None:
        asked_anew["mapping"]["n3"]["message"]["content"]["parts"] = ["a\x00b"]
        said = load(asked_anew)
        assert "U+0000" in said
        assert current_branch() == [UserMessage("Hi"), UserMessage("more")]

    def test_begins_where_a_parent_is_missing(self, load: Any) -> None:
        made = conversation(said("user", "Hi"))
        made["mapping"]["n0"]["parent"] = "client-created-root"
        load(made)
        assert history() == [UserMessage("Hi")]

    @pytest.mark.parametrize("current", ["n2", None])
    def test_that_goes_round_in_a_circle_is_named(self, load: Any, current: str | None) -> None:
        made = conversation(said("user", "Hi"), said("assistant", "one"), current_node=current)
        made["mapping"]["n0"] = {"parent": "n2", "children": ["n1"]}
        assert "conversation 'Tea' c1: its messages go round in a circle" in load(made)

    def test_without_messages(self, load: Any) -> None:
        load(conversation(), conversation(conversation_id="c2", mapping={}))
        assert Conversation.objects.count() == 2


CODE = said("assistant", {"content_type": "code", "language": "python", "text": "1+1"}, recipient="python")
RESULT = said("tool", {"content_type": "execution_output", "text": "2"}, name="python")
PICTURE = said(
    "tool",
    {
        "content_type": "multimodal_text",
        "parts": [{"content_type": "image_asset_pointer", "asset_pointer": "sediment://f1", "width": 9}],
    },
    name="python",
)
HIDDEN = {"is_visually_hidden_from_conversation": True}


class TestTools:
    def test_a_call_and_its_result(self, load: Any) -> None:
        load(conversation(said("user", "1+1?"), thoughts("Add."), CODE, RESULT, said("assistant", "2")))
        call = ToolExecutionRequest("m3", "python", '{"input": "1+1"}')
        assert history()[1:] == [
            AiMessage(None, [call], thinking="S\nAdd."),
            ToolExecutionResultMessage("m3", "python", "2"),
            AiMessage("2"),
        ]

    def test_several_results_are_one(self, load: Any) -> None:
        load(conversation(CODE, RESULT, thoughts("Hm."), PICTURE, said("assistant", "Look")))
        contents = [TextContent("2"), TextContent("[image_asset_pointer: sediment://f1]")]
        assert history()[1:] == [
            ToolExecutionResultMessage("m1", "python", contents=contents),
            AiMessage("Look", thinking="S\nHm."),
        ]
        assert len(Conversation.objects.get().messages.get(position=1).native_of("chatgpt")) == 2

    def test_calls_at_once_are_one_answer_and_each_has_its_result(self, load: Any) -> None:
        web = said("assistant", {"content_type": "code", "text": "{}"}, recipient="file_search.msearch")
        found = said("tool", "found", name="file_search")
        load(conversation(thoughts("Hm."), CODE, web, CODE, found, RESULT, PICTURE, found, said("assistant", "Look")))
        assert history() == [
            AiMessage(
                None,
                [
                    ToolExecutionRequest("m2", "python", '{"input": "1+1"}'),
                    ToolExecutionRequest("m3", "file_search.msearch", "{}"),
                    ToolExecutionRequest("m4", "python", '{"input": "1+1"}'),
                ],
                thinking="S\nHm.",
            ),
            ToolExecutionResultMessage(
                "m3", "file_search.msearch", contents=[TextContent("found"), TextContent("found")]
            ),
            ToolExecutionResultMessage("m2", "python", "2"),
            ToolExecutionResultMessage("m4", "python", "[image_asset_pointer: sediment://f1]"),
            AiMessage("Look"),
        ]
        rows = Conversation.objects.get().messages.order_by("position")
        assert [[source["id"] for source in row.native_of("chatgpt")] for row in rows] == [
            ["m1", "m2", "m3", "m4"],
            ["m5", "m8"],
            ["m6"],
            ["m7"],
            ["m9"],
        ]

    def test_a_result_that_comes_after_another_call(self, load: Any) -> None:
        web = said("assistant", {"content_type": "code", "text": "{}"}, recipient="web.run")
        load(conversation(CODE, thoughts("And?"), web, RESULT, said("tool", "found", name="web.run")))
        assert history()[2:] == [
            ToolExecutionResultMessage("m1", "python", "2"),
            ToolExecutionResultMessage("m3", "web.run", "found"),
        ]

    def test_a_call_without_a_result_takes_none_of_the_next(self, load: Any) -> None:
        load(conversation(CODE, thoughts("Again."), CODE, RESULT, PICTURE, said("assistant", "2")))
        contents = [TextContent("2"), TextContent("[image_asset_pointer: sediment://f1]")]
        assert history()[2:] == [ToolExecutionResultMessage("m3", "python", contents=contents), AiMessage("2")]

    def test_a_result_of_a_tool_by_another_name(self, load: Any) -> None:
        load(conversation(CODE, said("tool", "2", name="a8km123")))
        assert history()[1] == ToolExecutionResultMessage("m1", "python", "2")

    @pytest.mark.parametrize(
        ("text", "arguments"), [('{"q": [1]}', '{"q": [1]}'), ("", "{}"), ("[1]", '{"input": "[1]"}')]
    )
    def test_arguments_are_an_object(self, load: Any, text: str, arguments: str) -> None:
        load(conversation(said("assistant", {"content_type": "code", "text": text}, recipient="web.run")))
        assert history() == [AiMessage(None, [ToolExecutionRequest("m1", "web.run", arguments)])]

    def test_a_result_that_says_nothing_answers_its_call_still(self, load: Any) -> None:
        load(conversation(CODE, said("tool", "", name="python")))
        assert history()[1] == ToolExecutionResultMessage("m1", "python", "")

    def test_a_tool_that_nobody_called(self, load: Any) -> None:
        load(conversation(said("user", "Hi"), said("tool", "a file", name="myfiles_browser")))
        told = {"role": "tool", "name": "myfiles_browser", "kind": "text", "text": "a file"}
        assert history()[1] == CustomMessage(told)


class TestWhatIsSaid:
    @pytest.mark.parametrize(
        ("message", "expected"),
        [
            (said("system", "Be kind."), SystemMessage("Be kind.")),
            (
                said(
                    "user",
                    {"content_type": "user_editable_context", "user_profile": "Ann", "user_instructions": "Go."},
                ),
                SystemMessage("Ann\nGo."),
            ),
            (
                said("system", "", metadata={"user_context_message_data": {"about_user_message": "Ann"}}),
                SystemMessage("Ann"),
            ),
            (
                said("assistant", {"content_type": "model_editable_context", "model_set_context": "likes tea"}),
                AiMessage("likes tea"),
            ),
            (
                said("system", {"content_type": "model_editable_context", "model_set_context": "likes tea"}),
                CustomMessage({"role": "system", "kind": "model_editable_context", "text": "likes tea"}),
            ),
            (said("assistant", "Hm.", channel="analysis"), AiMessage(thinking="Hm.")),
            (said("assistant", "I look.", channel="commentary"), AiMessage("I look.")),
            (
                said("assistant", "psst", metadata=HIDDEN),
                CustomMessage({"role": "assistant", "kind": "text", "text": "psst", "hidden": True}),
            ),
            (
                said("user", "psst", metadata=HIDDEN),
                CustomMessage({"role": "user", "kind": "text", "text": "psst", "hidden": True}),
            ),
            (said("system", "Be kind.", metadata=HIDDEN), SystemMessage("Be kind.")),
            (thoughts("Hm.", "Well."), AiMessage(thinking="S\nHm.\n\nS\nWell.")),
            (
                said("assistant", {"content_type": "reasoning_recap", "content": "Thought"}),
                AiMessage(thinking="Thought"),
            ),
            (
                said(
                    "user",
                    {"content_type": "multimodal_text", "parts": ["Look", {"asset_pointer": "file-service:f"}]},
                ),
                UserMessage([TextContent("Look"), TextContent("[file: file-service:f]")]),
            ),
            (
                said(
                    "user",
                    {
                        "content_type": "multimodal_text",
                        "parts": [
                            {"content_type": "audio_transcription", "text": "Hello"},
                            {
                                "content_type": "real_time_user_audio_video_asset_pointer",
                                "audio_asset_pointer": {
                                    "content_type": "audio_asset_pointer",
                                    "asset_pointer": "s://a",
                                },
                            },
                        ],
                    },
                ),
                UserMessage([TextContent("Hello"), TextContent("[audio_asset_pointer: s://a]")]),
            ),
            (
                said("user", "Read", metadata={"attachments": [{"id": "f1", "name": "a.pdf"}]}),
                UserMessage([TextContent("Read"), TextContent("[file: a.pdf]")]),
            ),
            (
                said(
                    "user",
                    {"content_type": "multimodal_text", "parts": [{"asset_pointer": "sediment://f1"}]},
                    metadata={"attachments": [{"id": "f1", "name": "a.png"}]},
                ),
                UserMessage("[file: sediment://f1]"),
            ),
            (said("assistant", {"content_type": "of the future", "x": 1}), AiMessage('{"x": 1}')),
            (said("critic", "Hm"), CustomMessage({"role": "critic", "kind": "text", "text": "Hm"})),
        ],
    )
    def test_is_kept(self, load: Any, message: dict[str, Any], expected: ChatMessage) -> None:
        load(conversation(message))
        assert history() == [expected]
        (source, *_rest) = Conversation.objects.get().messages.get().native_of("chatgpt")
        assert source == {"id": "m1", "create_time": START + 1, **message}

    def test_analysis_is_the_thinking_of_the_answer(self, load: Any) -> None:
        analysis = said("assistant", "Easy.", channel="analysis")
        load(conversation(said("user", "1+1?"), analysis, said("assistant", "2", channel="final")))
        assert history() == [UserMessage("1+1?"), AiMessage("2", thinking="Easy.")]

    def test_what_is_hidden_comes_between_nothing(self, load: Any) -> None:
        hidden = said("user", "psst", metadata=HIDDEN)
        load(conversation(CODE, hidden, RESULT, thoughts("Hm."), hidden, said("assistant", "2")))
        assert [message for message in history() if not isinstance(message, CustomMessage)] == [
            AiMessage(None, [ToolExecutionRequest("m1", "python", '{"input": "1+1"}')]),
            ToolExecutionResultMessage("m1", "python", "2"),
            AiMessage("2", thinking="S\nHm."),
        ]

    def test_what_no_database_holds_is_named(self, load: Any) -> None:
        text = load(conversation(said("user", "Hi"), said("assistant", "a\x00b")))
        assert "conversations.json:2: item 1: conversation 'Tea' c1, message m2: text: has U+0000 at index 1" in text
        assert history() == [UserMessage("Hi")]


class TestTheFile:
    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("{}", "conversations.json: expected a JSON array"),
            ('[\n{"id": "x"}]', "conversations.json:2: item 1: conversation x: expected a conversation of ChatGPT"),
            ("[[]]", "conversations.json:1: item 1: expected a conversation of ChatGPT"),
            ('[{"mapping": {}}]', 'conversations.json:1: item 1: the conversation has no "conversation_id"'),
            (
                '[{"id": 7, "mapping": {}, "title": "Tea"}]',
                "item 1: conversation 'Tea' 7: the conversation has no \"conversation_id\"",
            ),
            ("[{x}]", "conversations.json:1: item 1: not JSON"),
        ],
    )
    def test_of_something_else(self, load: Any, text: str, problem: str) -> None:
        assert problem in load(text=text)

    def test_a_conversation_that_is_broken_costs_no_other(self, load: Any) -> None:
        whole = json.dumps(conversation(said("user", "Hi")))
        load(text=f'[{{"id": 7}}, {whole}, {{"id": 8}}]')
        assert history() == [UserMessage("Hi")]

    def test_the_archive(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
            for number in range(2):
                one = conversation(said("user", "Hi"), conversation_id=f"c{number}")
                archive.writestr(f"conversations-{number:03}.json", json.dumps([one]))
            archive.writestr("user.json", "{}")
        assert "conversations: 2, messages: 2" in run(str(tmp_path / "export.zip"))
        assert "there already: 2" in run(str(tmp_path / "export.zip"))

    def test_an_archive_of_something_else(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
            archive.writestr("user.json", "{}")
        assert "export.zip: there is no conversations.json in this archive" in run(str(tmp_path / "export.zip"))

    @pytest.mark.parametrize(
        ("place", "value", "problem"),
        [
            (6, 1, "is encrypted, password required for extraction; unpack it, and import conversations.json"),
            (8, 99, "its compression is not supported; unpack it, and import conversations.json"),
            (8, zipfile.ZIP_LZMA, "its compression is not supported; unpack it, and import conversations.json"),
            (None, 0xFF, "export.zip: cannot be read: Error -3 while decompressing data"),
        ],
    )
    def test_an_archive_that_cannot_be_read(self, tmp_path: Path, place: int | None, value: int, problem: str) -> None:
        file = tmp_path / "export.zip"
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("conversations.json", json.dumps([conversation(said("user", "Hi"))]))
        data = bytearray(file.read_bytes())
        if place is None:
            data[60:70] = bytes([value]) * 10
        else:
            data[place] = data[data.rindex(b"PK\x01\x02") + place + 2] = value
        file.write_bytes(data)
        text = run(str(file))
        assert problem in text
        assert "left out: 1" in text

    def test_a_newer_export_adds_what_is_new(self, load: Any) -> None:
        load(conversation(said("user", "Hi")))
        assert "messages: 1;" in load(conversation(said("user", "Hi"), said("assistant", "Hello")))
        assert history() == [UserMessage("Hi"), AiMessage("Hello")]
