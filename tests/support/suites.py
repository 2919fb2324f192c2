"""What each suite of ``.ci/run`` on a server leaves out of the tests, and why: ``pytest --suite mariadb``.

A new file runs everywhere until it is named here. On SQLite nothing is left out.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.paths import ROOT

__all__ = ["ASK_NO_DATABASE", "LEFT_OUT", "SUITES", "reason_to_leave_out_of"]

_DIVIDED_HAS_IT = "what it writes, the tests of the database and of REST write in one statement, too; divided runs it"
_TEXTS = "it is about texts, which are the same on every database"
_OF_SQLITE = "the demo's database is SQLite's"
_SAME_STATEMENTS = "the files of the admin that stay send the database the same statements"

LEFT_OUT: dict[str, dict[str, str]] = {
    # Only here an addition is one statement, and psycopg puts the parameters into the statements.
    "postgresql": {
        "tests/admin": _DIVIDED_HAS_IT,
        "tests/assistant/test_anthropic.py": _DIVIDED_HAS_IT,
        "tests/assistant/test_model_called.py": _DIVIDED_HAS_IT,
        "tests/assistant/test_own_answers.py": _DIVIDED_HAS_IT,
        "tests/assistant/test_summarizer_openai.py": _DIVIDED_HAS_IT,
        "tests/assistant/test_titles.py": _DIVIDED_HAS_IT,
        "tests/assistant/test_tool_timeouts.py": _DIVIDED_HAS_IT,
        "tests/assistant/test_tool_types.py": _DIVIDED_HAS_IT,
        "tests/assistant/test_tools_together.py": _DIVIDED_HAS_IT,
        "tests/assistant/test_usage_of_failed_calls.py": _DIVIDED_HAS_IT,
        "tests/chat": _DIVIDED_HAS_IT,
        "tests/demo": _DIVIDED_HAS_IT,
        "tests/formats": _DIVIDED_HAS_IT,
        "tests/rest/test_error_matrix.py": _DIVIDED_HAS_IT,
        "tests/rest/test_languages.py": _DIVIDED_HAS_IT,
        "tests/rest/test_openapi.py": _DIVIDED_HAS_IT,
        "tests/rest/test_projects.py": _DIVIDED_HAS_IT,
        "tests/rest/test_staff.py": _DIVIDED_HAS_IT,
        "tests/rest/test_staff_record.py": _DIVIDED_HAS_IT,
        "tests/test_checks.py": _DIVIDED_HAS_IT,
        "tests/test_coded_errors.py": _DIVIDED_HAS_IT,
        "tests/test_docs.py": _DIVIDED_HAS_IT,
        "tests/test_plain_errors.py": _DIVIDED_HAS_IT,
        "tests/test_settings.py": _DIVIDED_HAS_IT,
        "tests/test_translations.py": _DIVIDED_HAS_IT,
        "tests/test_window_settings.py": _DIVIDED_HAS_IT,
    },
    # Messages in hash partitions, names in a table of their own, the constraints of Citus, and server-side binding.
    "divided": {},
    "mariadb": {
        "tests/admin/test_history_view.py": _SAME_STATEMENTS,
        "tests/admin/test_long_conversation.py": _SAME_STATEMENTS,
        "tests/admin/test_nonces.py": _SAME_STATEMENTS,
        "tests/admin/test_row_words.py": _SAME_STATEMENTS,
        "tests/admin/test_window_page.py": _SAME_STATEMENTS,
        "tests/admin/test_windows_compared.py": _SAME_STATEMENTS,
        "tests/demo": _OF_SQLITE,
        "tests/rest/test_languages.py": _TEXTS,
        "tests/rest/test_openapi.py": _TEXTS,
        "tests/test_coded_errors.py": _TEXTS,
        "tests/test_plain_errors.py": _TEXTS,
        "tests/test_translations.py": _TEXTS,
    },
}
"""The folders and files that a suite leaves out, each with the reason."""

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
    "tests/benchmarks/test_compaction.py",
    "tests/benchmarks/test_pages.py",
    "tests/benchmarks/test_prompt_cache.py",
    "tests/chat/test_conversations.py",
    "tests/contrib/test_blank_system_messages.py",
    "tests/core/test_eviction.py",
    "tests/core/test_extras.py",
    "tests/core/test_json_text.py",
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
    "tests/demo/test_bot.py",
    "tests/demo/test_command.py",
    "tests/demo/test_speakers.py",
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
    "tests/test_front_door.py",
    "tests/test_glossary.py",
    "tests/test_kept_names.py",
]
"""The files none of whose tests asks a database; every suite on a server leaves them out."""

SUITES = list(LEFT_OUT)


def reason_to_leave_out_of(suite: str, path: Path) -> str | None:
    """Return the reason for which a suite does not run a file or folder; None if it runs it."""
    reasons = LEFT_OUT[suite] | dict.fromkeys(ASK_NO_DATABASE, "it asks no database")
    name = path.relative_to(ROOT)
    return next((reasons[str(each)] for each in (name, *name.parents) if str(each) in reasons), None)
