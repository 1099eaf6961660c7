"""Records, topics and groups: made, read back and compared past Kafka Ferry."""
