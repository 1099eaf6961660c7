"""Passes Airflow's Kafka connections to the library, which reads them from the environment."""

from __future__ import annotations

import json
import os

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from kafka_ferry.config import Cluster, Flow
from kafka_ferry.config.client.airflow_connection import connection_variable
from kafka_ferry.config.client.property_names import AIRFLOW_CONNECTION
from kafka_ferry.errors import ConfigError
from kafka_ferry_airflow.errors import as_airflow


def provide_connections(flow: Flow) -> None:
    """Puts the connections that ``flow``'s clusters name into this task's environment.

    So the library, and a Spark driver that this task starts, find them wherever Airflow keeps them (its
    database, a secrets backend). No argument, template or Spark property has them.

    Raises:
        AirflowFailException: there is no such connection.
    """
    for cluster in (flow.source, flow.target):
        if name := cluster.airflow_connection:
            os.environ[connection_variable(name)] = _as_json(cluster, name)


def _as_json(cluster: Cluster, name: str) -> str:
    try:
        connection = BaseHook.get_connection(name)
    except AirflowNotFoundException:
        reason = f"there is no connection {name!r}."
        advice = "Create it in Airflow (Admin, Connections), of the type kafka."
        error = ConfigError(cluster.origin, AIRFLOW_CONNECTION, reason, advice=advice)
        raise as_airflow(error) from None
    return json.dumps({"conn_type": connection.conn_type, "extra": connection.extra_dejson})
