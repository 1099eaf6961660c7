"""Spark's border: the copying query, the recount job, sessions. Nothing below it knows of Spark."""
