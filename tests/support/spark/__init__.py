"""Spark's clusters, applications and pods."""
