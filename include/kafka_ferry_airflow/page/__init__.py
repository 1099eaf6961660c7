"""The page "Mirrors" within Airflow's pages: its content and its access control."""
