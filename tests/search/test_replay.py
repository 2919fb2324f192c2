"""Replays with recall: what searches would have found for past requests, among what the window had lost."""

from __future__ import annotations

import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command
from hypothesis import given, settings
from hypothesis import strategies as st

from chatmemory import AiMessage, UserMessage, capabilities
from chatmemory.contrib.search import indexing
from chatmemory.database.new_messages import NewMessages
from chatmemory.models import Conversation
from chatmemory.replaying import Question, RecallFigures, areplay
from chatmemory.replaying import replay as replay_all
from demo_project.sample_loading import load_sample, read_samples
from tests.support import budget
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.paths import ROOT

pytestmark = pytest.mark.django_db

SAID = [
    "My cat is called Mimi",
    "A lovely name",
    "I drink green tea",
    "Noted",
    "What is the name of my cat?",  # the memory of four messages has lost message 0
    "Mimi",
    "Thanks",  # 0 to 2
    "You are welcome",
    "And which tea do I drink?",  # 0 to 4: 2 has the words, 1 and 3 are its neighbours
    "Green tea",
]


def chat(**window: Any) -> Conversation:
    conversation = ConversationFactory(**{"window": "messages", "limit": 4, **window})
    for number, text in enumerate(SAID):
        conversation.memory.add(AiMessage(text) if number % 2 else UserMessage(text))
    return conversation


def tokens(conversation: Conversation, *positions: int) -> int:
    counts = dict(conversation.messages.values_list("position", "token_count"))
    return sum(counts[position] for position in positions)


def replay(conversation: Conversation, *variants: Any, **options: Any) -> list[RecallFigures]:
    chosen = Conversation.objects.filter(pk=conversation.pk)
    (figures,) = replay_all(chosen, [None, *variants], recall=True, **options)
    return [one.recall for one in figures]


def ask(conversation: Conversation, positions: set[int], text: str, at: int = len(SAID)) -> Question:
    return Question(conversation.pk, text, frozenset(positions), at)


def answered(figures: RecallFigures) -> dict[str, tuple[int, int]]:
    return {
        "window": (figures.window_one, figures.window_all),
        "summaries": (figures.summaries_one, figures.summaries_all),
        "recall": (figures.recall_one, figures.recall_all),
    }


