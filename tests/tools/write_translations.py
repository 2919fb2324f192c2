"""``python -m tests.tools.write_translations`` updates the .po files, compiles them, and lists what is missing.

It needs no program of gettext. What is translated stays; strings that are gone go, and new ones come with an empty
translation. The tests fail until somebody has translated them and has run this again.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import django
import polib
from django.conf import settings

from tests.support.translations import CATALOGUES, LOCALES, Catalogue, Key

__all__ = ["updated"]

_WIDTH = 78
_PLACEHOLDER = re.compile(r"%\(\w+\)[a-z]")


def updated(catalogue: Catalogue, file: Path) -> polib.POFile:
    """Return a .po file with the strings that its catalogue has now, in the order of their files."""
    before = polib.pofile(str(file), wrapwidth=_WIDTH)
    known = {_key(entry): entry for entry in before if not entry.obsolete}
    after = polib.POFile(wrapwidth=_WIDTH)
    after.header, after.metadata = before.header, before.metadata
    for key, files in catalogue.marked.items():
        entry = known.get(key) or _new(key)
        entry.occurrences = [(name, "") for name in files]
        entry.flags = [flag for flag in entry.flags if flag != "python-format"]
        if any(_PLACEHOLDER.search(text) for text in key[1:] if text):
            entry.flags.append("python-format")
        after.append(entry)
    return after


def _key(entry: polib.POEntry) -> Key:
    return entry.msgctxt, entry.msgid, entry.msgid_plural or None


def _new(key: Key) -> polib.POEntry:
    context, message, plural = key
    if plural is None:
        return polib.POEntry(msgctxt=context, msgid=message)
    return polib.POEntry(msgctxt=context, msgid=message, msgid_plural=plural, msgstr_plural={0: ""})


def _write() -> int:
    """Write all files, and return how many strings have no translation."""
    missing = 0
    for catalogue in CATALOGUES.values():
        for locale in LOCALES.values():
            file = catalogue.folder(locale) / "django.po"
            written = updated(catalogue, file)
            written.save(str(file))
            written.save_as_mofile(str(file.with_suffix(".mo")))
            for entry in [each for each in written if each.fuzzy or not each.translated()]:
                missing += 1
                sys.stdout.write(f"{locale}, {entry.occurrences[0][0]}: {entry.msgid}\n")
    return missing


if __name__ == "__main__":
    settings.configure()  # templates are read by Django's own lexer, which asks for some
    django.setup()
    if count := _write():
        sys.exit(f"{count} translations are missing")
