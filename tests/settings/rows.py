"""The settings behind a real server of a project with row-level security, with a pool, whose connections go around."""

from tests.settings.turns import *  # noqa: F403

MIDDLEWARE = ["tests.tenants.rows.tenant_middleware", *MIDDLEWARE]  # noqa: F405
DATABASES["default"]["OPTIONS"]["pool"] = {"min_size": 2, "max_size": 2, "timeout": 120}  # noqa: F405
CHATMEMORY = {"USERS": "all", "ASSISTANT": "tests.tenants.assistant.assistant"}
