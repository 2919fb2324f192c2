"""The costs of a turn over HTTP beside a bare view that streams what the ``openai`` package gives, without a memory."""
