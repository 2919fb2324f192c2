"""The demo's SQLite file: creating, migrating, checking and removing it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.apps import apps
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError, connection
from django.db.migrations.exceptions import InconsistentMigrationHistory

__all__ = ["clear_database_errors", "prepare_database", "remove_database"]

_RESET = "Start afresh with: python manage.py demo --reset"
_SQLITE_HEADER = b"SQLite format 3\0"


def _path() -> Path:
    return Path(connection.settings_dict["NAME"])


def _require_sqlite_file() -> None:
    """Raise ``CommandError`` if the path of the demo's file holds something else."""
    path = _path()
    try:
        if not path.exists():
            return
        if not path.is_file():
            raise CommandError(f"{path} is no file. Move it away, then run this again.")
        with path.open("rb") as file:
            header = file.read(len(_SQLITE_HEADER))
    except OSError as error:
        raise CommandError(f"{path} cannot be read ({error.strerror}). Make it readable, or move it away.") from error
    if header not in (b"", _SQLITE_HEADER):
        raise CommandError(f"{path} is no SQLite database. Move it away, then run this again.")


def remove_database() -> None:
    """Remove the demo's file and the files that SQLite keeps beside it, and nothing else."""
    _require_sqlite_file()
    connection.close()
    path = _path()
    # The database first: SQLite ignores a log that is left behind, but not the lack of one.
    for suffix in ("", "-wal", "-shm", "-journal"):
        try:
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        except OSError as error:
            message = (
                f"{path}{suffix} cannot be removed ({error.strerror}). Stop what uses it, or make its folder writable."
            )
            raise CommandError(message) from error


def prepare_database() -> None:
    """Create the database, or migrate it.

    Raises:
        CommandError: it cannot be used; says what to do.
    """
    _require_sqlite_file()
    with clear_database_errors():
        call_command("migrate", verbosity=0, interactive=False)
        _require_columns()


def _require_columns() -> None:
    """Raise ``DatabaseError`` if a table was made by another version of the app, which ``migrate`` does not notice."""
    with connection.cursor() as cursor:
        for model in apps.get_models(include_auto_created=True):
            table = model._meta.db_table
            expected = {str(field.column) for field in model._meta.local_concrete_fields}
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)} LIMIT 0")
            found = {name for name, *_ in cursor.description}
            if found != expected:
                differing = ", ".join(sorted(found ^ expected))
                raise DatabaseError(f"{table} differs in: {differing}")


@contextmanager
def clear_database_errors() -> Iterator[None]:
    """Turn errors of the database into one line that says what to do."""
    try:
        yield
    except (DatabaseError, InconsistentMigrationHistory) as error:
        raise CommandError(_explain(error)) from error


def _explain(error: Exception) -> str:
    path = _path()
    match _sqlite_error_kind(error):
        case "CANTOPEN" | "READONLY" | "PERM":
            return f"{path} cannot be written. Make it and its folder writable, or run a copy in a folder of your own."
        case "BUSY" | "LOCKED":
            return f"{path} is in use by another program. Stop that, then run this again."
        case "FULL" | "IOERR" | "PROTOCOL":
            return f"{path} cannot be written ({error}). It needs a local disk with free space."
    return f"{path} is incomplete or made by another version ({error}). {_RESET}"


def _sqlite_error_kind(error: BaseException) -> str:
    """Return SQLite's name of the error: ``READONLY`` for ``SQLITE_READONLY_DIRECTORY``."""
    cause: BaseException | None = error
    while cause is not None and not hasattr(cause, "sqlite_errorname"):
        cause = cause.__cause__
    name: str = getattr(cause, "sqlite_errorname", "")
    return name.removeprefix("SQLITE_").split("_")[0]
