"""Writing records at the same offsets as on the source."""
