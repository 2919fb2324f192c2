"""The modules of the database that other parts import: few, for ``conversation.memory`` does what they need."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import chatmemory

ROOT = Path(chatmemory.__file__).parent


def imported(folder: Path) -> set[str]:
    """The modules of the database that a folder imports."""
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module == "chatmemory.database":
                found |= {f"chatmemory.database.{name.name}" for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
    return {name for name in found if name.startswith("chatmemory.database")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "most"), [("rest", 7), ("admin", 7), ("assistant", 7), ("contrib", 11), ("transfer", 8)]
)
def test_the_door_is_small(folder: str, most: int) -> None:
    found = imported(ROOT / folder)
    assert 0 < len(found) <= most, sorted(found)
