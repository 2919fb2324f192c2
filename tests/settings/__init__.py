"""Django settings for the tests, the servers they start, and the benchmarks."""
