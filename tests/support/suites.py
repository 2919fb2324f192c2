"""What each suite of ``.ci/run`` on a server runs of the tests, and why: ``pytest --suite mariadb``.

``pytest --all`` runs everything, on SQLite. A server has to show that it does the same with what the product sends it.
So a suite runs as few files as have all the statements of the product (``BY_STATEMENTS``, which
``python -m tests.tools.choose_suites`` finds), and files whose result depends on the server in other ways
(``BESIDES``). ``pytest --all`` says which statements are in no file of a suite. Of a test with many parameters, suites
run some.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from pathlib import Path, PurePosixPath

import pytest

from tests.support import budget
from tests.support.paths import ROOT

__all__ = [
    "BESIDES",
    "BY_STATEMENTS",
    "ONLY_ON_SQLITE",
    "RUN_ONCE",
    "SUITES",
    "WITH_ALL_PARAMETERS",
    "files_of",
    "first_tests",
    "is_collected_by",
    "is_in",
    "run_by_suites",
]

_AT_ONCE = "threads or processes write at once, and the server decides who waits, and for how long"
_CONNECTIONS = "connections break, are pooled, or are given back"
_REFUSED = "numbers, texts and names that one server takes and another refuses, or takes for the same"
_ORDER = "the server compares and orders texts"
_PLANS = "the server's own plan is looked at"
_OF_POSTGRESQL = "its SQL is PostgreSQL's"
_TEXTS = "it is about texts, which are the same on every database"
_OF_BENCHMARKS = "it is about the benchmarks, which measure the database that they are told"
_OF_SQLITE = "the demo's database is SQLite's"
_DERIVED = "its requests are derived from one document; the other tests of REST send the same statements"
_RANDOM = "random steps, whose statements the other tests of its file and its folder send, too"

BY_STATEMENTS: dict[str, list[str]] = {
    # The newest Python and Django. Messages in hash partitions, names in a table of their own, the constraints of
    # Citus, and server-side binding.
    "postgresql": [
        "tests/admin/test_compaction.py",
        "tests/admin/test_conversation.py",
        "tests/admin/test_dashboard.py",
        "tests/admin/test_deleting_users.py",
        "tests/admin/test_history_view.py",
        "tests/admin/test_memory_view.py",
        "tests/admin/test_pages.py",
        "tests/admin/test_past_memory.py",
        "tests/admin/test_permissions.py",
        "tests/admin/test_staff.py",
        "tests/admin/test_standing_summaries.py",
        "tests/admin/test_window_page.py",
        "tests/admin/test_windows.py",
        "tests/assistant/test_model_called.py",
        "tests/assistant/test_own_answers.py",
        "tests/assistant/test_stopped_answers.py",
        "tests/assistant/test_tool_types.py",
        "tests/branches/test_admin.py",
        "tests/branches/test_fork.py",
        "tests/branches/test_stateful.py",
        "tests/branches/test_turns.py",
        "tests/contrib/conversation_store/test_beside_memory.py",
        "tests/contrib/conversation_store/test_store.py",
        "tests/contrib/conversation_store/test_transfer.py",
        "tests/contrib/langgraph/test_deletion.py",
        "tests/contrib/langgraph/test_delta.py",
        "tests/contrib/langgraph/test_messages.py",
        "tests/contrib/langgraph/test_mirror.py",
        "tests/contrib/langgraph/test_saver.py",
        "tests/contrib/langgraph/test_transfer.py",
        "tests/contrib/test_across.py",
        "tests/contrib/test_agent_framework.py",
        "tests/contrib/test_llama_index.py",
        "tests/contrib/test_pydantic_ai.py",
        "tests/contrib/test_summaries.py",
        "tests/core/test_conformance.py",
        "tests/database/test_compaction.py",
        "tests/database/test_compaction_parts.py",
        "tests/database/test_erased_summaries.py",
        "tests/database/test_long_histories.py",
        "tests/database/test_pins.py",
        "tests/database/test_replay.py",
        "tests/database/test_saving.py",
        "tests/feedback/test_admin.py",
        "tests/feedback/test_giving.py",
        "tests/feedback/test_rest.py",
        "tests/maintenance/test_compact_command.py",
        "tests/maintenance/test_purge.py",
        "tests/maintenance/test_recount.py",
        "tests/maintenance/test_replay.py",
        "tests/maintenance/test_verify.py",
        "tests/rest/test_bounds.py",
        "tests/rest/test_compaction.py",
        "tests/rest/test_errors.py",
        "tests/rest/test_fuzz.py",
        "tests/rest/test_isolation.py",
        "tests/rest/test_messages.py",
        "tests/rest/test_pins.py",
        "tests/rest/test_preconditions.py",
        "tests/rest/test_staff.py",
        "tests/rest/test_tenants.py",
        "tests/rest/test_users.py",
        "tests/search/test_admin.py",
        "tests/search/test_frameworks.py",
        "tests/search/test_quoted.py",
        "tests/search/test_replay.py",
        "tests/search/test_rest.py",
        "tests/search/test_scripts.py",
        "tests/search/test_searching.py",
        "tests/search/test_tool.py",
        "tests/test_hostile_texts.py",
        "tests/transfer/test_export.py",
        "tests/transfer/test_import_chatgpt_branches.py",
        "tests/transfer/test_import_openai_agents.py",
        "tests/transfer/test_import_tables.py",
        "tests/turns/test_history.py",
        "tests/turns/test_resume.py",
        "tests/turns/test_retries.py",
        "tests/usage/test_admin.py",
        "tests/usage/test_recording.py",
        "tests/usage/test_rest.py",
        "tests/usage/test_sums.py",
    ],
    # The oldest Python and Django.
    "mariadb": [
        "tests/admin/test_compaction.py",
        "tests/admin/test_conversation.py",
        "tests/admin/test_dashboard.py",
        "tests/admin/test_deleting_users.py",
        "tests/admin/test_history_view.py",
        "tests/admin/test_memory_view.py",
        "tests/admin/test_pages.py",
        "tests/admin/test_past_memory.py",
        "tests/admin/test_permissions.py",
        "tests/admin/test_staff.py",
        "tests/admin/test_standing_summaries.py",
        "tests/admin/test_window_page.py",
        "tests/admin/test_windows.py",
        "tests/assistant/test_model_called.py",
        "tests/assistant/test_own_answers.py",
        "tests/assistant/test_stopped_answers.py",
        "tests/assistant/test_tool_types.py",
        "tests/branches/test_admin.py",
        "tests/branches/test_fork.py",
        "tests/branches/test_stateful.py",
        "tests/branches/test_turns.py",
        "tests/contrib/conversation_store/test_beside_memory.py",
        "tests/contrib/conversation_store/test_store.py",
        "tests/contrib/conversation_store/test_transfer.py",
        "tests/contrib/langgraph/test_deletion.py",
        "tests/contrib/langgraph/test_delta.py",
        "tests/contrib/langgraph/test_messages.py",
        "tests/contrib/langgraph/test_mirror.py",
        "tests/contrib/langgraph/test_saver.py",
        "tests/contrib/langgraph/test_transfer.py",
        "tests/contrib/test_across.py",
        "tests/contrib/test_agent_framework.py",
        "tests/contrib/test_llama_index.py",
        "tests/contrib/test_pydantic_ai.py",
        "tests/contrib/test_summaries.py",
        "tests/core/test_conformance.py",
        "tests/database/test_compaction.py",
        "tests/database/test_compaction_parts.py",
        "tests/database/test_erased_summaries.py",
        "tests/database/test_long_histories.py",
        "tests/database/test_pins.py",
        "tests/database/test_replay.py",
        "tests/database/test_saving.py",
        "tests/feedback/test_admin.py",
        "tests/feedback/test_giving.py",
        "tests/feedback/test_rest.py",
        "tests/maintenance/test_compact_command.py",
        "tests/maintenance/test_purge.py",
        "tests/maintenance/test_recount.py",
        "tests/maintenance/test_replay.py",
        "tests/maintenance/test_verify.py",
        "tests/rest/test_bounds.py",
        "tests/rest/test_compaction.py",
        "tests/rest/test_errors.py",
        "tests/rest/test_fuzz.py",
        "tests/rest/test_isolation.py",
        "tests/rest/test_messages.py",
        "tests/rest/test_pins.py",
        "tests/rest/test_preconditions.py",
        "tests/rest/test_staff.py",
        "tests/rest/test_tenants.py",
        "tests/rest/test_users.py",
        "tests/search/test_admin.py",
        "tests/search/test_frameworks.py",
        "tests/search/test_quoted.py",
        "tests/search/test_replay.py",
        "tests/search/test_rest.py",
        "tests/search/test_scripts.py",
        "tests/search/test_searching.py",
        "tests/search/test_tool.py",
        "tests/test_hostile_texts.py",
        "tests/transfer/test_export.py",
        "tests/transfer/test_import_chatgpt_branches.py",
        "tests/transfer/test_import_openai_agents.py",
        "tests/transfer/test_import_tables.py",
        "tests/turns/test_history.py",
        "tests/turns/test_resume.py",
        "tests/turns/test_retries.py",
        "tests/usage/test_admin.py",
        "tests/usage/test_recording.py",
        "tests/usage/test_rest.py",
        "tests/usage/test_sums.py",
    ],
    # PostgreSQL as most projects have it. Only here an addition is one statement, and psycopg puts the parameters into
    # the statements. Its files have the statements that "postgresql" lacks.
    "undivided": [
        "tests/assistant/test_turns_in_database.py",
        "tests/core/test_conformance.py",
        "tests/database/test_async.py",
        "tests/database/test_change.py",
        "tests/database/test_compaction.py",
        "tests/database/test_compaction_parts.py",
        "tests/database/test_compaction_processes.py",
        "tests/database/test_erased_summaries.py",
        "tests/database/test_estimators.py",
        "tests/database/test_late_summaries.py",
        "tests/database/test_long_histories.py",
        "tests/database/test_long_turns.py",
        "tests/database/test_lost_connections.py",
        "tests/database/test_memory_to_try.py",
        "tests/database/test_messages.py",
        "tests/database/test_native_forms.py",
        "tests/database/test_pins.py",
        "tests/database/test_query_plans.py",
        "tests/database/test_saving.py",
        "tests/database/test_signals.py",
        "tests/database/test_stateful.py",
        "tests/database/test_store_properties.py",
        "tests/database/test_terms.py",
        "tests/rest/test_idempotency.py",
        "tests/rest/test_memory.py",
        "tests/rest/test_messages.py",
        "tests/rest/test_preconditions.py",
        "tests/rest/test_server.py",
        "tests/rest/test_stores.py",
        "tests/turns/test_retries.py",
    ],
}
"""Of each suite the files that together have all statements of the product on its engine."""

SUITES = list(BY_STATEMENTS)

WITH_ALL_PARAMETERS: list[str] = [
    "tests/admin/test_conversation.py",
    "tests/admin/test_lists.py",
    "tests/admin/test_permissions.py",
    "tests/admin/test_staff.py",
    "tests/admin/test_windows.py",
    "tests/assistant/test_tool_types.py",
    "tests/contrib/langgraph/test_deletion.py",
    "tests/contrib/langgraph/test_mirror.py",
    "tests/core/test_conformance.py",
    "tests/database/test_conversations.py",
    "tests/database/test_pins.py",
    "tests/database/test_query_plans.py",
    "tests/maintenance/test_verify.py",
    "tests/rest/test_bounds.py",
    "tests/rest/test_conversations.py",
    "tests/rest/test_errors.py",
    "tests/rest/test_fuzz.py",
    "tests/rest/test_messages.py",
    "tests/rest/test_pins.py",
    "tests/rest/test_preconditions.py",
    "tests/rest/test_staff.py",
    "tests/rest/test_users.py",
    "tests/search/test_admin.py",
    "tests/search/test_rest.py",
    "tests/usage/test_rest.py",
    "tests/usage/test_sums.py",
]
"""The files all of whose parameters suites run, because the first ones do not have all statements of a file."""

_ON_EACH_SERVER = {
    "tests/admin/test_acts.py": _AT_ONCE,
    "tests/admin/test_lists.py": _ORDER,
    "tests/assistant/test_calibration.py": _AT_ONCE,
    "tests/assistant/test_connections.py": _CONNECTIONS,
    "tests/assistant/test_summaries.py": _AT_ONCE,
    "tests/assistant/test_turns_in_database.py": _AT_ONCE,
    "tests/branches/test_going_back.py": _AT_ONCE,
    "tests/database/test_add_without_lock.py": _AT_ONCE,
    "tests/database/test_async.py": _CONNECTIONS,
    "tests/database/test_compaction_processes.py": _AT_ONCE,
    "tests/database/test_concurrency.py": _AT_ONCE,
    "tests/database/test_conversations.py": _REFUSED,
    "tests/database/test_late_summaries.py": _AT_ONCE,
    "tests/database/test_lost_connections.py": _CONNECTIONS,
    "tests/database/test_query_plans.py": _PLANS,
    "tests/database/test_terms.py": _AT_ONCE,
    "tests/database/test_threads.py": _AT_ONCE,
    "tests/database/test_writers.py": _AT_ONCE,
    "tests/maintenance/test_while_others_write.py": _AT_ONCE,
    "tests/rest/test_bounds_at_once.py": _AT_ONCE,
    "tests/rest/test_conversations.py": _ORDER,
    "tests/rest/test_server.py": _AT_ONCE,
    "tests/search/test_indexing.py": _AT_ONCE,
    "tests/transfer/test_import.py": _AT_ONCE,
    "tests/turns/test_bounds.py": _AT_ONCE,
    "tests/turns/test_held.py": _AT_ONCE,
    "tests/usage/test_branches.py": _AT_ONCE,
}

BESIDES: dict[str, dict[str, str]] = {
    "postgresql": {
        **_ON_EACH_SERVER,
        "tests/contrib/citus/test_names.py": _OF_POSTGRESQL,
        "tests/contrib/citus/test_shards.py": _OF_POSTGRESQL,
        # These three import all frameworks, and so does nothing else on a server.
        "tests/contrib/test_lost_connections.py": _CONNECTIONS,
        "tests/contrib/test_threads.py": _CONNECTIONS,
        "tests/contrib/test_within_transaction.py": _AT_ONCE,
        "tests/database/test_partitions.py": _OF_POSTGRESQL,
    },
    "mariadb": _ON_EACH_SERVER,
    "undivided": {
        "tests/database/test_add_without_lock.py": _AT_ONCE,
        "tests/database/test_concurrency.py": _AT_ONCE,
        "tests/database/test_conversations.py": _REFUSED,
        "tests/database/test_partitions.py": _OF_POSTGRESQL,
        "tests/database/test_writers.py": _AT_ONCE,
        "tests/rest/test_bounds_at_once.py": _AT_ONCE,
        "tests/tenants/test_tenants.py": _OF_POSTGRESQL,
        "tests/turns/test_pools.py": _CONNECTIONS,
    },
}
"""The files that a suite runs for another reason than a statement."""

ONLY_ON_SQLITE = {
    "tests/admin/test_influence.py": _DERIVED,
    "tests/admin/test_planted_words.py": _TEXTS,
    "tests/ai_sdk": "it is about what browsers read",
    "tests/benchmarks": _OF_BENCHMARKS,
    "tests/demo": _OF_SQLITE,
    "tests/rest/test_influence.py": _DERIVED,
    "tests/rest/test_openapi.py": _TEXTS,
    "tests/rest/test_schemathesis.py": _DERIVED,
    "tests/test_capabilities.py": "its app without the others is on a database of its own",
    "tests/test_translations.py": _TEXTS,
}
"""The files and folders that run on SQLite only, though they may have statements of their own."""

RUN_ONCE = {
    "tests/branches/test_transfer.py::TestAnExport::test_comes_back_whole": _RANDOM,
    "tests/database/test_prefix.py::test_every_request_is_accepted_now_and_as_a_past_memory": _RANDOM,
    "tests/database/test_stateful.py::test_any_interleaving_of_two_clients": _RANDOM,
    "tests/rest/test_server.py::test_a_database_that_is_away_is_temporary_on_every_route": (
        "no route asks a server that is away more than one"
    ),
    "tests/transfer/test_export.py::TestThereAndBack::test_any_conversation_is_the_same_again": _RANDOM,
    "tests/turns/test_bad_networks.py::test_history_is_what_was_said": (
        "it is about clients that go away; other tests have processes that are killed while the server is asked"
    ),
}
"""The dearest tests, which ``pytest --all`` runs on SQLite, each with the reason why that is enough."""


def files_of(suite: str) -> set[str]:
    """Return the files that a suite runs."""
    return {*BY_STATEMENTS[suite], *BESIDES[suite]}


def is_in(folders: Container[str], file: str) -> bool:
    """Return whether a file, or a folder that it is in, is among these."""
    return any(str(each) in folders for each in (PurePosixPath(file), *PurePosixPath(file).parents))


def first_tests(items: Iterable[pytest.Item]) -> set[str]:
    """Return the IDs of the tests that each suite that has their file runs: not all parameters, and not the dearest."""
    return {item.nodeid for item in budget.thinned(items) if item.nodeid.partition("[")[0] not in RUN_ONCE}


def run_by_suites(items: Sequence[pytest.Item]) -> set[str]:
    """Return the IDs of the tests that the suites that have their file run."""
    whole = {item.nodeid for item in items if item.nodeid.partition("::")[0] in WITH_ALL_PARAMETERS}
    return first_tests(items) | whole


def is_collected_by(suite: str, path: Path) -> bool:
    """Return whether a suite runs a file, or anything in a folder."""
    name = path.relative_to(ROOT).as_posix()
    return any(file == name or file.startswith(f"{name}/") for file in files_of(suite))
