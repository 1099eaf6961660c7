"""Checkpoints of Structured Streaming queries, for a query that goes on at the target. Pure."""
