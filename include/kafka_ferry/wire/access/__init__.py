"""Requests about ACLs, client quotas and SCRAM users."""
