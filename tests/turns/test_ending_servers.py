"""A server that is told to end while a turn runs whose client has gone away."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.db import connection

from chatmemory.models import Conversation
from tests.support.factories import ConversationFactory
from tests.support.server import HttpClient, start_server
from tests.support.signalled import Signals
from tests.support.turn_streams import open_stream

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.slow
@pytest.mark.usefixtures("sdks")
def test_gunicorn_lets_the_turn_finish(tmp_path: Path) -> None:
    user = get_user_model().objects.create_user("ann", password="password of ann")
    conversation = ConversationFactory.create(owner=user)
    signals = Signals(tmp_path)
    environment = {
        "DJANGO_SETTINGS_MODULE": "tests.settings.turns",
        "CHATMEMORY_TEST_NAME": str(connection.settings_dict["NAME"]),
        "CHATMEMORY_TEST_SIGNALS": str(tmp_path),
    }
    options = ("--workers=1", "--threads=4", "--graceful-timeout=60")
    with start_server(tmp_path / "log", environment, asgi=False, options=options) as (port, process):
        client = HttpClient(port, "ann", "password of ann")
        with open_stream(client, f"/api/conversations/{conversation.pk}/turns/", "wait ending") as stream:
            assert stream.piece() == "One "
        process.terminate()
        signals.give("ending")
        process.wait(timeout=60)
    assert [row.text for row in conversation.messages.history()] == ["wait ending", "One two."]
    assert Conversation.objects.get(pk=conversation.pk).turn_until is None
    assert "Traceback" not in (tmp_path / "log").read_text(), (tmp_path / "log").read_text()
