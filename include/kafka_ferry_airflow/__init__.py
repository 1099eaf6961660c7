"""Kafka Ferry in Airflow: one DAG for each flow, made from the flow's file."""

from kafka_ferry_airflow.factory import Mirrors, build_mirrors
from kafka_ferry_airflow.operators import FerrySparkSubmitOperator
from kafka_ferry_airflow.project import Project

__all__ = ["FerrySparkSubmitOperator", "Mirrors", "Project", "build_mirrors"]
