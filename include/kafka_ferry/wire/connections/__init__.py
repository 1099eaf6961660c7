"""Connections to brokers: sockets, TLS, login, and checked responses."""
