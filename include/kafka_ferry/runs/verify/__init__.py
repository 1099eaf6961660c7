"""Verifying a run: what was read back of it already."""
