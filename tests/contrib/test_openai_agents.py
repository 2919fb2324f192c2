"""The contract of a session of OpenAI's Agents SDK: what its own SQLiteSession keeps, ours does."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from agents.items import TResponseInputItem
from agents.memory import Session, SessionSettings, SQLiteSession
from django.db import connection, connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatmemory.contrib.openai_agents import DjangoSession
from tests.database.test_async import run
from tests.support import budget
from tests.support.openai_agents_items import EVERY_ITEM, call, output, reasoning, said

pytestmark = pytest.mark.django_db(transaction=True)

TEXTS = [
    "",
    "é ü",
    "日本語 한국어",
    "🎉👩‍👩‍👧‍👦",
    "مرحبا שלום",
    "e\u0301 \u200b\ufeff",
    "'; DROP TABLE agent_messages; --",
    '\t\n\r\\"%s{}',
    "x" * 200_000,
]

Make = Callable[..., Any]


def user(number: int) -> dict[str, Any]:
    return {"role": "user", "content": f"u{number}"}


U = [user(number) for number in range(10)]
# One system message at a time is our own rule.
NO_SYSTEM = [item for item in EVERY_ITEM if item.get("role") not in ("system", "developer")]


@pytest.fixture(params=["theirs", "ours"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes a session; those of one ID are of the same items."""
    made: list[SQLiteSession] = []

    def make(session_id: str = "s", **more: Any) -> Any:
        if request.param == "ours":
            return DjangoSession(session_id, window="messages", limit=1000, **more)
        made.append(SQLiteSession(session_id, tmp_path / "sessions.db", **more))
        return made[-1]

    yield make
    for session in made:
        session.close()


class TestItems:
    def test_is_a_session(self, make: Make) -> None:
        session = make("s")
        assert isinstance(session, Session)
        assert session.session_id == "s"
        assert session.session_settings == SessionSettings()

    def test_come_back_in_order(self, make: Make) -> None:
        async def use() -> Any:
            await make().add_items(U[:3])
            await make().add_items([])
            await make().add_items([*U[3:5], call("1"), output("1"), said("!")])
            return await make().get_items()

        assert run(use()) == [*U[:5], call("1"), output("1"), said("!")]

    def test_there_are_none_at_first(self, make: Make) -> None:
        async def use() -> Any:
            session = make()
            await session.clear_session()
            return await session.get_items(), await session.get_items(3), await session.pop_item()

        assert run(use()) == ([], [], None)

    def test_a_limit_counts_items(self, make: Make) -> None:
        items = [U[0], reasoning("rs"), said("a", "m"), call("1"), output("1")]

        async def use() -> None:
            await make().add_items(items)
            for limit in (None, 0, 1, 2, 4, 5, 6, 99, -1):
                expected = items if limit in (None, -1) else items[len(items) - min(limit, 5) :]
                assert await make().get_items(limit) == expected
                assert await make(session_settings={"limit": limit}).get_items() == expected

        run(use())

    def test_the_limit_of_the_settings_is_a_default(self, make: Make) -> None:
        async def use() -> Any:
            session = make(session_settings=SessionSettings(limit=2))
            await session.add_items(U[:5])
            return await session.get_items(), await session.get_items(3)

        assert run(use()) == (U[3:5], U[2:5])

    def test_settings_may_be_changed_later(self, make: Make) -> None:
        async def use() -> Any:
            session = make()
            await session.add_items(U[:5])
            session.session_settings = {"limit": 1}  # type: ignore[assignment]
            one = await session.get_items()
            session.session_settings = None
            return one, await session.get_items()

        assert run(use()) == (U[4:5], U[:5])

    @pytest.mark.parametrize("settings", [{"limitt": 1}, {"limit": 1, "title": "x"}, [], 5, "limit"])
    def test_settings_that_do_not_exist_are_an_error(self, make: Make, settings: Any) -> None:
        with pytest.raises(TypeError, match="session"):
            make(session_settings=settings)

    def test_one_session_does_not_see_anothers(self, make: Make) -> None:
        async def use() -> Any:
            one, other = make("one"), make("other")
            await one.add_items(U[:2])
            await other.add_items(U[2:4])
            await one.pop_item()
            await one.clear_session()
            return await one.get_items(), await other.get_items(), await make("One").get_items()

        assert run(use()) == ([], U[2:4], [])

    @pytest.mark.slow
    def test_texts_come_back_as_they_were(self, make: Make) -> None:
        async def use() -> None:
            for number, text in enumerate(TEXTS):
                arguments = json.dumps({"x": text})
                items = [
                    {"role": "user", "content": text},
                    said(text),
                    call("1", arguments=arguments),
                    output("1", text),
                ]
                session = make(f"{number}")
                await session.add_items(items)
                assert await session.get_items() == items
                assert await session.pop_item() == items[-1]

        run(use())

    @pytest.mark.slow
    def test_an_item_of_any_type_comes_back_whole(self, make: Make) -> None:
        async def use() -> None:
            for number, item in enumerate(EVERY_ITEM):
                session = make(f"{number}")
                await session.add_items([item])
                assert await session.get_items() == [item]
                assert await session.pop_item() == item
                assert await session.get_items() == []

        run(use())

    @pytest.mark.slow
    def test_all_types_together_come_back_whole(self, make: Make) -> None:
        async def use() -> Any:
            session = make()
            await session.add_items(NO_SYSTEM)
            items = await session.get_items()
            popped = [await session.pop_item() for _ in range(len(NO_SYSTEM) + 1)]
            return items, popped

        items, popped = run(use())
        assert items == NO_SYSTEM
        assert popped == [*reversed(NO_SYSTEM), None]

    def test_the_same_item_twice_is_two(self, make: Make) -> None:
        async def use() -> Any:
            await make().add_items([U[0], U[0], call("1"), call("1")])
            await make().add_items([U[0]])
            return await make().get_items()

        assert run(use()) == [U[0], U[0], call("1"), call("1"), U[0]]

    def test_nobody_can_change_what_is_kept(self, make: Make) -> None:
        async def use() -> Any:
            given = [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}]
            await make().add_items(given)
            given[0]["content"][0]["text"] = "b"  # type: ignore[index]
            (await make().get_items())[0]["content"][0]["text"] = "c"
            return await make().get_items()

        assert run(use()) == [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}]

    def test_a_batch_with_what_is_no_json_adds_nothing(self, make: Make) -> None:
        async def use() -> Any:
            with pytest.raises(TypeError):
                await make().add_items([U[0], {"role": "user", "content": {1, 2}}])
            return await make().get_items()

        assert run(use()) == []


