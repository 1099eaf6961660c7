"""Simulated brokers: what they keep, and what they answer."""
