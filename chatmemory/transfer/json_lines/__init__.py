"""The project's own format, JSON lines, in both directions."""
