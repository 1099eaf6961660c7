"""What other systems are told of a run: channels of notifications, metrics, lineage, assets."""
