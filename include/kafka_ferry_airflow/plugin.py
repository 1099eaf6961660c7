"""Registers Kafka Ferry in Airflow: the page "Mirrors", buttons on tasks, the pools of clusters, and more listeners.

The package's entry point in the group ``airflow.plugins`` names it, so every Airflow that has the package
installed has the plugin. Provider info could name it too, but Airflow reads plugins from there only with
``lazy_discover_providers = False`` (``airflow.plugins_manager``), and would then find it twice.
"""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from kafka_ferry_airflow import pools, preload
from kafka_ferry_airflow.dags import empty_runs
from kafka_ferry_airflow.links import operator_links
from kafka_ferry_airflow.page.plugin import fastapi_app, react_app
from kafka_ferry_airflow.root import project_root

_ROOT = project_root(__file__)


class KafkaFerryPlugin(AirflowPlugin):
    """Everything that Kafka Ferry adds to Airflow in addition to its DAGs."""

    name = "kafka_ferry"
    fastapi_apps = [fastapi_app(_ROOT)]
    react_apps = [react_app()]
    global_operator_extra_links = list(operator_links(_ROOT))
    listeners = [empty_runs, pools, preload]
