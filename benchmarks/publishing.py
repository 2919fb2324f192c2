"""The figures of a benchmark, printed, and written where the command line says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["publish"]


def publish(results: dict[str, Any], text: str, folder: Path | None) -> None:
    """Print ``text``, and write it as ``RESULTS.md`` beside ``results.json`` into ``folder``, if there is one."""
    print(text)  # noqa: T201
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        (folder / "RESULTS.md").write_text(text, encoding="utf-8")
