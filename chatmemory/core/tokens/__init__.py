"""Token counts without a network."""

from chatmemory.core.tokens.estimator import TokenCountEstimator, tokens_of, tokens_of_request
from chatmemory.core.tokens.openai import OpenAiTokenCountEstimator, stored_count

__all__ = ["OpenAiTokenCountEstimator", "TokenCountEstimator", "stored_count", "tokens_of", "tokens_of_request"]
