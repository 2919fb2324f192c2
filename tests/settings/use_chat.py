"""The settings of a site whose page has a chat by the AI SDK's ``useChat``."""

from tests.settings.server import *  # noqa: F403

ROOT_URLCONF = "tests.support.use_chat_site"
CHATMEMORY = {"ASSISTANT": "tests.support.use_chat_site.assistant", "USERS_SEE": ["tools"]}
