"""The step ``publish``: the report, its numbers, and who is told of them."""
