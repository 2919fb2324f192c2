"""The core works where Django is not even configured."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

PRELUDE = """
import sys

opened = []
def audit(event, args):
    if event == "open" and ".tokens.gz" in str(args[0]):
        opened.append(args[0])
    if event.startswith("socket.connect"):
        raise AssertionError("the network was touched")
sys.addaudithook(audit)

import chatmemory
from chatmemory import *
"""

EPILOGUE = """
foreign = [name for name in sys.modules if name.partition(".")[0] in ("django", "rest_framework", "django_filters")]
assert not foreign, foreign
assert not opened, opened
"""

USES = {
    "import": "assert set(chatmemory.__all__) <= set(dir())",
    "message window": """
memory = MessageWindowChatMemory(max_messages=2)
memory.add(SystemMessage("Be brief."), UserMessage("Hi"), AiMessage("Hello"))
assert memory.messages() == [SystemMessage("Be brief."), AiMessage("Hello")]
memory.set([]); memory.clear()
""",
    "async": """
import asyncio
memory = MessageWindowChatMemory(max_messages=2)
asyncio.run(memory.aadd(UserMessage("Hi")))
assert asyncio.run(memory.amessages()) == [UserMessage("Hi")]
""",
    "JSON": """
messages = [AiMessage(None, [ToolExecutionRequest("1", "now", "{}")]), ToolExecutionResultMessage("1", "now", "noon")]
assert messages_from_json(messages_to_json(messages)) == messages
""",
    "assistant": """
import asyncio
from chatmemory.assistant import Assistant
def now() -> str: return "noon"
def model(messages, tools):
    if messages[-1] == UserMessage("Hi"):
        return AiMessage(None, [ToolExecutionRequest("1", tools[0].name, "{}")])
    return AiMessage(messages[-1].text)
assistant = Assistant(model, memory=lambda id: MessageWindowChatMemory(id=id, max_messages=9), tools=[now])
assert assistant.chat(1, "Hi") == asyncio.run(assistant.achat(2, "Hi")) == AiMessage("noon")
""",
    "token window of an estimator of one's own": """
class Words:
    def estimate_token_count_in_text(self, text): return len(text.split())
    def estimate_token_count_in_message(self, message): return 1
    def estimate_token_count_in_messages(self, messages): return len(list(messages))
memory = TokenWindowChatMemory(max_tokens=2, token_count_estimator=Words())
memory.add(UserMessage("a"), UserMessage("b"), UserMessage("c"))
assert len(memory.messages()) == 2
""",
    "an estimator that has nothing to count yet": """
memory = TokenWindowChatMemory(max_tokens=2, token_count_estimator=OpenAiTokenCountEstimator("gpt-4o"))
assert memory.messages() == []
""",
}
USES_OF_A_VOCABULARY = """
memory = TokenWindowChatMemory(max_tokens=20, token_count_estimator=OpenAiTokenCountEstimator("gpt-4o"))
memory.add(UserMessage("hello world"))
assert memory.messages() == [UserMessage("hello world")]
assert len(opened) == 1, opened
opened.clear()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [*(pytest.param(code, id=name) for name, code in USES.items()), pytest.param(USES_OF_A_VOCABULARY, id="tokens")],
)
def test_uses_no_django(code: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PRELUDE + code + EPILOGUE],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