class TestPop:
    def test_takes_the_last_one(self, make: Make) -> None:
        async def use() -> Any:
            session = make()
            await session.add_items([*U[:2], reasoning("rs"), said("a", "m"), call("1"), call("2")])
            popped = [await session.pop_item() for _ in range(3)]
            await session.add_items([U[3]])
            return popped, await session.get_items()

        assert run(use()) == ([call("2"), call("1"), said("a", "m")], [*U[:2], reasoning("rs"), U[3]])

    def test_gives_each_item_to_one_of_many_tasks(self, make: Make) -> None:
        items = [*U, *(item for number in range(5) for item in (said(f"{number}"), call(f"{number}")))]

        async def use() -> Any:
            await make().add_items(items)
            return await asyncio.gather(*(make().pop_item() for _ in range(25))), await make().get_items()

        popped, left = run(use())
        assert left == []
        assert popped.count(None) == 5
        assert sorted(map(json.dumps, filter(None, popped))) == sorted(map(json.dumps, items))

    def test_gives_each_item_to_one_of_many_threads(self, make: Make) -> None:
        items = [*U, reasoning("rs"), *(call(f"{number}") for number in range(9))]
        run(make().add_items(items))
        popped: list[Any] = []
        start = threading.Barrier(4)

        def take() -> None:
            async def all_there_are() -> None:
                session = make()
                start.wait()
                while (item := await session.pop_item()) is not None:
                    popped.append(item)

            run(in_a_thread_of_its_own(all_there_are))

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(map(json.dumps, popped)) == sorted(map(json.dumps, items))


async def in_a_thread_of_its_own(work: Callable[[], Any]) -> Any:
    """Django's calls of all event loops share one thread otherwise, one after the other."""
    from asgiref.sync import ThreadSensitiveContext, sync_to_async

    async with ThreadSensitiveContext():
        try:
            return await work()
        finally:
            await sync_to_async(connections.close_all)()


class TestClear:
    def test_items_can_be_added_again(self, make: Make) -> None:
        async def use() -> Any:
            session = make()
            await session.add_items(U[:3])
            await session.clear_session()
            cleared = await session.get_items(), await session.pop_item()
            await session.add_items([output("1"), *U[3:5]])
            return cleared, await session.get_items()

        assert run(use()) == (([], None), [output("1"), *U[3:5]])


