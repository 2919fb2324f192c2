"""The database's clock, which all processes share."""

from __future__ import annotations

from typing import Any

from django.db.models.functions import Now

__all__ = ["UtcNow"]


class UtcNow(Now):
    """The time of the database's clock, in UTC even if MariaDB's time zone is another."""

    def as_mysql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, template="UTC_TIMESTAMP(6)", **extra)
