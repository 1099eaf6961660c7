"""Requests about groups and what they have committed."""
