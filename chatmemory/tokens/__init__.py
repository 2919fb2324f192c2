"""Counting tokens without a network."""

from chatmemory.tokens.base import TokenCountEstimator
from chatmemory.tokens.openai import OpenAiTokenCountEstimator, stored_count

__all__ = ["OpenAiTokenCountEstimator", "TokenCountEstimator", "stored_count"]
