"""Messages with every kind of part that Pydantic AI has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic_ai.messages import (
    AgentInstructionSource,
    AudioUrl,
    BinaryContent,
    BinaryImage,
    CachePoint,
    CapabilityLoadDeltaPart,
    CompactionPart,
    DocumentUrl,
    FilePart,
    ImageUrl,
    InstructionBaselinePart,
    InstructionDeltaPart,
    InstructionId,
    InstructionPart,
    LoadCapabilityCallPart,
    LoadCapabilityReturnPart,
    ModelMessage,
    ModelRequest,
    ModelRequestAttempt,
    ModelResponse,
    ModelSettingsDeltaPart,
    NativeToolCallPart,
    NativeToolReturnPart,
    NativeToolSearchCallPart,
    NativeToolSearchReturnPart,
    RetryFeedbackPart,
    RetryInfo,
    SpeechPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolAvailabilityDeltaPart,
    ToolCallPart,
    ToolReturnPart,
    ToolSearchCallPart,
    ToolSearchReturnPart,
    UploadedFile,
    UserPromptPart,
    VideoUrl,
    WorkspaceRef,
)
from pydantic_ai.usage import RequestUsage

__all__ = ["EVERY_MESSAGE", "NOON", "asked", "returned"]

NOON = datetime(2026, 1, 2, 12, 0, 0, 123456, tzinfo=UTC)
PNG = BinaryImage(b"\x89PNG", media_type="image/png")


def asked(text: str, **more: Any) -> ModelRequest:
    return ModelRequest([UserPromptPart(text, timestamp=NOON)], timestamp=NOON, **more)


def returned(id: str, content: Any = "sunny", **more: Any) -> ToolReturnPart[Any]:
    return ToolReturnPart("weather", content, id, timestamp=NOON, **more)


EVERY_MESSAGE: list[ModelMessage] = [
    ModelRequest(
        [
            ModelSettingsDeltaPart(settings={"thinking": "low"}, top_level=True),
            InstructionBaselinePart(instructions=[InstructionPart(content="Answer in French.", dynamic=True)]),
            SystemPromptPart("Be brief.", timestamp=NOON, dynamic_ref="prompt"),
            UserPromptPart("Hi", timestamp=NOON),
            SystemPromptPart("Be kind.", timestamp=NOON, metadata={"by": "us"}),
            UserPromptPart(
                [
                    "Look",
                    TextContent("here", metadata={"k": 1}),
                    CachePoint(),
                    ImageUrl("https://x.test/a.png", vendor_metadata={"detail": "low"}),
                    AudioUrl("https://x.test/a.mp3"),
                    VideoUrl("https://x.test/a.mp4", force_download=True),
                    DocumentUrl("https://x.test/a.pdf"),
                    DocumentUrl("https://x.test/a.csv", media_type="text/csv"),
                    PNG,
                    BinaryContent(b"%PDF", media_type="application/pdf", identifier="mine"),
                    BinaryContent(b"RIFF", media_type="audio/wav"),
                    BinaryContent(b"film", media_type="video/mp4"),
                    BinaryContent(b"a,b", media_type="text/csv"),
                    UploadedFile("file-1", "openai", media_type="image/png"),
                ],
                timestamp=NOON,
            ),
            SystemPromptPart("12 requests left", timestamp=NOON, scope="request"),
        ],
        timestamp=NOON,
        instructions="Answer in French. é\U0001f389",
        run_id="run-1",
        conversation_id="c-1",
        metadata={"k": [1, None, {"x": 2.5}]},
    ),
    ModelResponse(
        [
            ThinkingPart("Hm.", id="rs_1", signature="gAAAA", provider_name="openai", provider_details={"raw": ["x"]}),
            TextPart("Let me", id="msg_1", provider_name="openai"),
            TextPart(" see."),
            ToolCallPart("weather", {"city": "Paris", "days": [1, 2]}, "call_1", id="fc_1", provider_name="openai"),
            ToolCallPart("weather", '{"city":', "call_2"),
            ToolCallPart("weather", None, "call_3"),
            ToolSearchCallPart(tool_name="search_tools", args={"queries": ["maps"]}, tool_call_id="call_4"),
            LoadCapabilityCallPart(args={"id": "maps"}, tool_call_id="call_5"),
        ],
        usage=RequestUsage(input_tokens=10, output_tokens=5, details={"reasoning_tokens": 2}),
        model_name="gpt",
        timestamp=NOON,
        provider_name="openai",
        provider_url="https://x.test",
        provider_details={"finish_reason": "stop", "timestamp": "2026"},
        provider_response_id="resp_1",
        finish_reason="tool_call",
        run_id="run-1",
        workspace_ref=WorkspaceRef(provider="p", id="w"),
        failed_attempts=[
            ModelRequestAttempt(model_name="m", outcome="error", timestamp=NOON, duration=timedelta(seconds=1.5))
        ],
    ),
    ModelRequest(
        [
            returned("call_1", {"degrees": 20, "of": ["C"]}, metadata={"cached": True}),
            returned("call_2", "Fix it.", outcome="retried", retry=RetryInfo("model_retry", attempt=1, max_retries=3)),
            UserPromptPart("Also: is it windy?", timestamp=NOON),
            returned("call_3", ["see", PNG, ImageUrl("https://x.test/a.png")], outcome="failed"),
            ToolSearchReturnPart(
                tool_name="search_tools", content={"discovered_tools": []}, tool_call_id="call_4", timestamp=NOON
            ),
            LoadCapabilityReturnPart(content={"instructions": "x"}, tool_call_id="call_5", timestamp=NOON),
            ToolAvailabilityDeltaPart(tools_added=["map"], tool_call_id="call_5"),
            CapabilityLoadDeltaPart(loaded=["maps"], tool_call_id="call_5"),
        ],
        timestamp=NOON,
        instructions="Answer in French.",
    ),
    ModelResponse(
        [
            NativeToolCallPart("web_search", {"query": "q"}, "ws_1", provider_name="openai"),
            NativeToolReturnPart("web_search", {"results": [1]}, "ws_1", timestamp=NOON, provider_name="openai"),
            NativeToolSearchCallPart(
                tool_name="tool_search", args={"queries": ["q"]}, tool_call_id="ts_1", provider_name="openai"
            ),
            NativeToolSearchReturnPart(
                tool_name="tool_search", content={"discovered_tools": []}, tool_call_id="ts_1", timestamp=NOON
            ),
            FilePart(PNG, id="ig_1", provider_name="openai"),
            CompactionPart(id="cm_1", provider_name="openai", provider_details={"encrypted_content": "gAAAA"}),
            SpeechPart(speaker="assistant", transcript="Windy.", interrupted_at_ms=5),
            TextPart("Windy."),
        ],
        timestamp=NOON,
        state="interrupted",
    ),
    ModelRequest(
        [RetryFeedbackPart("Again, please.", retry=RetryInfo("model_retry"), timestamp=NOON)],
        timestamp=NOON,
    ),
    ModelResponse([], timestamp=NOON),
    ModelRequest([SpeechPart(speaker="user", transcript="Hello?"), SpeechPart(speaker="user")], timestamp=NOON),
    ModelRequest([CompactionPart("What was said: nothing.", metadata={"by": "us"})]),
    ModelRequest([InstructionDeltaPart(id=InstructionId(AgentInstructionSource(), name="x"), content="Be slow.")]),
    ModelRequest([], state="interrupted"),
    asked("Hi"),
    asked("Hi"),
]
