"""A capability that fills each hook: whether each answer is correct. docs/development.md shows it."""
