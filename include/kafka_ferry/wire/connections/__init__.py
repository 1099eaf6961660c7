"""Connections to brokers: sockets, TLS, login, and responses that are not trusted."""
