"""The pages of one conversation, and what can be done there."""
