"""Spark's border: the copying query, the recount job, sessions. Nothing below it uses Spark."""
