"""``python -m tests.tools.write_openapi`` writes docs/openapi.json, which tests compare with the code."""

from __future__ import annotations

import json
import os

import django

from tests.support.paths import ROOT

__all__ = ["FILE", "openapi_text"]

FILE = ROOT / "docs" / "openapi.json"


def openapi_text() -> str:
    """What the file has to say."""
    from chatmemory.rest.openapi import openapi_document

    return json.dumps(openapi_document(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings.base")
    django.setup()
    FILE.write_text(openapi_text(), encoding="utf-8")
