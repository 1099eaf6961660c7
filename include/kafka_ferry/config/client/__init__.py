"""The clients of a cluster: their properties, and what both Kafka clients are told of them."""
