"""Airflow's DAGs ``failover_{source}_to_{target}`` and ``failback_{source}_to_{target}`` for each flow file.

They are not in ``mirrors.py``, so that Airflow reads the flows that have a timetable in half the time.
"""

from kafka_ferry_airflow import build_mirrors
from kafka_ferry_airflow.root import project_root

for dag_id, dag in build_mirrors(project_root(__file__), ("emergency",)).dags.items():
    globals()[dag_id] = dag
