"""Airflow's DAGs: ``mirror_{source}_to_{target}`` for each flow file in ``include/configs``.

``flow_problems.py`` reports errors in flow files.
"""

from pathlib import Path

from kafka_ferry_airflow import build_mirrors

for dag_id, dag in build_mirrors(Path(__file__).resolve().parents[1], ("mirror",)).dags.items():
    globals()[dag_id] = dag
