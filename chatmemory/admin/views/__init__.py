"""The pages of one conversation, and the actions on it."""
