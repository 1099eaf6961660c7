"""Failing over to the target, and back to the source."""
