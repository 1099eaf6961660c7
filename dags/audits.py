"""Airflow's DAGs ``audit_{source}_to_{target}``, for each flow file that sets ``audit.schedule``."""

from kafka_ferry_airflow import build_mirrors
from kafka_ferry_airflow.root import project_root

for dag_id, dag in build_mirrors(project_root(__file__), ("audit",)).dags.items():
    globals()[dag_id] = dag
