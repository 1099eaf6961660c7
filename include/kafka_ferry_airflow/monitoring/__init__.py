"""A run's output to other systems: notification channels, metrics, lineage, assets."""
