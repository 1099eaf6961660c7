"""A running Airflow's DAGs and pages, and the image that holds it."""
