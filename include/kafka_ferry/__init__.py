"""Kafka Ferry: copies Kafka clusters into other Kafka clusters, and proves that each copy is complete."""
