"""The costs of turns where evictions are rare and large, beside those of evictions message by message."""
