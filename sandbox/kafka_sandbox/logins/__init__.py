"""Brokers that clients log in to: TLS, SCRAM, tokens, Kerberos."""
