"""What summaries cost: `python -m benchmarks.compaction`."""
