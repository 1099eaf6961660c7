"""The clients of a cluster: their properties, and the settings of both Kafka clients."""
