"""What a backfill copies of a span of time. Pure."""
