"""Audits: comparing the topics of two clusters, without a ledger."""
