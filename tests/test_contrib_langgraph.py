"""LangGraph's checkpoints in the database, judged by LangGraph's own conformance tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES

from chatmemory.contrib.langgraph.saver import DjangoSaver
from tests.test_async import run

pytestmark = pytest.mark.django_db(transaction=True)


@checkpointer_test(name="DjangoSaver")
async def ours() -> AsyncGenerator[DjangoSaver, None]:
    yield DjangoSaver()


def test_conformance() -> None:
    report = run(validate(ours))
    assert set(report.results) == {str(one.value) for one in ALL_CAPABILITIES}
    assert [failure for result in report.results.values() for failure in result.failures] == []
    assert report.passed_all()