class TestRequests:
    @pytest.mark.parametrize("is_indexed", [False, True])
    def test_hits_are_what_the_window_had_lost(self, is_indexed: bool) -> None:
        conversation = chat()
        if is_indexed:
            list(indexing.index(conversation))
        (figures,) = replay(conversation)
        assert (figures.requests, figures.lost, figures.recalled) == (5, 3, 2)
        requests = [[0], [0, 1, 2], [1, 2, 3, 4], [3, 4, 5, 6], [5, 6, 7, 8]]
        assert figures.input_tokens == sum(tokens(conversation, *positions) for positions in requests)
        assert (figures.hits, figures.hit_tokens) == (4, tokens(conversation, 0, 1, 2, 3))
        assert figures.recalled_share == 2 / 5
        assert figures.added_share == figures.hit_tokens / figures.input_tokens

    def test_another_window_has_lost_other_messages(self) -> None:
        conversation = chat()
        _, six, all_of_them = replay(conversation, {"limit": 6}, {"limit": 100})
        assert (six.lost, six.recalled, six.hits) == (2, 1, 2)
        assert six.hit_tokens == tokens(conversation, 1, 2)
        assert (all_of_them.requests, all_of_them.lost, all_of_them.hits) == (5, 0, 0)

    def test_there_are_no_more_hits_than_wanted_and_the_best_come_first(self) -> None:
        conversation = chat()
        (figures,) = replay(conversation, hits=1)
        assert (figures.hits, figures.hit_tokens) == (2, tokens(conversation, 0, 2))

    def test_a_request_is_the_first_one_after_a_user_message(self) -> None:
        conversation = chat()
        conversation.memory.add(AiMessage("Anything else?"))
        conversation.memory.add(UserMessage("cat"))
        conversation.memory.add(UserMessage("tea"))  # nobody answers "cat" alone
        assert replay(conversation)[0].requests == 5
        conversation.memory.add(AiMessage("Mimi and tea"))
        assert replay(conversation)[0].requests == 6

    def test_what_a_program_put_into_the_memory_is_no_request(self) -> None:
        conversation = chat()
        conversation.memory.set([UserMessage("The user drinks tea")])
        conversation.memory.add(AiMessage("Hello again"))
        assert replay(conversation)[0].requests == 5

    def test_quotes_and_hyphens_of_a_message_exclude_nothing(self) -> None:
        conversation = ConversationFactory(window="messages", limit=2)
        for text in ("I drink tea", "Noted", 'Is "the tea" of mine -drink or food?', "A drink"):
            conversation.memory.add(AiMessage(text) if text in ("Noted", "A drink") else UserMessage(text))
        assert replay(conversation)[0].hits == 1

    def test_a_copy_in_the_memory_is_not_lost(self) -> None:
        conversation = chat()
        conversation.memory.add_all(NewMessages([UserMessage(SAID[0])], copy_of=0))
        conversation.memory.add(UserMessage("cat"))
        conversation.memory.add(AiMessage("Mimi"))
        with_copy = replay(conversation, hits=1)[0]
        assert with_copy.hit_tokens == tokens(conversation, 0, 2, 4)  # message 4 has the word, too

    def test_other_conversations_have_no_influence(self) -> None:
        conversation = chat()
        before = replay(conversation)
        chat(owner=conversation.owner)
        assert replay(conversation) == before
        assert [figures.recall.requests for (figures,) in replay_all(recall=True)] == [5, 5]

    def test_deleted_messages_are_not_found(self, settings: Any) -> None:
        settings.CHATMEMORY = {"KEEP_HISTORY": False}
        assert replay(chat())[0].hits == 0

    def test_of_one_conversation(self) -> None:
        conversation = chat()
        real = conversation.memory.replay(recall=True)
        other = conversation.memory.replay(recall=True, limit=6)
        assert [real.recall, other.recall] == replay(conversation, {"limit": 6})
        assert (real.requests, real.evictions) == (5, 6), "the figures of the window are there, too"
        assert conversation.memory.replay().recall is None
        assert async_to_sync(conversation.memory.areplay)(recall=True) == real

    def test_it_has_an_async_version(self) -> None:
        async def collect() -> list[RecallFigures]:
            return [figures.recall async for (figures,) in areplay(recall=True)]

        conversation = chat()
        assert async_to_sync(collect)() == replay(conversation)

    def test_without_an_app_that_searches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        conversation = chat()
        monkeypatch.setattr(capabilities, "_registered", {})
        capabilities.hooks.cache_clear()
        try:
            with pytest.raises(RuntimeError, match=r'recall=True needs .* add "chatmemory.contrib.search"'):
                conversation.memory.replay(recall=True)
            with pytest.raises(CommandError, match=r'add "chatmemory.contrib.search" to INSTALLED_APPS'):
                run()
            assert conversation.memory.replay().requests == 5
        finally:
            monkeypatch.undo()
            capabilities.hooks.cache_clear()

    @pytest.mark.parametrize(
        ("error", "options"),
        [
            (ValueError, {"hits": 0}),
            (ValueError, {"hits": 101}),
            (TypeError, {"variants": [{"model": "gpt-4o"}]}),
            (ValueError, {"variants": [{"limit": 0}]}),
        ],
    )
    def test_invalid_arguments_are_refused(self, error: type[Exception], options: dict[str, Any]) -> None:
        chat()
        with pytest.raises(error):
            list(replay_all(recall=True, **options))


class TestQuestions:
    def test_one_position_or_all_are_in_the_window_or_recalled(self) -> None:
        conversation = chat()
        (figures,) = replay(conversation, questions=[ask(conversation, {2, 9}, "What do I drink?")])
        assert answered(figures) == {"window": (1, 0), "summaries": (1, 0), "recall": (1, 1)}
        (figures,) = replay(conversation, questions=[ask(conversation, {0, 2}, "drink")], hits=1)
        assert answered(figures) == {"window": (0, 0), "summaries": (0, 0), "recall": (1, 0)}

    def test_a_question_is_asked_before_its_position(self) -> None:
        conversation = chat()
        early = ask(conversation, {0}, "Mimi", at=4)
        later = ask(conversation, {0}, "Mimi", at=5)
        unknown = ask(conversation, {0}, "dog", at=5)
        (figures,) = replay(conversation, questions=[later, early, unknown])
        assert figures.questions == 3
        assert answered(figures) == {"window": (1, 1), "summaries": (1, 1), "recall": (2, 2)}

    def test_each_window_has_its_own_answers(self) -> None:
        conversation = chat()
        question = ask(conversation, {0}, "dog")
        shares = [figures.window_one for figures in replay(conversation, {"limit": 10}, questions=[question])]
        assert shares == [0, 1]

    def test_what_a_summary_covers_counts_apart(self) -> None:
        conversation = chat(limit=100)
        conversation.memory.apply_text(5, "Tea.")
        said = (({0}, "dog"), ({2, 9}, "dog"), ({2}, "drink"))
        questions = [ask(conversation, positions, text, at=11) for positions, text in said]
        before = ask(conversation, {0}, "dog", at=10)  # the summary is message 10
        figures = replay(conversation, {"limit": 100}, questions=[*questions, before])
        for each in figures:
            assert answered(each) == {"window": (2, 1), "summaries": (4, 4), "recall": (3, 2)}


