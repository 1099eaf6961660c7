"""Records in Protobuf, by its own library, and the schemas that a registry has of them."""
