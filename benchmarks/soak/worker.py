"""A scenario in a process of its own: its standard input names it, its standard output has the answer, in JSON."""

from __future__ import annotations

import json
import signal
import sys
import time
import traceback
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.soak import crew

__all__ = ["main"]


def main() -> None:
    """Run ``{"function": "module:name", "folder": …, "minutes": …, "with": {…}}``."""
    signal.signal(signal.SIGTERM, _leave)
    asked: dict[str, Any] = json.load(sys.stdin)
    answer: dict[str, Any] = {}
    begun = time.monotonic()
    with redirect_stdout(sys.stderr):
        try:
            module, name = asked["function"].split(":")
            run = getattr(import_module(module), name)
            answer["figures"] = run(Path(asked["folder"]), asked["minutes"], **asked["with"])
            if violations := answer["figures"].get("violations"):
                answer["error"] = f"{sum(violations.values())} violations"
        except Exception as error:  # whatever it is, the other scenarios go on, and the report says it
            answer["error"] = f"{type(error).__name__}: {error}"
            traceback.print_exc()
    answer |= {"seconds": round(time.monotonic() - begun), "versions": list(dict.fromkeys(crew.versions))}
    json.dump(answer, sys.stdout)


def _leave(*_: object) -> None:
    """Raise an exception on the first signal, so that servers and processes are ended, and ignore further ones."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


if __name__ == "__main__":
    main()
