"""Fields of records whose schemas a registry has: read as JSON for transform rules, and changed."""
