"""The admin's list of many conversations beside that of a few: ``python -m benchmarks.lists``."""
