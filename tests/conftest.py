"""What several test modules share."""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management.commands import flush
from django.db import DEFAULT_DB_ALIAS, connection
from django.test import Client

from tests.support import budget
from tests.support.citus import WORKERS, distributed
from tests.support.cutting import cut_all_others, wait_until_alone
from tests.support.factories import UserFactory
from tests.support.kept_names import NAMES_ARE_KEPT, reason_to_leave_out
from tests.support.partitions import partition_messages
from tests.support.paths import ROOT
from tests.support.speed import Everything, Quick, not_installed
from tests.support.suites import SUITES, files_of, is_collected_by, run_by_suites

pytest_plugins = ["tests.support.statement_texts"]

# More would wait for the longest test, and each imports all that the tests do.
MOST_PROCESSES = 8


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """How many processes ``-n auto`` starts; with 0 the tests run in this one.

    A file or a test that is named is through before others are up, and what is printed with ``-s``, or asked with
    ``--trace``, does not come out of them. ``--pdb`` is heeded by pytest-xdist itself.
    """
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None  # pytest-xdist heeds this, too
    if _names_files(config) or config.option.capture == "no" or config.option.trace:
        return 0
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 0 if processors == 1 else min(processors, MOST_PROCESSES)


def _names_files(config: pytest.Config) -> bool:
    return all(Path(argument.split("::")[0]).is_file() for argument in config.args)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run everything, and see that what is slow is marked so")
    parser.addoption("--suite", choices=SUITES, help="run what tests/support/suites.py names for this suite")


def pytest_configure(config: pytest.Config) -> None:
    quick = not (config.option.all or config.option.suite or _names_files(config))
    budget.load_profile(quick=quick)
    if quick:
        config.pluginmanager.register(Quick(config))
    if config.option.all:
        config.pluginmanager.register(Everything(config))


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Let each process import another part of the files first.

    pytest compiles a file with its assertions when it is imported, which takes long, and keeps it for the other
    processes. In the same order, all of them would compile all files.
    """
    config = collector.config
    if not isinstance(collector, pytest.Session) or not hasattr(config, "workerinput") or config.option.suite:
        return
    number, count = int(config.workerinput["workerid"].removeprefix("gw")), config.workerinput["workercount"]
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    for file in files[number * len(files) // count : (number + 1) * len(files) // count]:
        with suppress(ImportError, pytest.skip.Exception):  # told when the file is collected
            importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


def pytest_report_header(config: pytest.Config) -> list[str]:
    if suite := config.option.suite:
        return [f"suite {suite}: runs {len(files_of(suite))} files, which tests/support/suites.py names"]
    return []


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file that the suite leaves out."""
    suite = config.option.suite
    return True if suite and not is_collected_by(suite, collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the tests that have no meaning on the database at hand, and thin out the parameters of the others."""
    for item in items:
        if reason := reason_to_leave_out(item.nodeid.partition("[")[0]):
            item.add_marker(pytest.mark.skip(reason=reason))
    if config.option.suite:
        run = run_by_suites(items)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in run])
        items[:] = [item for item in items if item.nodeid in run]


def pytest_collection_finish() -> None:
    """Millions of objects of other frameworks are imported by now, which the garbage collector need not look at."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The test database, emptied cheaply after each test that commits, and free of other connections at the end."""
    connection.ops.sql_flush = _delete  # type: ignore[method-assign]
    flush.emit_post_migrate_signal = _migrate_nothing  # type: ignore[attr-defined]
    if connection.vendor == "postgresql" and os.environ.get("CHATMEMORY_TEST_PARTITIONS"):
        with django_db_blocker.unblock():
            partition_messages()
    with django_db_blocker.unblock():
        before = set(Permission.objects.values_list("pk", "codename", "content_type__model"))
    with distributed(django_db_blocker) if NAMES_ARE_KEPT else nullcontext():
        yield
    with django_db_blocker.unblock():
        after = set(Permission.objects.values_list("pk", "codename", "content_type__model"))
    assert after == before, "a test has changed the permissions that all tests share"
    if connection.vendor != "sqlite":
        # A thread that has ended leaves its connection to the garbage collector, and which test is the last is chance
        # with several processes. PostgreSQL drops no database that is in use.
        with django_db_blocker.unblock():
            cut_all_others()
            wait_until_alone()


def _delete(style: Any, tables: Sequence[str], *, reset_sequences: bool = False, allow_cascade: bool = False) -> Any:
    """Empty the tables that have rows. TRUNCATE takes 60 times as long as DELETE where there are but a few rows.

    Only what migrations made of the models stays. To make it again takes longer than most tests.
    """
    assert not reset_sequences
    heights = {model._meta.db_table: _height(model) for model in apps.get_models(include_auto_created=True)}
    # On the nodes of Citus foreign keys are not deferred.
    falling = sorted({*tables} - _OF_MIGRATIONS, key=lambda table: -heights.get(table, 0))
    names = [connection.ops.quote_name(table) for table in falling]
    if not WORKERS:  # a node answers no question about several tables
        with connection.cursor() as cursor:
            cursor.execute("SELECT " + ", ".join(f"EXISTS (SELECT 1 FROM {name})" for name in names))
            names = [name for name, has_rows in zip(names, cursor.fetchone(), strict=True) if has_rows]
    return [f"DELETE FROM {name}" for name in names]


_OF_MIGRATIONS = {ContentType._meta.db_table, Permission._meta.db_table}


def _migrate_nothing(verbosity: int, interactive: bool, database: str) -> None:
    """Make no content types and permissions again after a test, for they stay."""
    assert database == DEFAULT_DB_ALIAS, "those of another database are not kept"


def _height(model: Any) -> int:
    """Return 0 for a table that refers to no other one, and otherwise one more than the highest that it refers to."""
    others = [field.related_model for field in model._meta.concrete_fields if field.is_relation]
    return max((1 + _height(other) for other in others if other is not model), default=0)


@pytest.fixture(scope="session")  # so that it comes before what others set up
def sdks(request: pytest.FixtureRequest) -> None:
    """What tests import in their functions, or start, of the extra ``dev``."""
    if not_installed():
        needed = 'needs packages of the extra dev: pip install -e ".[dev]"'
        (pytest.fail if request.config.option.all else pytest.skip)(needed)


@pytest.fixture
def user(db: None) -> Any:
    """Who uses the API."""
    return UserFactory()


@pytest.fixture
def api(user: Any) -> Client:
    """A client that is signed in as ``user``."""
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def grant(user: Any) -> Any:
    """Gives ``user`` model permissions on conversations, and those that have a name of their own."""

    def give(*acts: str) -> None:
        codenames = [act if act.endswith("_text") else f"{act}_conversation" for act in acts]
        user.user_permissions.add(*Permission.objects.filter(codename__in=codenames))

    return give
