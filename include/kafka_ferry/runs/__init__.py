"""Runs of a flow: the steps that the command line, Airflow and the tests call."""

from kafka_ferry.runs.publish.lag import Lag, lag
from kafka_ferry.runs.repair.give_up import Repair
from kafka_ferry.runs.run import Run
from kafka_ferry.runs.state.run_folder import STEPS

__all__ = ["STEPS", "Lag", "Repair", "Run", "lag"]
