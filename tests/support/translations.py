"""The translatable strings of the app and of the demo, and the catalogues that have their translations."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from django.utils.translation.template import templatize

from tests.support.paths import ROOT

__all__ = ["APP", "CATALOGUES", "DEMO", "LOCALES", "Catalogue", "Key", "marked_in_python", "marked_in_template"]

LOCALES = {"zh-hans": "zh_Hans", "ja": "ja"}

Key = tuple[str | None, str, str | None]
"""Context, message and plural, by which a string is known."""

# Where the arguments of these functions have the context, the message and the plural.
_MARKERS = {
    "_": (None, 0, None),
    "gettext": (None, 0, None),
    "gettext_lazy": (None, 0, None),
    "gettext_noop": (None, 0, None),
    "ngettext": (None, 0, 1),
    "ngettext_lazy": (None, 0, 1),
    "pgettext": (0, 1, None),
    "pgettext_lazy": (0, 1, None),
    "npgettext": (0, 1, 2),
    "npgettext_lazy": (0, 1, 2),
}

_LITERAL = r"""u?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_CALL = re.compile(rf"(?<!\w)(?:{'|'.join(_MARKERS)})\({_LITERAL}(?:, {_LITERAL})*")


@dataclass(frozen=True)
class Catalogue:
    """The .po and .mo files of one part of the project."""

    root: Path
    """The folder that its occurrences are relative to."""

    folders: tuple[Path, ...]
    """Where its strings are."""

    locale: Path
    """Where its languages are."""

    def folder(self, locale: str) -> Path:
        """Return the folder with the files of a language."""
        return self.locale / locale / "LC_MESSAGES"

    @cached_property
    def marked(self) -> dict[Key, list[str]]:
        """Every translatable string, in the order of the files, with the files that have it."""
        found: dict[Key, list[str]] = {}
        paths = [path for folder in self.folders for kind in ("*.py", "*.html") for path in folder.rglob(kind)]
        for path in sorted(paths, key=lambda path: path.relative_to(self.root).as_posix()):
            source = path.read_text(encoding="utf-8")
            marked = marked_in_python(source) if path.suffix == ".py" else marked_in_template(source)
            for key in marked:
                files = found.setdefault(key, [])
                name = path.relative_to(self.root).as_posix()
                if name not in files:
                    files.append(name)
        return found


APP = Catalogue(ROOT / "chatmemory", (ROOT / "chatmemory",), ROOT / "chatmemory" / "locale")
DEMO = Catalogue(ROOT, (ROOT / "demo_project", ROOT / "templates"), ROOT / "demo_project" / "locale")
CATALOGUES = {"the app": APP, "the demo": DEMO}


def marked_in_python(source: str) -> Iterator[Key]:
    """Yield the strings that a module's calls mark. Calls with a variable translate what other modules mark."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    for node in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name in _MARKERS and not isinstance(node.args[_MARKERS[name][1]], ast.Name | ast.Attribute):
            given = [
                argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else None
                for argument in node.args
            ]
            context, message, plural = (None if index is None else given[index] for index in _MARKERS[name])
            assert message is not None, f"no literal: {ast.unparse(node)}"
            yield context, message, plural


def marked_in_template(source: str) -> Iterator[Key]:
    """Yield the strings that a template marks, by what makemessages makes of it."""
    for call in _CALL.findall(templatize(source)):
        yield from marked_in_python(f"{call})")
