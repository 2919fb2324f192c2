"""Whether the tests run with names in a table of their own, and what that adds to the statements of an operation."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.apps import apps
from django.db import connection

from tests.support.citus import WORKERS

__all__ = [
    "LOCATING",
    "NAMES_ARE_KEPT",
    "ON_ONE_SERVER_ONLY",
    "WITHOUT_NAMES_ONLY",
    "led_to",
    "reason_to_leave_out",
    "where_names_are_kept",
]

NAMES_ARE_KEPT = apps.is_installed("chatmemory.contrib.citus") and connection.vendor == "postgresql"

LOCATING = int(NAMES_ARE_KEPT)
"""The statements by which a conversation is looked up by its name, before others name it by its primary key."""

where_names_are_kept = pytest.mark.skipif(not NAMES_ARE_KEPT, reason="runs with CHATMEMORY_TEST_CITUS=1 on PostgreSQL")

WITHOUT_NAMES_ONLY = {
    "tests/test_checks.py::test_one_database_has_the_users_and_all_tables": (
        "a router may send requests to several nodes of Citus, so this check is off"
    ),
}
"""The tests that have no meaning where names are kept, each with the reason; tests/conftest.py skips them there."""

_PLANS = "the plan that is looked at is the coordinator's, which sends the statement on"
_PARTITIONS = "the tables are divided already"
_TIME_ZONE = "the nodes keep the time zone of the settings with which the tables were distributed"

ON_ONE_SERVER_ONLY = {
    "tests/admin/test_dashboard.py::test_without_time_zones_days_are_the_servers": _TIME_ZONE,
    "tests/contrib/citus/test_distribute.py::test_without_citus_it_says_what_is_missing": "Citus is there",
    "tests/database/test_partitions.py::test_a_turn_asks_one_partition": _PARTITIONS,
    "tests/database/test_partitions.py::test_every_rule_of_the_table_is_there": _PARTITIONS,
    "tests/database/test_partitions.py::test_what_is_stored_is_kept_and_goes_on": _PARTITIONS,
    "tests/database/test_query_plans.py::test_a_page_of_history_is_read_by_its_index": _PLANS,
    "tests/database/test_query_plans.py::test_memory_and_its_old_end_are_read_by_their_index": _PLANS,
    "tests/rest/test_errors.py::test_a_node_that_is_away_makes_no_defect": "it needs a trigger, and Citus allows none",
    "tests/rest/test_projects.py::test_without_time_zones": _TIME_ZONE,
}
"""The tests that have no meaning on the nodes of Citus, each with the reason; tests/conftest.py skips them there."""


def reason_to_leave_out(name: str) -> str | None:
    """Return the reason to skip a test on the database at hand; None if it is to run."""
    return (NAMES_ARE_KEPT and WITHOUT_NAMES_ONLY.get(name)) or (WORKERS and ON_ONE_SERVER_ONLY.get(name)) or None


def led_to() -> list[UUID]:
    """Where all the names lead."""
    from chatmemory.contrib.citus.models import Name  # whose app is not installed elsewhere

    return sorted(Name.objects.values_list("conversation_id", flat=True))