WORDS = ["apple", "apples", "applied", "pear", "Birne", "café", "of", "of", "the", "the", "user_id", "北京大学", "京"]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)


@pytest.mark.slow
@settings(max_examples=budget.examples(30), deadline=None)
@given(st.integers(2, 8), st.lists(st.tuples(texts, texts, st.booleans()), min_size=2, max_size=14))
def test_a_replay_finds_what_a_search_found_then(limit: int, turns: list[tuple[str, str, bool]]) -> None:
    conversation = ConversationFactory(window="messages", limit=limit)
    hits: list[int] = []
    for question, answer, is_indexed in turns:
        ranked = conversation.search(question, order="relevance", limit=100)
        conversation.memory.add(UserMessage(question))
        retained = set(conversation.messages.retained().values_list("position", flat=True))
        hits += [hit.position for hit in ranked if hit.position not in retained][:5]
        conversation.memory.add(AiMessage(answer))
        if is_indexed:
            list(indexing.index(conversation))
    as_it_was, simulated = replay(conversation, {"limit": limit})
    assert as_it_was == simulated
    assert (as_it_was.hits, as_it_was.hit_tokens) == (len(hits), tokens(conversation, *hits))
    assert as_it_was.input_tokens == conversation.memory.replay().input_tokens


def run(*args: str) -> str:
    out = io.StringIO()
    call_command("chatmemory_replay", "--recall", *args, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def write(folder: Path, *lines: Any) -> str:
    path = folder / "questions.jsonl"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return str(path)


class TestCommand:
    def test_it_prints_a_line_for_each_window(self) -> None:
        conversation = chat()
        one, six = replay(conversation, {"limit": 6})
        lines = run("--limit", "6").splitlines()
        assert lines[0].startswith("window     requests  input tokens ")
        assert lines[3:] == [
            "Conversations: 1.",
            "",
            "What a search would have found of what the window had lost:",
            "window     user messages  input tokens  recalled  messages  their tokens  of input",
            f"as it was              5  {one.input_tokens:>12}     40.0%         4  {one.hit_tokens:>12}  "
            f"{one.added_share:>8.1%}",
            f"limit 6                5  {six.input_tokens:>12}     20.0%         2  {six.hit_tokens:>12}  "
            f"{six.added_share:>8.1%}",
        ]

    def test_with_questions_it_replays_their_conversations_and_prints_the_shares(self, tmp_path: Path) -> None:
        conversation = chat()
        chat()
        questions = write(
            tmp_path,
            {"conversation": str(conversation.pk), "question": "What do I drink?", "positions": [2, 9]},
            "",
            {"conversation": conversation.memory_id, "question": "dog", "positions": [0], "at": 5},
        )
        lines = run("--questions", questions, "--limit", "100").splitlines()
        assert lines[3] == "Conversations: 1."
        assert lines[-4:] == [
            "Questions with one of their messages / with all of them:",
            "window     questions  in the window  with summaries  with recall",
            "as it was          2       50% / 0%        50% / 0%    50% / 50%",
            "limit 100          2    100% / 100%     100% / 100%  100% / 100%",
        ]

    def test_json_has_all_figures(self) -> None:
        (figures,) = replay(chat())
        lines = [json.loads(line) for line in run("--json", "--low-water", "50", "--hits", "2").splitlines()]
        assert [line["window"] for line in lines] == [None, {"low_water": 50}]
        recall = lines[0]["recall"]
        assert (recall["requests"], recall["hits"]) == (figures.requests, 3)
        assert recall["recalled_share"] == figures.recalled_share
        assert "hit_share" in lines[0]

    @pytest.mark.slow
    def test_it_says_what_recall_cannot_find(self) -> None:
        conversation = ConversationFactory(window="messages", limit=4)
        conversation.memory.add_all([UserMessage("Tea")] * 2500)
        assert "not indexed, so that recall cannot find them: " in run()
        list(indexing.index(conversation))
        assert "not indexed" not in run()

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("{", "line 2: not JSON"),
            ("[]", "line 2: expected a JSON object"),
            ({"question": "a", "positions": [0]}, "line 2: conversation is missing"),
            ({"conversation": "c", "positions": [0]}, "line 2: question is missing"),
            ({"conversation": "c", "question": "a"}, "line 2: positions is missing"),
            (
                {"conversation": "c", "question": "a", "positions": [0], "place": 1},
                "line 2: place is unknown; the keys",
            ),
            ({"conversation": 1, "question": "a", "positions": [0]}, "line 2: conversation must be the text"),
            ({"conversation": "d", "question": "a", "positions": [0]}, "line 2: there is no conversation 'd' among"),
            ({"conversation": "twice", "question": "a", "positions": [0]}, "line 2: several owners have"),
            ({"conversation": "c", "question": " ", "positions": [0]}, "line 2: question must be text"),
            ({"conversation": "c", "question": "a", "positions": []}, "line 2: positions must be a list"),
            ({"conversation": "c", "question": "a", "positions": 3}, "line 2: positions must be a list"),
            ({"conversation": "c", "question": "a", "positions": [True]}, "line 2: positions must be a list"),
            ({"conversation": "c", "question": "a", "positions": [-1]}, "line 2: positions must be a list"),
            (
                {"conversation": "c", "question": "a", "positions": [10]},
                "line 2: positions must be before the question",
            ),
            ({"conversation": "c", "question": "a", "positions": [4], "at": 4}, "at 4, but one is: 4"),
            (
                {"conversation": "c", "question": "a", "positions": [0], "at": 12},
                "line 2: at must be a position from 0",
            ),
            ({"conversation": "c", "question": "a", "positions": [0], "at": None}, "line 2: at must be a position"),
            ({"conversation": "c", "question": "a", "positions": [0], "at": "9"}, "line 2: at must be a position"),
            ({"conversation": "c", "question": "a", "positions": [1]}, "line 2: nothing was said at position 1"),
        ],
    )
    def test_a_bad_line_is_named(self, line: Any, problem: str, tmp_path: Path) -> None:
        conversation = chat(memory_id="c")
        conversation.messages.filter(position=1).delete()
        chat(memory_id="twice"), chat(memory_id="twice")
        good = {"conversation": "c", "question": "a", "positions": [0]}
        with pytest.raises(CommandError) as raised:
            run("--questions", write(tmp_path, good, line))
        assert problem in str(raised.value)
        assert str(raised.value).startswith("--questions: ")

    def test_a_conversation_that_was_not_chosen_has_no_questions(self, tmp_path: Path) -> None:
        one, other = chat(), chat()
        questions = write(tmp_path, {"conversation": str(one.pk), "question": "a", "positions": [0]})
        with pytest.raises(CommandError, match="line 1: there is no conversation"):
            run("--questions", questions, "--conversation", str(other.pk))

    def test_a_file_that_is_not_there_or_empty_or_not_text_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(CommandError, match="--questions: cannot read"):
            run("--questions", str(tmp_path / "missing.jsonl"))
        with pytest.raises(CommandError, match="there are no questions"):
            run("--questions", write(tmp_path))
        (tmp_path / "binary").write_bytes(b"\xff\xfe")
        with pytest.raises(CommandError, match="is not UTF-8"):
            run("--questions", str(tmp_path / "binary"))

    @pytest.mark.parametrize("args", [["--hits", "0"], ["--hits", "101"], ["--limit", "0"], ["--since", "x"]])
    def test_a_bad_option_is_refused(self, args: list[str]) -> None:
        chat()
        with pytest.raises(CommandError):
            run(*args)

    @pytest.mark.parametrize("option", ["--hits", "--questions"])
    def test_options_of_recall_need_it(self, option: str) -> None:
        with pytest.raises(CommandError, match=f"{option}: use it with --recall"):
            call_command("chatmemory_replay", option, "5")


@pytest.mark.slow
def test_what_the_page_shows_is_what_the_command_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = UserFactory()
    for sample in read_samples():
        load_sample(sample, owner, lambda: None)
    text = (ROOT / "docs" / "search.md").read_text(encoding="utf-8")
    [questions] = re.findall(r'^```json\n(\{"conversation.*?)^```$', text, re.MULTILINE | re.DOTALL)
    [command] = re.findall(r"^\$ python manage.py chatmemory_replay (.*)\n", text, re.MULTILINE)
    [shown] = re.findall(r"^\$ python manage.py chatmemory_replay [^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "questions.jsonl").write_text(questions, encoding="utf-8")
    out = io.StringIO()
    call_command("chatmemory_replay", *shlex.split(command), stdout=out, stderr=io.StringIO())
    assert out.getvalue() == shown
