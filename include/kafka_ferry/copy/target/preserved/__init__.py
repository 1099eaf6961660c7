"""Writing records at the offsets that they have on the source."""
