"""The demo's secrets: none of them is known from its code."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from demo_project.demo_user import ensure_demo_user, password
from demo_project.secret_key import secret_key
from tests.support.demo_chat import demo_chat  # noqa: F401


def test_each_checkout_has_a_key_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    here, there = tmp_path / "here.key", tmp_path / "there.key"
    key = secret_key(here)
    assert len(key) == 50
    assert secret_key(here) == key
    assert secret_key(there) != key
    assert sorted(tmp_path.iterdir()) == [here, there]
    assert stat.S_IMODE(here.stat().st_mode) == 0o600


def test_another_key_is_another_password(settings: Any) -> None:
    printed = password()
    settings.SECRET_KEY = "another"
    assert password() != printed


@pytest.mark.django_db
def test_the_printed_password_signs_in_and_no_page_shows_it(client: Client) -> None:
    ensure_demo_user()
    page: Any = client.get("/sign-in/")
    assert password() not in page.content.decode()
    answer: Any = client.post("/sign-in/", {"username": "demo", "password": password()})
    assert (answer.status_code, answer["Location"]) == (302, "/")
