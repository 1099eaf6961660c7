"""Consumer groups: what an offset of theirs is on the other cluster, and what is done with it."""
