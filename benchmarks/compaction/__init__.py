"""What windows and summaries cost: `python -m benchmarks.compaction`."""
