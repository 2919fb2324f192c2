"""Restores the lines of an export."""

from __future__ import annotations

import io
import json
from typing import Any

from chatmemory.transfer.records import Owners, Reports
from chatmemory.transfer.restore import restore

__all__ = ["restored"]


def restored(lines: str | list[dict[str, Any]], *, strict: bool = False, **options: Any) -> Any:
    """Return the ``Reports``, with the problems as ``said``.

    Args:
        lines: the text of the export, or its lines as JSON values.
        strict: whether the first problem ends the import.
        options: ``everybody`` and ``mapped`` of ``Owners``, and ``dry_run``.
    """
    text = lines if isinstance(lines, str) else "".join(f"{json.dumps(line)}\n" for line in lines)
    said: list[str] = []
    reports: Any = Reports(say=said.append, strict=strict)
    numbered = ((f"f.jsonl:{number}", line) for number, line in enumerate(io.StringIO(text, newline="\n"), 1))
    owners = Owners("default", options.pop("everybody", None), options.pop("mapped", None))
    for _step in restore(numbered, reports, owners, database="default", **options):
        pass
    reports.said = said
    return reports
