"""The parts that all adapters share."""
