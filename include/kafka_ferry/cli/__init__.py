"""The command line: what the DAG's tasks do, without Airflow. A module for each command."""

from kafka_ferry.garbage_collection import search_seldom

# Before the commands and their dependencies are imported.
search_seldom()

from kafka_ferry.cli.entry import app, main  # noqa: E402

__all__ = ["app", "main"]
