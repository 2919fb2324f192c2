"""Programs that write committed files and pictures; run as ``python -m tests.tools.screenshots``."""
