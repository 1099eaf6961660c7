"""The step ``mirror``: copying, and its progress."""
