"""Airflow's DAGs ``mirror_{source}_to_{target}`` and ``plan_{source}_to_{target}`` for each flow file.

``flow_problems.py`` reports errors in flow files.
"""

from kafka_ferry_airflow import build_mirrors
from kafka_ferry_airflow.root import project_root

for dag_id, dag in build_mirrors(project_root(__file__), ("mirror",)).dags.items():
    globals()[dag_id] = dag
