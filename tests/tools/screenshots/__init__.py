"""Pictures of every page of the admin and of the demo, in every state: ``python -m tests.tools.screenshots FOLDER``."""
