"""A capability that fills each hook: thumbs up or down for each answer. docs/development.md shows it."""
