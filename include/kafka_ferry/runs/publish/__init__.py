"""The step ``publish``: the report, its metrics, and their receivers."""
