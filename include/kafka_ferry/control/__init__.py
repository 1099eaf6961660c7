"""The control plane: what a cluster says about itself, and changes to its topics."""

from kafka_ferry.control.client_errors import as_ferry_error
from kafka_ferry.control.cluster import ClusterControl
from kafka_ferry.control.positions import read_positions

__all__ = ["ClusterControl", "as_ferry_error", "read_positions"]
