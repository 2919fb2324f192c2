"""What a process of traffic needs, imported and read: processes are forked from one that has imported this."""

import django

django.setup()

from chatmemory import OpenAiTokenCountEstimator  # noqa: E402
from chatmemory.conf import window_default  # noqa: E402
from chatmemory.database import operations  # noqa: E402, F401
from chatmemory.models import Conversation  # noqa: E402, F401
from tests.support import traffic_processes  # noqa: E402, F401

OpenAiTokenCountEstimator(window_default("model")).estimate_token_count_in_text("its vocabulary")
