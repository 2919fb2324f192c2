"""Measurements of chat turns, beside bare drivers and other packages. Run ``python -m benchmarks``."""
