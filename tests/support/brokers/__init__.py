"""Brokers and what is changed on them past Kafka Ferry."""
