"""``python -m tests.tools.build_site FOLDER`` builds the documentation's site. A broken link fails it.

The pages are the README, docs/, and the changelog as they are; the pages of the commands, of the REST calls and of the
Python API are written from the code here, so that none of them is told twice.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import django
from django.core.management import get_commands, load_command_class

from tests.support.paths import ROOT

__all__ = ["build", "pages", "relinked"]

API = {
    "Messages, memories and token counts": "chatmemory",
    "Models": "chatmemory.models",
    "The memory of a conversation": "chatmemory.database.conversation_memory",
    "Changes": "chatmemory.database.change",
    "Stores": "chatmemory.stores",
    "Formats": "chatmemory.formats.registry",
    "The assistant": "chatmemory.assistant",
    "Summaries": "chatmemory.compaction",
    "Replays": "chatmemory.replaying",
    "Purges": "chatmemory.retention",
    "Recounts": "chatmemory.recounting",
    "Verification": "chatmemory.verification",
    "Personal data": "chatmemory.personal_data",
    "Capabilities": "chatmemory.capabilities",
    "Signals": "chatmemory.signals",
}
"""The modules of the Python API, by their headings."""

_OTHERS = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/turn-time.svg": "turn-time.svg",
}
"""What is in the site from beside docs/, and its name there."""

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")
_FENCED = re.compile(r"(^```.*?^```$)", re.M | re.S)


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page."""
    for file in (*(ROOT / name for name in _OTHERS if name.endswith(".md")), *sorted((ROOT / "docs").glob("*.md"))):
        yield _name_of(file) or "", _linked(file)
    yield "commands.md", "\n".join(_commands())
    yield "rest-calls.md", "\n".join(_calls())
    yield "python-api.md", "\n".join(["# Python API", *(f"\n## {title}\n\n::: {name}" for title, name in API.items())])


def _name_of(file: Path) -> str | None:
    """Return the name of a file in the site; None if it is not there."""
    name = file.resolve().relative_to(ROOT).as_posix()
    return _OTHERS.get(name) or (name.removeprefix("docs/") if file.parent == ROOT / "docs" else None)


def relinked(text: str, address: Callable[[str, bool], str | None]) -> str:
    """Return a page with other addresses in its links and pictures to files; code, and what leads elsewhere, stays.

    Args:
        text: the page, in Markdown.
        address: returns the address for a path, and for whether it is a picture's. None leaves the text of a link.
    """

    def link(found: re.Match[str]) -> str:
        mark, said, path, anchor = found.groups(default="")
        there = address(path, bool(mark))
        return f"{mark}[{said}]({there}{anchor})" if there else said

    parts = _FENCED.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def _linked(file: Path) -> str:
    return relinked(file.read_text(encoding="utf-8"), lambda path, _: _name_of((file.parent / path).resolve()))


def _commands() -> Iterator[str]:
    yield "# Commands\n\nEach command takes `--database`."
    for name, app in sorted(get_commands().items()):
        if name.startswith("chatmemory_"):
            command = load_command_class(app if isinstance(app, str) else app.name, name)
            options = command.create_parser("manage.py", name).format_usage()
            yield f"\n## {name}\n\n{command.help}\n\n```console\n{options.removeprefix('usage: ').strip()}\n```"


def _calls() -> Iterator[str]:
    """Yield the lines of the page of REST calls, from docs/openapi.json."""
    document = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))
    yield "# REST calls\n\nFrom [openapi.json](openapi.json). [The REST API](rest.md) explains how to use them."
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            yield f"\n## {call['summary']}\n\n`{method.upper()} {path}`\n\n{call.get('description', '')}\n"
            if call.get("parameters"):
                yield "| parameter | in | meaning |\n| --- | --- | --- |"
            for one in call.get("parameters", ()):
                yield f"| `{one['name']}` | {one['in']} | {_cell(one.get('description', ''))} |"
            answers = ", ".join(f"{status} {_schema(answer)}".strip() for status, answer in call["responses"].items())
            body = _schema(call.get("requestBody", {}))
            yield f"\n{f'Body: {body}. ' if body else ''}Answers: {answers}.\n"


def _schema(described: dict[str, Any]) -> str:
    found = re.search(r"components/schemas/(\w+)", json.dumps(described))
    return f"`{found[1]}`" if found else ""


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def build(folder: Path) -> None:
    """Write the site into ``folder``.

    Raises:
        CalledProcessError: a page has a broken link, or cannot be rendered.
    """
    with tempfile.TemporaryDirectory() as place:
        docs = Path(place) / "docs"
        shutil.copytree(ROOT / "docs", docs, ignore=shutil.ignore_patterns("*.md", "*.yml"))
        shutil.copy(ROOT / "benchmarks" / "turn-time.svg", docs)
        for name, text in pages():
            (docs / name).write_text(text, encoding="utf-8")
        shutil.copy(ROOT / "docs" / "mkdocs.yml", place)
        os.symlink(ROOT / "chatmemory", Path(place) / "chatmemory")
        subprocess.run([Path(sys.executable).with_name("zensical"), "build", "--strict"], cwd=place, check=True)
        shutil.copytree(Path(place) / "site", folder, dirs_exist_ok=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings.base")
    django.setup()
    build(parser.parse_args().folder.resolve())
