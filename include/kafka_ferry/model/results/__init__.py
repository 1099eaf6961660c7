"""How a run ended: its steps, and the partitions that failed."""
