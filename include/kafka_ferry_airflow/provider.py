"""What ``airflow providers list`` and ``airflow providers get kafka-ferry`` show."""

from __future__ import annotations

from typing import Any, Final

_NAME: Final = "Kafka Ferry"


def get_provider_info() -> dict[str, Any]:
    """The package as an Airflow provider, by the schema in ``airflow/provider_info.schema.json``.

    The package's entry point in the group ``apache_airflow_provider`` names this function. It names no
    connection types: flows use ``kafka`` and ``spark``, which belong to Airflow's own providers.
    """
    return {
        "package-name": "kafka-ferry",
        "name": _NAME,
        "description": "Copies Kafka clusters into other Kafka clusters on a timetable, with proof.",
        "integrations": [{"integration-name": _NAME, "tags": ["software"]}],
        "operators": [
            {"integration-name": _NAME, "python-modules": ["kafka_ferry_airflow.operators"]}
        ],
        "bundles": [
            {"integration-name": _NAME, "python-modules": ["kafka_ferry_airflow.dags.bundle"]}
        ],
    }
