"""Holds no DAG: it exists to fail where a flow file is wrong.

Airflow drops all DAGs of a file that raises, so ``mirrors.py`` must not raise because of one flow.
A log line would be overlooked, and a DAG that stands for the broken file would look like work that
is waiting. A file of its own that raises gives what people look for: Airflow's import error, red
on its first page and in ``airflow dags list-import-errors``, with file, key and reason.
"""

from pathlib import Path

from kafka_ferry_airflow import raise_problems

raise_problems(Path(__file__).resolve().parents[1])
