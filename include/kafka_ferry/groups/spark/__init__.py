"""Checkpoints of Structured Streaming queries, for queries that continue on the target. Pure."""
