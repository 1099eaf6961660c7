"""Servers on this machine that are no brokers."""
