"""Writing to the target: transactions, their partitions, and the target's answers."""
