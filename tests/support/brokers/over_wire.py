"""The control plane as it is for clusters with Kerberos, on clusters without it."""

from __future__ import annotations

from kafka_ferry.config import kafka_python_config
from kafka_ferry.control.cluster import ClusterControl
from kafka_ferry.control.wire_admin import WireAdmin


class OverWire(ClusterControl):
    """As for a cluster with Kerberos."""

    @property
    def _admin(self) -> WireAdmin:
        return WireAdmin(self.alias, kafka_python_config(self._cluster.client_properties("admin")))
