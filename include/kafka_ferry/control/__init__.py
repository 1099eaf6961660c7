"""The control plane: what a cluster says about itself, and changes to its topics."""

from kafka_ferry.control.cluster import ClusterControl
from kafka_ferry.control.positions import read_positions
from kafka_ferry.control.raised import as_ferry_error

__all__ = ["ClusterControl", "as_ferry_error", "read_positions"]
