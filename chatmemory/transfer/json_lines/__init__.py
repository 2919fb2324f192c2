"""The app's own format, JSON lines, written and restored."""
