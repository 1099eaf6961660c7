"""The step ``mirror``: copying, and how far it is."""
