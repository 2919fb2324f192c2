"""Imports from other programs' tables, as a test runs them and looks at them."""

from __future__ import annotations

import io

from django.core.management import call_command
from django.db import connection

from chatmemory.models import Conversation
from chatmemory.verification import verify

__all__ = ["row_texts", "run_import", "sqlalchemy_url"]


def run_import(*args: str) -> str:
    """Import in the format that the first argument names, and return what the command says."""
    out = io.StringIO()
    try:
        call_command("chatmemory_import", "--format", *args, stdout=out, stderr=out)
    except SystemExit:
        assert "left out: 0" not in out.getvalue()
    else:
        assert "left out: 0" in out.getvalue()
    assert list(verify()) == []
    return out.getvalue()


def sqlalchemy_url(**drivers: str) -> str:
    """The test database as SQLAlchemy calls it."""
    of = connection.settings_dict
    driver = drivers[connection.vendor]
    if connection.vendor == "sqlite":
        return f"{driver}:///{of['NAME']}"
    return f"{driver}://{of['USER']}:{of['PASSWORD']}@{of['HOST']}/{of['NAME']}"


def row_texts(memory_id: str) -> list[str]:
    """The texts of the history of a conversation."""
    return [row.text for row in Conversation.objects.get(memory_id=memory_id).messages.history()]
