"""The demo: two clusters, data that looks real, and a flow that mirrors it through a real Airflow."""
