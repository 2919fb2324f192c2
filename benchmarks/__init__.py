"""What a chat turn costs, beside the bare drivers and what others offer. Run ``python -m benchmarks``."""
