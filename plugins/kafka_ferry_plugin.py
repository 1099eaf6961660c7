"""Registers Kafka Ferry in Airflow: the page "Mirrors"."""

from airflow.plugins_manager import AirflowPlugin

from kafka_ferry_airflow import pools, preload
from kafka_ferry_airflow.links import operator_links
from kafka_ferry_airflow.page.plugin import fastapi_app, react_app
from kafka_ferry_airflow.root import project_root

ROOT = project_root(__file__)


class KafkaFerryPlugin(AirflowPlugin):
    """Everything that Kafka Ferry adds to Airflow in addition to its DAGs."""

    name = "kafka_ferry"
    fastapi_apps = (fastapi_app(ROOT),)
    react_apps = (react_app(),)
    global_operator_extra_links = operator_links(ROOT)
    listeners = (pools, preload)
