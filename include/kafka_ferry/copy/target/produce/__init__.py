"""Batches on their way to the target's leaders, and what becomes of them there."""
