"""A cluster of any size in one thread: its answers are computed, and it stores next to nothing."""
