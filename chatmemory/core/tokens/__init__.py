"""Token counts without a network."""

from chatmemory.core.tokens.estimators import (
    OpenAiTokenCountEstimator,
    TokenCountEstimator,
    stored_count,
    tokens_of,
    tokens_of_request,
)

__all__ = ["OpenAiTokenCountEstimator", "TokenCountEstimator", "stored_count", "tokens_of", "tokens_of_request"]
