"""Requests about partitions' logs: fetching them, where they start and end, and how large they are."""
