"""Kafka Ferry in Airflow: one DAG for each flow, made from the flow's file."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kafka_ferry_airflow.factory import Mirrors, build_mirrors, raise_problems
    from kafka_ferry_airflow.operators import FerrySparkSubmitOperator
    from kafka_ferry_airflow.project import Project

__all__ = ["FerrySparkSubmitOperator", "Mirrors", "Project", "build_mirrors", "raise_problems"]

_MODULES: Final = {
    "FerrySparkSubmitOperator": "operators",
    "Mirrors": "factory",
    "Project": "project",
    "build_mirrors": "factory",
    "raise_problems": "factory",
}


def __getattr__(name: str) -> Any:
    # Every process of Airflow imports the plugin; what makes DAGs takes seconds to import.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
