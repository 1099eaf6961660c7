"""Writing to the target: transactions, their partitions, and what the target answers."""
