"""Schema registries: schemas mirrored from one to the other, and their ids in records."""
