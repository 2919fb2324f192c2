"""``python -m tests.tools.choose_suites SUITE RECORD …`` chooses the files that a suite runs for their statements.

It writes them into tests/support/suites.py. A record is what ``pytest --all --statements RECORD`` has written: first
that of all tests on the suite's engine, with its settings, and then that of all tests on SQLite, with which ``pytest
--all`` compares the suites::

    pytest --all --statements sqlite.json
    CHATMEMORY_TEST_DATABASE=mysql pytest --all --statements mariadb.json
    python -m tests.tools.choose_suites mariadb mariadb.json sqlite.json

With ``--beside RECORD`` the statements of that record need not be there: another suite has them.

The choice is not always the smallest one: again and again it takes the file with most new statements for its seconds,
and at the end it leaves out what is not needed any more.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.speed import OF_DEV
from tests.support.statement_texts import Record
from tests.support.suites import BESIDES, ONLY_ON_SQLITE, SUITES, WITH_ALL_PARAMETERS, is_in

__all__ = ["choose"]

_SECONDS_TO_IMPORT = 0.3
_SECONDS_TO_IMPORT_OF_DEV = 60  # frameworks and SDKs, in each process

Choice = tuple[str, bool]  # a file, and whether with all its parameters


def choose(texts: Mapping[Choice, set[str]], seconds: Mapping[Choice, float], wanted: set[str]) -> list[Choice]:
    """Return the choices that together have all wanted texts, in few seconds."""
    chosen: list[Choice] = []
    left = wanted & set().union(*texts.values())
    while left:
        best = max(texts, key=lambda choice: (len(texts[choice] & left) / seconds[choice], not choice[1], choice))
        chosen.append(best)
        left = left - texts[best]
    for choice in sorted(chosen, key=lambda choice: -seconds[choice]):
        others = set().union(*(texts[other] for other in chosen if other != choice))
        if texts[choice] & wanted <= others:
            chosen.remove(choice)
    return sorted(chosen)


def _packages(file: Path) -> set[str]:
    """Return the packages that a file of the project imports by itself and by what else of the project it imports."""
    return set().union(*(_imported(each)[1] for each in _reached(file)))


def _reached(file: Path) -> set[Path]:
    reached, left = {file}, [file]
    while left:
        new = _imported(left.pop())[0] - reached
        reached |= new
        left += new
    return reached


@cache
def _imported(file: Path) -> tuple[set[Path], set[str]]:
    """Return the files of the project and the packages that a file imports when it is imported."""
    files, packages = set(), set()
    for name in _names(ast.parse(file.read_text(encoding="utf-8")).body, file.relative_to(ROOT).parts):
        parts = name.split(".")
        if not (ROOT / parts[0]).is_dir():
            packages.add(parts[0])
        for number in range(1, len(parts) + 1):
            module = ROOT.joinpath(*parts[:number])
            files |= {each for each in (module.with_suffix(".py"), module / "__init__.py") if each.is_file()}
    return files, packages


def _names(body: Iterable[ast.stmt], path: tuple[str, ...]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = [*path[: -node.level]] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from _names([*node.body, *getattr(node, "orelse", [])], path)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.choose_suites")
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("records", nargs="+", type=_record, metavar="RECORD")
    parser.add_argument("--beside", nargs="*", default=[], type=_record, metavar="RECORD")
    asked = parser.parse_args()

    besides = BESIDES[asked.suite]
    files = {file for record in asked.records for file, _ in record.seconds if not is_in(ONLY_ON_SQLITE, file)}
    choices = [(file, whole) for file in files for whole in (False, True)]
    texts = {
        (file, whole): set().union(*(record.texts_of(file, whole=whole) for record in asked.records))
        for file, whole in choices
    }
    wanted = set().union(*texts.values())
    for record in asked.beside:
        wanted -= set().union(*record.texts.values())
    for file in besides:
        wanted -= texts.get((file, file in WITH_ALL_PARAMETERS), set())
    seconds = {
        (file, whole): asked.records[0].seconds_of(file, whole=whole)
        + (_SECONDS_TO_IMPORT_OF_DEV if _packages(ROOT / file) & OF_DEV else _SECONDS_TO_IMPORT)
        for file, whole in choices
    }
    chosen = choose(texts, seconds, wanted)
    _write(asked.suite, sorted({file for file, _ in chosen} - {*besides}), [file for file, whole in chosen if whole])
    for file, whole in chosen:
        if whole:
            _say(f"{file} has statements only with all its parameters")
        if found := _packages(ROOT / file) & OF_DEV:
            _say(f"{file} imports {', '.join(sorted(found))}")
    run = sum(seconds[choice] for choice in chosen) + sum(seconds.get((file, False), 0) for file in besides)
    everything = sum(seconds[file, True] for file in files)
    _say(f"{len(wanted)} statements, {len(chosen)} files, {run:.0f} of {everything:.0f} s of CPU")


def _write(suite: str, files: list[str], whole: list[str]) -> None:
    file = ROOT / "tests" / "support" / "suites.py"
    text = file.read_text(encoding="utf-8")
    listed = "".join(f'        "{name}",\n' for name in files)
    text = re.sub(rf'("{suite}": \[)[^]]*', rf"\1\n{listed}    ", text, count=1)
    listed = "".join(f'    "{name}",\n' for name in sorted({*WITH_ALL_PARAMETERS, *whole}))
    text = re.sub(r"(WITH_ALL_PARAMETERS: list\[str\] = \[)[^]]*", rf"\1\n{listed}" if listed else r"\1", text)
    file.write_text(text, encoding="utf-8")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _record(name: str) -> Record:
    return Record.from_json(json.loads(Path(name).read_text(encoding="utf-8")))


if __name__ == "__main__":
    _main()
