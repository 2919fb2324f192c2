"""The machine and the versions that were measured with."""

from __future__ import annotations

import os
import platform
import sqlite3
from datetime import UTC, datetime
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

from benchmarks.places import mariadb_parameters, postgres_parameters

__all__ = ["describe"]


def describe(engines: list[str]) -> dict[str, Any]:
    """Return machine, versions and date."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _after_colon("/proc/cpuinfo", "model name") or platform.processor() or "unknown",
        "cores": os.cpu_count(),
        "memory": _after_colon("/proc/meminfo", "MemTotal") or "unknown",
        "os": f"{platform.freedesktop_os_release().get('PRETTY_NAME', '')}, {platform.system()} {platform.release()}",
        "versions": {
            "Python": platform.python_version(),
            "Django": version("django"),
            "SQLite": sqlite3.sqlite_version,
            **({"PostgreSQL": _postgresql()} if "postgres" in engines else {}),
            **({"MariaDB": _mariadb()} if "mariadb" in engines else {}),
        },
        "packages": dict(sorted((package.name, package.version) for package in distributions())),
    }


def _after_colon(path: str, name: str) -> str | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    return next((" ".join(line.split(":", 1)[1].split()) for line in lines if line.startswith(name)), None)


def _postgresql() -> str:
    import psycopg

    with psycopg.connect(**postgres_parameters()) as connection:  # type: ignore[arg-type]
        return str(connection.execute("SHOW server_version").fetchone()[0]).split()[0]  # type: ignore[index]


def _mariadb() -> str:
    import MySQLdb

    connection = MySQLdb.connect(**mariadb_parameters())
    try:
        return str(connection.get_server_info())
    finally:
        connection.close()
