"""The step ``sync_topics``: the target's topics, configs, ACLs, quotas and users."""
