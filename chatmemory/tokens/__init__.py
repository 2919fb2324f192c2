"""Counting tokens without a network."""

from chatmemory.tokens.base import TokenCountEstimator
from chatmemory.tokens.openai import OpenAiTokenCountEstimator

__all__ = ["OpenAiTokenCountEstimator", "TokenCountEstimator"]
