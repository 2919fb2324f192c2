"""Prepare a database of django-tenants with two tenants, or drop it: ``python -m tests.tenants.schemas [drop]``.

Prints the conversations of each tenant as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import django
import psycopg
from django.conf import settings
from django.db import connection
from django_tenants.utils import tenant_context

__all__ = ["thread_context"]

TENANTS = {"acme": 1, "globex": 3}
"""How many conversations each tenant has."""


def thread_context() -> Callable[[], AbstractContextManager[Any]]:
    """The setting ``THREAD_CONTEXT``."""
    return partial(tenant_context, connection.tenant)  # type: ignore[attr-defined]


def prepare() -> dict[str, list[str]]:
    from django.contrib.auth import get_user_model
    from django.core.management import call_command

    from chatmemory.models import Conversation
    from tests.tenants.models import Client, Domain

    call_command("migrate_schemas", shared=True, verbosity=0)
    conversations = {}
    for name, number in TENANTS.items():
        client = Client(schema_name=name)
        client.save(verbosity=0)
        Domain.objects.create(domain=f"{name}.localhost", tenant=client)
        with tenant_context(client):
            ann = get_user_model().objects.create_user("ann", password="password of ann")
            made = [
                Conversation.objects.create(owner=ann, window="messages", limit=8, compact_at=50, compact_keep=0)
                for _ in range(number)
            ]
            conversations[name] = [str(one.pk) for one in made]
    return conversations


if __name__ == "__main__":
    django.setup()
    database = settings.DATABASES["default"]
    server = f"host={database['HOST']} user={database['USER']} dbname=postgres"
    with psycopg.connect(server, password=database["PASSWORD"], autocommit=True) as admin:
        if sys.argv[1:] == ["drop"]:
            admin.execute(f'DROP DATABASE IF EXISTS "{database["NAME"]}" WITH (FORCE)')
        else:
            admin.execute(f'CREATE DATABASE "{database["NAME"]}"')
            sys.stdout.write(json.dumps(prepare()))
