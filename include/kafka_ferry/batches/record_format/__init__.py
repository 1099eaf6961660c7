"""Kafka's record batches as bytes: headers, records, compression, and formats before v2."""
