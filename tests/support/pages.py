"""README.md and the pages of docs/, and the blocks of code on them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT

__all__ = ["FENCED", "PAGES", "Block", "blocks_of", "name_of"]

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"(?:#|//|/\*|<!--) ([\w/]+\.(?:py|html|css|js))(?: \*/| -->)?\n")


@dataclass(frozen=True)
class Block:
    """A block of code on a page."""

    page: str
    """The path of the page from the root."""

    line: int
    """The number of its first line on the page."""

    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str | None:
        """The path that its first line says, if the block is a file of the project or the end of its settings."""
        found = _FILE.match(self.text)
        return found[1] if found else None


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path, *languages: str) -> list[Block]:
    """The blocks of a page in their order, of some languages or of all."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(name_of(page), text.count("\n", 0, found.start(2)) + 1, found[1], found[2])
        for found in FENCED.finditer(text)
        if not languages or found[1] in languages
    ]
