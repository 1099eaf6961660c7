"""Real Kafka clusters, a real Airflow and real-looking data on this machine, for the demo, the tests and the benchmarks."""
