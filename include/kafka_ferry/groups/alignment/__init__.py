"""Which record of the source is which on the target, found in the records themselves. Pure."""
