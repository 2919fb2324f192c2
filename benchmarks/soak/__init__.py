"""Traffic for a long time, on servers of its own: ``python -m benchmarks.soak``."""
