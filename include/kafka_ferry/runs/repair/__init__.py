"""What is wrong with copies, and what a person decides about it."""

from kafka_ferry.runs.repair.give_up import Repair

__all__ = ["Repair"]
