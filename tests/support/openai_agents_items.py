"""One or more of every type of item that the Agents SDK has, as a model and its tools make them."""

from __future__ import annotations

from typing import Any

__all__ = ["EVERY_ITEM", "call", "output", "reasoning", "said"]

PNG = "data:image/png;base64,iVBORw0KGgo="


def said(text: str, id: str | None = None) -> dict[str, Any]:
    """A message of the model; with an ID, as OpenAI gives it."""
    if id is None:
        return {"role": "assistant", "content": text}
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    return {"id": id, "type": "message", "role": "assistant", "status": "completed", "content": content}


def reasoning(id: str, *thoughts: str) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": thought} for thought in thoughts]
    return {"id": id, "type": "reasoning", "summary": summary, "encrypted_content": f"gAAAA-{id}"}


def call(call_id: str, name: str = "weather", arguments: str = '{"city": "Paris"}') -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def output(call_id: str, text: Any = "sunny") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


_USER_PARTS = [
    {"type": "input_text", "text": "Look:"},
    {"type": "input_image", "image_url": PNG, "detail": "high"},
    {"type": "input_image", "file_id": "file-1", "image_url": None, "detail": "auto"},
    {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
    {"type": "input_file", "file_id": "file-2"},
    {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
    {"type": "input_new", "of": "tomorrow"},
]
_SHELL_OUTPUT = [{"stdout": "a\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
_COMPUTER_ACTION = {"type": "click", "x": 1, "y": 2, "button": "left"}
_REFUSED = {"type": "message", "id": "msg_9", "role": "assistant", "status": "completed"} | {
    "content": [{"type": "refusal", "refusal": "No."}]
}

EVERY_ITEM: list[dict[str, Any]] = [
    {"role": "user", "content": "Hi"},
    {"type": "message", "role": "user", "status": "completed", "content": _USER_PARTS},
    {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
    said("plain"),
    said("with an ID", "msg_1"),
    _REFUSED,
    reasoning("rs_1", "first", "second"),
    {"id": "rs_2", "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "raw"}]},
    call("call_1"),
    output("call_1"),
    {"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "see", "arguments": "{}", "namespace": "n"},
    {**output("call_2", [{"type": "input_image", "image_url": PNG, "detail": "low"}]), "status": "completed"},
    {"id": "fs_1", "type": "file_search_call", "queries": ["q"], "status": "completed", "results": None},
    {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}},
    {
        "id": "ci_1",
        "type": "code_interpreter_call",
        "code": "1",
        "container_id": "c",
        "outputs": None,
        "status": "completed",
    },
    {"id": "ig_1", "type": "image_generation_call", "result": "iVBORw0KGgo=", "status": "completed"},
    {"id": "cu_1", "type": "computer_call", "call_id": "call_3", "action": _COMPUTER_ACTION, "status": "completed"}
    | {"pending_safety_checks": [{"id": "sc_1", "code": "x", "message": "y"}]},
    {
        "type": "computer_call_output",
        "call_id": "call_3",
        "output": {"type": "computer_screenshot", "image_url": PNG},
        "acknowledged_safety_checks": [{"id": "sc_1"}],
    },
    {
        "id": "ls_1",
        "type": "local_shell_call",
        "call_id": "call_4",
        "status": "completed",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
    },
    {"type": "local_shell_call_output", "id": "call_4", "output": '{"stdout": "a"}'},
    {"type": "shell_call", "id": "sh_1", "call_id": "call_5", "action": {"commands": ["ls"]}, "status": "completed"},
    {"type": "shell_call_output", "call_id": "call_5", "output": _SHELL_OUTPUT, "max_output_length": 100},
    {
        "type": "apply_patch_call",
        "call_id": "call_6",
        "status": "completed",
        "operation": {"type": "create_file", "path": "a", "diff": "+a"},
    },
    {"type": "apply_patch_call_output", "call_id": "call_6", "status": "completed", "output": "done"},
    {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_7", "name": "sql", "input": "select 1"},
    {"type": "custom_tool_call_output", "call_id": "call_7", "output": "1"},
    {
        "type": "tool_search_call",
        "id": "ts_1",
        "call_id": None,
        "execution": "server",
        "arguments": {},
        "status": "completed",
    },
    {
        "type": "tool_search_output",
        "id": "to_1",
        "call_id": None,
        "execution": "server",
        "tools": [],
        "status": "completed",
    },
    {"type": "tool_search_call", "call_id": "call_8", "execution": "client", "arguments": {"goal": "maps"}},
    {"type": "tool_search_output", "call_id": "call_8", "execution": "client", "tools": []},
    {"id": "ml_1", "type": "mcp_list_tools", "server_label": "s", "tools": [{"name": "t", "input_schema": {}}]},
    {"id": "ma_1", "type": "mcp_approval_request", "arguments": "{}", "name": "t", "server_label": "s"},
    {"type": "mcp_approval_response", "approval_request_id": "ma_1", "approve": True, "reason": "fine"},
    {"id": "mc_1", "type": "mcp_call", "arguments": "{}", "name": "t", "server_label": "s", "output": "ok"},
    {"id": "pr_1", "type": "program", "call_id": "call_9", "code": "run()", "fingerprint": "f"},
    {"id": "po_1", "type": "program_output", "call_id": "call_9", "result": "2", "status": "completed"},
    {"type": "compaction", "id": "cm_1", "encrypted_content": "gAAAA"},
    {"type": "compaction_trigger"},
    {"type": "item_reference", "id": "msg_1"},
    {"type": "additional_tools", "role": "developer", "tools": []},
    {"type": "configuration_update", "reasoning": {"effort": "low"}},
    {"type": "of_a_later_version", "anything": [1, 2.5, None, {"x": "é \U0001f389"}]},
    {"role": "user", "content": ""},
    {"role": "system", "content": " "},
]
