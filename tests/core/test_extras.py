"""What is not installed is named with the extra that installs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import importlib, os, sys

os.environ["DJANGO_SETTINGS_MODULE"] = "demo_project.settings"
for name in (
    "agent_framework", "agents", "anthropic", "google.adk", "google.genai", "langchain_core", "langgraph",
    "llama_index", "openai", "pydantic_ai",
):
    sys.modules[name] = None  # as if it were not installed

import django

django.setup()
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(str(error).partition("Install it: ")[2])
"""

EXTRAS = {
    "chatmemory.assistant.anthropic": "anthropic",
    "chatmemory.assistant.gemini": "gemini",
    "chatmemory.assistant.openai": "openai",
    "chatmemory.assistant.pydantic_ai": "pydantic-ai",
    "chatmemory.contrib.agent_framework": "agent-framework",
    "chatmemory.contrib.langchain": "langchain",
    "chatmemory.contrib.langgraph.saver": "langgraph",
    "chatmemory.contrib.llama_index": "llama-index",
    "chatmemory.contrib.openai_agents": "openai-agents",
    "chatmemory.contrib.pydantic_ai.history": "pydantic-ai",
    "chatmemory.contrib.pydantic_ai.store": "pydantic-ai",
    "chatmemory.contrib.search.frameworks.google_adk": "google-adk",
    "chatmemory.contrib.search.frameworks.langchain": "langchain",
    "chatmemory.contrib.search.frameworks.llama_index": "llama-index",
    "chatmemory.contrib.search.frameworks.openai_agents": "openai-agents",
    "chatmemory.contrib.search.frameworks.pydantic_ai": "pydantic-ai",
}


@pytest.mark.slow
def test_a_missing_package_is_named_with_its_extra() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *EXTRAS], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [f'pip install "django-chatmemory[{extra}]"' for extra in EXTRAS.values()]
