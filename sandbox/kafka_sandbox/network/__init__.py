"""Networks that fail or are long, between real clients and real brokers."""
