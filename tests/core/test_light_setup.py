"""What ``django.setup()`` imports of this app, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.support.paths import ROOT

SETUP = """
import json, sys
from django.conf import settings

apps = ["admin", "auth", "contenttypes", "sessions", "messages"]
settings.configure(
    INSTALLED_APPS=[*(f"django.contrib.{app}" for app in apps), "rest_framework", "django_filters", "chatmemory"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
)
import django

django.setup()
print(json.dumps(sorted(sys.modules)))
"""

OURS = {
    *("admin", "apps", "capabilities", "checks", "conf", "core", "database", "models", "signals", "staff"),
}
"""The modules and folders that a process needs before its first request."""

FORMATS = {"media", "registry", "schemas"}
"""Of ``chatmemory.formats``: names, and links to media. The rest is imported with the first message of a format."""


def test_setup_imports_no_format_no_model_no_importer_and_no_tokeniser() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SETUP], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    imported = json.loads(done.stdout)
    parts = [name.split(".") for name in imported if name.startswith("chatmemory.")]
    assert {part[1] for part in parts} <= OURS | {"formats"}
    assert {part[2] for part in parts if part[1] == "formats" and len(part) > 2} <= FORMATS
    assert not [name for name in imported if name.startswith(("chatmemory.database.op", "chatmemory.admin.views.ch"))]
    heavy = {"anthropic", "google", "langchain_core", "openai", "pydantic", "regex", "requests", "tiktoken"}
    assert heavy.isdisjoint(name.split(".")[0] for name in imported)
    assert not [name for name in imported if name.split(".")[0] == "rest_framework" and name.count(".") > 1]
