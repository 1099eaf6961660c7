"""The command line: what the DAG's tasks do, without Airflow. A module for each command."""

from kafka_ferry.imports import prepare_imports

# Before the commands and their dependencies are imported.
prepare_imports()

from kafka_ferry.cli.entry import app, main  # noqa: E402

__all__ = ["app", "main"]
