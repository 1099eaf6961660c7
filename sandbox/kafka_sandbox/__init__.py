"""Real Kafka clusters, a real Airflow and real-looking data on this machine.

For the demo, the tests and the benchmarks.
"""
