"""The command line: what the DAG's tasks do, without Airflow. A module for each command."""

from kafka_ferry.cli.entry import app, main

__all__ = ["app", "main"]
