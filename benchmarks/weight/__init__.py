"""What a process with the app costs before it does anything: ``python -m benchmarks.weight``."""
