"""What a backfill copies of a time window. Pure."""
