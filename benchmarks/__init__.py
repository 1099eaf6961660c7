"""How fast a topic is copied, on real brokers on this machine. Run with ``make bench``."""
