"""Row-level security: a middleware and a receiver by which connections show the rows of one tenant."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from django.db import connection
from django.db.backends.signals import connection_created
from django.http import HttpRequest, HttpResponseBase

__all__ = ["tenant_middleware"]

tenant: ContextVar[str] = ContextVar("tenant", default="")


def set_tenant(connection: Any, **kwargs: Any) -> None:
    with connection.cursor() as cursor:
        # Policies do not hold for the superuser as whom the tests connect.
        cursor.execute(f'SET ROLE "{os.environ["CHATMEMORY_TEST_ROLE"]}"')
        cursor.execute("SELECT set_config('app.tenant', %s, false)", [tenant.get()])


connection_created.connect(set_tenant)


def tenant_middleware(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    def middleware(request: HttpRequest) -> HttpResponseBase:
        token = tenant.set(request.headers.get("X-Tenant", ""))
        try:
            if connection.connection is not None:
                set_tenant(connection)
            return get_response(request)
        finally:
            tenant.reset(token)

    return middleware
