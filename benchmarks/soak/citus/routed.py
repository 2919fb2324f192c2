"""A site whose chats are at any node, by the router of the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from benchmarks.soak.citus.cluster import distributed, new_cluster

__all__ = ["run"]

_DOCUMENT = Path(__file__).parents[3] / "docs" / "partitions.md"


def run(folder: Path, minutes: float) -> dict[str, Any]:
    """Use REST and the admin, signed in at the coordinator, with chats at each worker; return what was requested.

    Raises:
        AssertionError: a request failed, or a name is left.
    """
    with new_cluster(folder) as nodes, distributed(nodes):
        from django.db import connections
        from django.test import override_settings

        requests = 0
        with override_settings(DATABASE_ROUTERS=[_documented_router()]):
            for node in nodes[1:]:
                connections["chats"].close()
                connections["chats"].settings_dict["PORT"] = str(node.port)
                requests += _use(node.name)
        return {"requests to a site whose chats are at a worker": requests}


def _documented_router() -> Any:
    """Return a router of the class that the documentation has."""
    [source] = re.findall(r"```python\n(class ChatsAtAnyNode:.*?)```", _DOCUMENT.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(source, names)  # so that what the documentation shows is what is tried
    return names["ChatsAtAnyNode"]()


def _use(username: str) -> int:
    from django.contrib.auth import get_user_model
    from django.test import Client

    from chatmemory.contrib.citus.models import Name
    from chatmemory.models import Conversation
    from chatmemory.verification import verify

    users = get_user_model()._default_manager
    users.create_superuser(f"admin of {username}", password="p")
    user = users.create_user(username, password="p")
    client, staff = Client(), Client()
    assert client.login(username=username, password="p")
    assert staff.login(username=f"admin of {username}", password="p")
    json: Any = {"content_type": "application/json"}
    made = client.post("/api/conversations/", {"title": "Tea"}, **json, headers={"Idempotency-Key": "one"})
    assert made.status_code == 201, made.content
    place = f"/api/conversations/{made.json()['id']}/"
    said = {"messages": [{"type": "USER", "contents": [{"type": "TEXT", "text": "Green or black?"}]}]}
    admin = f"/admin/chatmemory/conversation/{made.json()['id']}"
    answers = [
        made,
        client.post(f"{place}messages/", said, **json),
        client.get(f"{place}memory/"),
        client.get("/api/conversations/"),
        client.get("/api/conversations/?search=Tea"),
        staff.get("/admin/chatmemory/conversation/"),
        staff.get(f"{admin}/change/"),
        staff.get("/admin/chatmemory/conversation/?q=Tea"),
        staff.post(f"/admin/auth/user/{user.pk}/delete/", {"post": "yes"}, follow=True),
    ]
    failed = [(answer.request["PATH_INFO"], answer.status_code) for answer in answers if answer.status_code >= 300]
    assert not failed, f"at {username} these failed: {failed}"
    assert not Conversation.objects.exists(), "a deleted user has conversations"
    assert not Name.objects.exists(), "a deleted user's conversations have names"
    assert list(verify()) == []
    return len(answers)
