"""Exports and imports."""

from __future__ import annotations

from typing import Any

from benchmarks.soak.adversary.acts.act import Act, Scene
from benchmarks.soak.adversary.acts.maintenance import ACTS as _MAINTENANCE
from chatmemory import UserMessage
from chatmemory.models import Conversation
from chatmemory.transfer.export import conversation_lines
from chatmemory.transfer.importing import import_all
from chatmemory.transfer.records import FoundConversation, FoundMessage, Owners, Reports
from chatmemory.transfer.restore import restore

__all__ = ["ACTS"]

_MORE_THAN_A_BATCH = 250

_second = next(act.prepare for act in _MAINTENANCE if act.name == "erase a user")


def _export_and_erase(scene: Scene) -> None:
    _second(scene)
    theirs = Conversation.objects.filter(owner=scene.user).order_by("pk")
    lines = conversation_lines(theirs.values_list("pk", flat=True))
    scene.more["lines"] = [(f"backup:{number}", line) for number, line in enumerate(lines, 1)]
    theirs.delete()


def _restore(scene: Scene) -> int:
    reports = _reports()
    for _ in restore(scene.more["lines"], reports, Owners("default"), database="default"):
        pass
    return reports.problems


def _import(scene: Scene) -> int:
    said = (FoundMessage(place=f"{n}", message=UserMessage(f"i{n}")) for n in range(_MORE_THAN_A_BATCH))
    found = FoundConversation(place="file", memory_id="imported", messages=said)
    reports = _reports()
    owners = Owners("default", everybody=scene.user)
    settings = {"window": "messages", "limit": 3}
    for _ in import_all("openai", iter([found]), reports, owners, database="default", settings=settings):
        pass
    return reports.problems


def _reports() -> Reports:
    def say(problem: str) -> Any:
        raise AssertionError(problem)

    return Reports(say)


ACTS = [
    Act(
        name="export",
        do=lambda scene: len(list(conversation_lines([scene.conversation.pk]))),
        effect=lambda state: state,
        steps=0,
    ),
    Act(
        name="restore", prepare=_export_and_erase, do=_restore, steps=2, repeatable=True, same_answer=True, forgets=True
    ),
    Act(name="import", do=_import, steps=2, repeatable=True, same_answer=True),
]
