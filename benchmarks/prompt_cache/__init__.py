"""The part of each request that a provider's prompt cache can have, under the windows of several frameworks."""
