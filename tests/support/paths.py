"""The folders of the project."""

from pathlib import Path

__all__ = ["ROOT"]

ROOT = Path(__file__).resolve().parents[2]
"""The folder of ``manage.py``, which processes of the tests start in."""
