"""Each page that builds a project, performed from its first block to the last, as a newcomer does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.new_project import NewProject
from tests.support.page_walk import (  # noqa: F401
    NOT_PERFORMED,
    WALKED,
    PageWalk,
    empty_project,
    named,
    readme_walk,
    take_a_turn,
)
from tests.support.pages import PAGES, blocks_of, name_of
from tests.support.paths import ROOT

README_WAS_READ = """
from chatmemory.models import Conversation
history = Conversation.objects.get(title="Hello").messages.history()
assert [row.type for row in history] == ["SYSTEM", "USER", "AI", "USER"]
told = Conversation.objects.get(memory_id="shop").messages.history()
assert [row.text for row in told] == ["You work in a tea shop.", "Hello", "I got 2 messages."]
"""


@pytest.mark.slow
@pytest.mark.usefixtures("sdks")
def test_the_readme(readme_walk: PageWalk) -> None:  # noqa: F811
    readme_walk.shell(README_WAS_READ)


@pytest.mark.slow
@pytest.mark.usefixtures("sdks")
def test_the_tutorial(empty_project: NewProject, tmp_path: Path) -> None:  # noqa: F811
    walk = PageWalk(replace(empty_project, folder=tmp_path))
    walk.perform(ROOT / "docs/tutorial.md", lambda site: take_a_turn(f"{site}/", "You said: Hello"))


@pytest.mark.slow
@pytest.mark.usefixtures("sdks")
@pytest.mark.parametrize("page", [page for page, before in WALKED.items() if before])
def test_a_page_that_goes_on_from_the_readme(page: str, readme_walk: PageWalk, tmp_path: Path) -> None:  # noqa: F811
    walk = readme_walk.continued(tmp_path / "project")
    walk.perform(ROOT / page)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_is_performed_or_named(page: Path) -> None:
    keys = []
    for block in blocks_of(page):
        is_walked = name_of(page) in WALKED and (block.file is not None or block.language in ("python", "sh"))
        is_performed = is_walked or block.language == "python"  # by tests/test_docs.py
        assert is_performed or named(block), f"{block}: perform it, or say in NOT_PERFORMED why not"
        keys += named(block)
    assert keys == list(NOT_PERFORMED.get(name_of(page), ())), "each key is about one block, in the order of the page"
