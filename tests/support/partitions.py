"""The hash partitions of messages, made by the SQL of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

from django.db import connection, transaction

__all__ = ["partition_messages"]

_DOCUMENT = Path(__file__).parents[2] / "docs" / "partitions.md"


def partition_messages() -> None:
    """Run the SQL that the documentation has for it."""
    [found] = re.findall(r"```sql\nBEGIN;\n(.*?PARTITION BY HASH.*?)COMMIT;\n```", _DOCUMENT.read_text(), re.DOTALL)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(found)
