"""The step ``sync_groups``: commits groups' offsets on the target; also translates offsets on request."""