class TestAtOnce:
    def test_many_tasks_lose_nothing_and_split_no_batch(self, make: Make) -> None:
        async def use() -> Any:
            batches = [[user(number * 3 + part) for part in range(3)] for number in range(12)]
            await asyncio.gather(*(make().add_items(batch) for batch in batches))
            return await make().get_items()

        texts = [int(item["content"][1:]) for item in run(use())]
        assert sorted(texts) == list(range(36))
        assert all(texts[index] + 1 == texts[index + 1] for index in range(36) if index % 3 < 2)

    @pytest.mark.slow
    def test_a_cancelled_change_is_done_or_not_when_its_task_ends(self, make: Make) -> None:
        async def cancelled(work: Any, yields: int) -> None:
            task = asyncio.ensure_future(work)
            for _ in range(yields):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        async def use() -> None:
            for yields in range(12):
                session = make(f"{yields}")
                await session.add_items(U[:4])
                await cancelled(session.add_items(U[4:7]), yields)
                after_add = await in_a_thread_of_its_own(session.get_items)
                assert after_add in (U[:4], U[:7])
                await cancelled(session.pop_item(), yields)
                after_pop = await in_a_thread_of_its_own(session.get_items)
                assert after_pop in (after_add, after_add[:-1])
                await cancelled(session.clear_session(), yields)
                after_clear = await in_a_thread_of_its_own(session.get_items)
                assert after_clear in (after_pop, [])
                assert await session.get_items() == after_clear

        run(use())


def test_every_type_of_the_package_is_among_the_items() -> None:
    types = set()
    for kind in get_args(TResponseInputItem):
        hint = get_type_hints(kind).get("type")
        types |= {value for value in _literals(hint) if value is not None}
    assert types <= {item.get("type", "message") for item in EVERY_ITEM}


def _literals(hint: Any) -> Iterator[Any]:
    for part in get_args(hint):
        yield from [part] if isinstance(part, str) else _literals(part)


DOES = st.one_of(
    st.tuples(st.just("add"), st.lists(st.sampled_from(NO_SYSTEM), max_size=6)),
    st.tuples(st.just("get"), st.none() | st.integers(-1, 8)),
    st.tuples(st.just("pop"), st.integers(1, 3)),
    st.tuples(st.just("clear"), st.none()),
)


@pytest.mark.slow
@settings(max_examples=budget.examples(25), suppress_health_check=list(HealthCheck))
@given(does=st.lists(DOES, min_size=1, max_size=12))
def test_whatever_is_done_both_keep_the_same(does: list[tuple[str, Any]]) -> None:
    number = next(_NUMBERS)

    async def use() -> None:
        theirs = SQLiteSession(f"{number}")
        ours = DjangoSession(f"{number}", window="messages", limit=1000)
        for act, what in [*does, ("get", None)]:
            if act == "add":
                await theirs.add_items(what)
                await ours.add_items(what)
            elif act == "get":
                assert await ours.get_items(what) == await theirs.get_items(what)
            elif act == "pop":
                for _ in range(what):
                    assert await ours.pop_item() == await theirs.pop_item()
            else:
                await theirs.clear_session()
                await ours.clear_session()
        theirs.close()

    run(use())


_NUMBERS = iter(range(10**9))

# One process is forked when all is imported, which takes longer than all else.
_POP_ALL = """
import asyncio, json, os, sys, django
django.setup()
from chatmemory.contrib.openai_agents import DjangoSession

async def take():
    session = DjangoSession("s")
    here.write(b".")
    there.read(1)
    while (item := await session.pop_item()) is not None:
        os.write(1, (json.dumps(item) + "\\n").encode())  # in one piece

pipes = os.pipe(), os.pipe()
child = os.fork()
mine, others = pipes if child else reversed(pipes)
os.close(mine[1]), os.close(others[0])
there, here = os.fdopen(mine[0], "rb", 0), os.fdopen(others[1], "wb", 0)
asyncio.run(take())
if child:
    _pid, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.slow
def test_each_item_is_popped_by_one_of_several_processes() -> None:
    items = [*U, reasoning("rs"), *(call(f"{number}") for number in range(9)), *map(user, range(10, 40))]
    run(DjangoSession("s", window="messages", limit=1000).add_items(items))  # type: ignore[arg-type]
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.settings.base",
        "CHATMEMORY_TEST_NAME": str(connection.settings_dict["NAME"]),
    }
    done = subprocess.run(
        [sys.executable, "-c", _POP_ALL], env=environment, stdout=subprocess.PIPE, text=True, timeout=300, check=True
    )
    assert sorted(done.stdout.splitlines()) == sorted(map(json.dumps, items))
