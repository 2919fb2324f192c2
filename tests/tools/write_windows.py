"""``python -m tests.tools.write_windows`` writes tests/vectors/windows.json, which the windows are judged by.

The scenarios are thought up by hand; a second, slow model of the rules says what comes out.
"""

from __future__ import annotations

import json
from typing import Any

from chatmemory import ChatMessage, OpenAiTokenCountEstimator
from tests.support.naive_window import NaiveWindow, Settings, Step
from tests.support.paths import ROOT
from tests.support.short_messages import message_of, short
from tests.tools.window_scenarios import SCENARIOS, Scenario

__all__ = ["FILE", "windows_text"]

FILE = ROOT / "tests" / "vectors" / "windows.json"
MODEL = "gpt-4o"

FORMAT = {
    "messages": "in the short notation of tests/support/short_messages.py, or as LangChain4j's JSON",
    "costs": "the tokens of each message of a scenario, and of a request without messages, in windows of tokens",
    "step.op": "add (messages, in one change), set (messages), clear, pin and unpin (message), clear_tool_results, "
    "set_window (settings)",
    "step.refused": "the step is an error, and nothing changes",
    "step.memory": "what the model gets after the step",
    "step.stored": "what is stored after the step, if that is something else",
    "step.left": "the messages that left by the step, each with the reason, in the order of the memory",
    "step.total": "the cost of what is stored, with that of a request",
    "step.version": "the number of changes so far that made something of the memory another",
}
NOTES = [
    "Windows of tokens are counted by LangChain4j's OpenAiTokenCountEstimator for the model below.",
    "A memory outside of a database has no pins and no clear_tool_results, and gives no reasons.",
    "Each add of one message after the other has the same memory as one add of all of them; but what comes and leaves "
    "differs where a placeholder is made and evicted by the same change.",
]


def windows_text() -> str:
    """What the file has to say."""
    head = {"format": FORMAT, "notes": NOTES, "model": MODEL}
    parts = [f"{json.dumps(key)}: {json.dumps(value, indent=1, ensure_ascii=False)}" for key, value in head.items()]
    scenarios = ",\n".join(map(_scenario_text, SCENARIOS))
    return "{\n" + ",\n".join(parts) + f',\n"scenarios": [\n{scenarios}\n]\n}}\n'


def settings_of(window: dict[str, Any]) -> Settings:
    """The settings of a scenario's window, for the model."""
    estimator = OpenAiTokenCountEstimator(MODEL)
    return Settings(
        tokens=estimator.estimate_token_count_in_message,
        request_tokens=estimator.estimate_token_count_in_messages([]),
        **window,
    )


def perform(window: NaiveWindow, op: dict[str, Any]) -> Step:
    """Do one step on the model.

    Raises:
        ValueError: what is to be pinned is too much.
    """
    match op["op"]:
        case "add":
            return window.add(*map(message_of, op["messages"]))
        case "set":
            return window.set(map(message_of, op["messages"]))
        case "clear":
            return window.clear()
        case "pin":
            return window.pin(_index(window, op))
        case "unpin":
            return window.unpin(_index(window, op))
        case "clear_tool_results":
            return window.clear_tool_results(**{name: value for name, value in op.items() if name != "op"})
        case "set_window":
            return window.set_window(**op["settings"])
    raise ValueError(f"no such step: {op['op']}")


def _index(window: NaiveWindow, op: dict[str, Any]) -> int:
    return [item.message for item in window.items].index(message_of(op["message"]))


def _scenario_text(scenario: Scenario) -> str:
    window = NaiveWindow(settings_of(scenario.window))
    seen: list[ChatMessage] = []
    steps = []
    for op in scenario.ops:
        if op.get("refused"):
            _assert_refused(scenario, window, op)
            steps.append(op)
            continue
        before = [item.message for item in window.items]
        step = perform(window, op)
        seen += [*step.came, *(message for message, _ in step.left)]
        steps.append(op | _outcome(step, before))
    lines = [f'"name": {json.dumps(scenario.name)}', f'"shows": {json.dumps(scenario.shows)}']
    lines.append(f'"window": {json.dumps(scenario.window)}')
    if any(settings.get("window") == "tokens" for settings in _all_settings(scenario)):
        costs = {"request": window.settings.request_tokens}
        costs |= {_key(message): window.settings.tokens(message) for message in seen}
        lines.append(f'"costs": {json.dumps(costs)}')
    lines.append('"steps": [\n' + ",\n".join(f"  {json.dumps(step)}" for step in steps) + "\n ]")
    return " {\n " + ",\n ".join(lines) + "\n }"


def _assert_refused(scenario: Scenario, window: NaiveWindow, op: dict[str, Any]) -> None:
    try:
        perform(window, op)
    except ValueError:
        return
    raise AssertionError(f"{scenario.name}: {op} is not refused")


def _outcome(step: Step, before: list[ChatMessage]) -> dict[str, Any]:
    places = before + [message for message in step.came if message not in before]
    left = sorted(step.left, key=lambda item: places.index(item[0]) if item[0] in places else len(places))
    outcome: dict[str, Any] = {"memory": list(map(short, step.memory))}
    if step.stored != step.memory:
        outcome["stored"] = list(map(short, step.stored))
    if left:
        outcome["left"] = [[short(message), reason] for message, reason in left]
    return outcome | {"total": step.total, "version": step.version}


def _all_settings(scenario: Scenario) -> list[dict[str, Any]]:
    return [scenario.window, *(op["settings"] for op in scenario.ops if op["op"] == "set_window")]


def _key(message: ChatMessage) -> str:
    notation = short(message)
    return notation if isinstance(notation, str) else json.dumps(notation)


if __name__ == "__main__":
    FILE.write_text(windows_text(), encoding="utf-8")
