"""What the benchmarks copy, by which program, and between which brokers."""
