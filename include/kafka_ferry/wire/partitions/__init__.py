"""Requests about partitions' logs: their records, starts and ends, and sizes."""
