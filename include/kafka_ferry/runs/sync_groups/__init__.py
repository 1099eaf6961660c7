"""The step ``sync_groups``: groups' offsets on the target, and their translation on request."""
