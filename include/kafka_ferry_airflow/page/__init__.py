"""The page "Mirrors" in Airflow's own pages: what it shows, and who may see it."""
