"""Holds no DAG: this file fails if a flow file has an error.

Airflow drops all DAGs of a file that raises, so ``mirrors.py`` must not raise because of one flow.
An operator would overlook a log line, and a DAG in place of the broken file would look like a DAG
that waits to run. A separate file that raises gives what an operator looks for: Airflow's import
error, red on its first page and in ``airflow dags list-import-errors``, with file, key and reason.
"""

from kafka_ferry_airflow import raise_problems
from kafka_ferry_airflow.root import project_root

raise_problems(project_root(__file__))
