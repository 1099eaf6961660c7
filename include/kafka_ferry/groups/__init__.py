"""Consumer groups: translation of their offsets to the other cluster, and what is done with them."""
