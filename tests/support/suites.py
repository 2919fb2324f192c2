"""What each suite of ``.ci/run`` leaves out of the tests, and why: ``pytest --suite mariadb``.

The README's command runs everything, on SQLite and the oldest Python and Django. A new file runs in each suite whose
rules name neither it nor a folder that it is in; ``postgresql`` runs only what its rules name. Of a test with many
parameters, the other suites run some.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.paths import ROOT

__all__ = ["ASK_NO_DATABASE", "ONLY_ON_SQLITE", "RULES", "SUITES", "is_run_by", "reason_to_leave_out_of"]

_DIVIDED_HAS_IT = "what it writes, the tests of the database and of REST write in one statement, too; divided runs it"
_TEXTS = "it is about texts, which are the same on every database"
_OF_BENCHMARKS = "it is about the benchmarks, which measure the database that they are told"
_OF_SQLITE = "the demo's database is SQLite's"
_SAME_STATEMENTS = "REST, or the files of the admin that stay, send the database the same statements"
_SAME_TURNS = "the turns of the files that stay send the same statements; PostgreSQL and SQLite run all of them"
_SAME_CHANGES = "adapters make the same changes as the tests of memories; PostgreSQL and SQLite run all of them"
_DERIVED = "its requests are derived from one document; the other tests of REST send the same statements"
_LARGEST = "it is among the largest random tests, and SQLite and PostgreSQL run it with the same statements"
_NO_DJANGO = "it touches nothing of Django, and on SQLite the README's command runs it"
_RUN = ""

RULES: dict[str, dict[str, str]] = {
    # Only here an addition is one statement, and psycopg puts the parameters into the statements.
    "postgresql": {
        "tests": _DIVIDED_HAS_IT,
        "tests/assistant/test_turns_in_database.py": _RUN,
        "tests/contrib/test_across.py": _RUN,
        "tests/core/test_conformance.py": _RUN,
        "tests/database": _RUN,
        "tests/database/test_compaction_stateful.py": _DIVIDED_HAS_IT,
        "tests/database/test_prefix.py": _DIVIDED_HAS_IT,
        "tests/database/test_replay.py": _DIVIDED_HAS_IT,
        "tests/database/test_windows.py": _DIVIDED_HAS_IT,
        "tests/rest/test_bounds_at_once.py": _RUN,
        "tests/rest/test_idempotency.py": _RUN,
        "tests/rest/test_memory.py": _RUN,
        "tests/rest/test_messages.py": _RUN,
        "tests/rest/test_preconditions.py": _RUN,
        "tests/rest/test_server.py": _RUN,
        "tests/rest/test_stores.py": _RUN,
        "tests/turns/test_retries.py": _RUN,
    },
    # Messages in hash partitions, names in a table of their own, the constraints of Citus, and server-side binding.
    "divided": {},
    "mariadb": {
        "tests/admin": _SAME_STATEMENTS,
        "tests/admin/test_acts.py": _RUN,
        "tests/admin/test_dashboard.py": _RUN,
        "tests/admin/test_deleting_users.py": _RUN,
        "tests/admin/test_lists.py": _RUN,
        "tests/admin/test_pages.py": _RUN,
        "tests/admin/test_past_memory.py": _RUN,
        "tests/admin/test_standing_summaries.py": _RUN,
        "tests/admin/test_strip.py": _RUN,
        "tests/assistant": _SAME_TURNS,
        "tests/assistant/test_calibration.py": _RUN,
        "tests/assistant/test_connections.py": _RUN,
        "tests/assistant/test_context_length.py": _RUN,
        "tests/assistant/test_reserve.py": _RUN,
        "tests/assistant/test_summaries.py": _RUN,
        "tests/assistant/test_titles.py": _RUN,
        "tests/assistant/test_turns_in_database.py": _RUN,
        "tests/branches/test_naive_tree.py": _LARGEST,
        "tests/branches/test_replays.py": _LARGEST,
        "tests/chat": _SAME_STATEMENTS,
        "tests/contrib": _SAME_CHANGES,
        "tests/contrib/conversation_store": _RUN,
        "tests/contrib/langgraph": _RUN,
        "tests/contrib/test_across.py": _RUN,
        "tests/contrib/test_full_windows.py": _RUN,
        "tests/contrib/test_settings.py": _RUN,
        "tests/core/test_conformance.py": _LARGEST,
        "tests/database/test_compaction_parts.py": _LARGEST,
        "tests/database/test_compaction_stateful.py": _LARGEST,
        "tests/database/test_prefix.py": _LARGEST,
        "tests/database/test_replay.py": _LARGEST,
        "tests/rest/test_languages.py": _TEXTS,
        "tests/rest/test_fuzz.py": _SAME_STATEMENTS,
        "tests/rest/test_staff.py": _SAME_STATEMENTS,
        "tests/rest/test_users.py": _SAME_STATEMENTS,
        "tests/search/test_frameworks.py": _SAME_STATEMENTS,
        "tests/search/test_replay.py": _LARGEST,
        "tests/search/test_scripts.py": _TEXTS,
        "tests/test_coded_errors.py": _TEXTS,
        "tests/test_docs.py": _SAME_STATEMENTS,
        "tests/turns": _SAME_TURNS,
        "tests/turns/test_bounds.py": _RUN,
        "tests/turns/test_held.py": _RUN,
        "tests/turns/test_overtaken.py": _RUN,
        "tests/turns/test_resume.py": _RUN,
        "tests/turns/test_retries.py": _RUN,
        "tests/test_plain_errors.py": _TEXTS,
    },
    # What another Python or Django may change: requests, pages, statements, threads.
    "newest": {
        "tests/admin/test_planted_words.py": _DERIVED,
        "tests/assistant/test_anthropic_cache.py": _NO_DJANGO,
        "tests/assistant/test_own_answers.py": _LARGEST,
        "tests/benchmarks": _OF_BENCHMARKS,
        "tests/branches/test_fork.py": _LARGEST,
        "tests/branches/test_naive_tree.py": _LARGEST,
        "tests/branches/test_replays.py": _LARGEST,
        "tests/branches/test_stateful.py": _LARGEST,
        "tests/contrib": _SAME_CHANGES,
        "tests/contrib/langgraph/test_saver.py": _RUN,
        "tests/contrib/test_across.py": _RUN,
        "tests/contrib/test_settings.py": _RUN,
        "tests/contrib/test_threads.py": _RUN,
        "tests/core": _NO_DJANGO,
        "tests/core/test_light_setup.py": _RUN,
        "tests/database/test_compaction_parts.py": _LARGEST,
        "tests/database/test_compaction_stateful.py": _LARGEST,
        "tests/database/test_long_histories.py": _LARGEST,
        "tests/database/test_long_turns.py": _LARGEST,
        "tests/database/test_prefix.py": _LARGEST,
        "tests/database/test_replay.py": _LARGEST,
        "tests/database/test_stateful.py": _LARGEST,
        "tests/database/test_windows.py": _LARGEST,
        "tests/demo": "its pages are those of the other files; the README's command and the browser load it",
        "tests/formats": _NO_DJANGO,
        "tests/rest/test_fuzz.py": _DERIVED,
        "tests/rest/test_schemathesis.py": _DERIVED,
        "tests/rest/test_staff.py": _DERIVED,
        "tests/search/test_query.py": _NO_DJANGO,
        "tests/search/test_replay.py": _LARGEST,
        "tests/search/test_score.py": _NO_DJANGO,
        "tests/search/test_scripts.py": _NO_DJANGO,
        "tests/search/test_snippets.py": _NO_DJANGO,
        "tests/search/test_tokenizer.py": _NO_DJANGO,
        "tests/test_docs.py": "its code is for every version; the README's command runs it",
        "tests/turns/test_bad_networks.py": _LARGEST,
        "tests/turns/test_retries.py": _LARGEST,
    },
}
"""The folders and files that a suite leaves out, each with the reason, or runs. The longest path that fits holds."""

ONLY_ON_SQLITE = {
    "tests/admin/test_planted_words.py": _TEXTS,
    "tests/assistant/test_anthropic_cache.py": _SAME_TURNS,
    "tests/benchmarks": _OF_BENCHMARKS,
    "tests/demo": _OF_SQLITE,
    "tests/rest/test_openapi.py": _TEXTS,
    "tests/rest/test_schemathesis.py": _DERIVED,
    "tests/test_capabilities.py": _SAME_STATEMENTS,
    "tests/test_translations.py": _TEXTS,
}
"""The folders and files that every suite on a server leaves out, each with the reason."""

ASK_NO_DATABASE = [
    "tests/admin/test_memory_difference.py",
    "tests/admin/test_position_ranges.py",
    "tests/assistant/test_anthropic_pauses.py",
    "tests/assistant/test_gemini.py",
    "tests/assistant/test_openai.py",
    "tests/assistant/test_summarizer.py",
    "tests/assistant/test_tool_collections.py",
    "tests/assistant/test_tools.py",
    "tests/assistant/test_turns_in_process.py",
    "tests/chat/test_conversations.py",
    "tests/contrib/test_blank_system_messages.py",
    "tests/core/test_eviction.py",
    "tests/core/test_extras.py",
    "tests/core/test_json_text.py",
    "tests/core/test_kept_tokens.py",
    "tests/core/test_memory.py",
    "tests/core/test_messages.py",
    "tests/core/test_numbers.py",
    "tests/core/test_serialization.py",
    "tests/core/test_standalone.py",
    "tests/core/test_stores.py",
    "tests/core/test_summaries.py",
    "tests/core/test_tokens.py",
    "tests/core/test_whole_turns.py",
    "tests/core/test_window_settings.py",
    "tests/core/test_windows.py",
    "tests/database/test_positions.py",
    "tests/formats/test_ai_sdk.py",
    "tests/formats/test_ai_sdk_stream.py",
    "tests/formats/test_anthropic.py",
    "tests/formats/test_errors.py",
    "tests/formats/test_gemini.py",
    "tests/formats/test_kept_parts.py",
    "tests/formats/test_openai.py",
    "tests/formats/test_responses.py",
    "tests/formats/test_standalone.py",
    "tests/formats/test_thinking.py",
    "tests/formats/test_validity.py",
    "tests/search/test_query.py",
    "tests/search/test_score.py",
    "tests/search/test_snippets.py",
    "tests/search/test_tokenizer.py",
    "tests/test_front_door.py",
    "tests/test_glossary.py",
    "tests/test_kept_names.py",
]
"""The files none of whose tests asks a database; every suite on a server leaves them out."""

SUITES = list(RULES)

_WITH_ALL_PARAMETERS = "postgresql"


def is_run_by(suite: str, number: int) -> bool:
    """Return whether a suite runs a test with the set of parameters of this number, from 0.

    The README's command and ``postgresql`` run all of them, the others the first two and every fifth.
    """
    return suite == _WITH_ALL_PARAMETERS or number < 2 or number % 5 == 0


def reason_to_leave_out_of(suite: str, path: Path) -> str | None:
    """Return the reason for which a suite does not run a file, or anything in a folder; None if it runs some of it."""
    rules = RULES[suite]
    if suite != "newest":
        rules = rules | ONLY_ON_SQLITE | dict.fromkeys(ASK_NO_DATABASE, "it asks no database")
    name = path.relative_to(ROOT).as_posix()
    if any(reason == _RUN and ruled.startswith(f"{name}/") for ruled, reason in rules.items()):
        return None
    found = (rules[str(each)] for each in (Path(name), *Path(name).parents) if str(each) in rules)
    return next(found, None) or None
