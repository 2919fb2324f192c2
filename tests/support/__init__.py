"""Helpers of the tests; no test is collected here."""
