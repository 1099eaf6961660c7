"""A flow's configuration: files in YAML or MirrorMaker 2's properties, as checked objects."""

from kafka_ferry.config.client.cluster import Cluster
from kafka_ferry.config.client.translate import (
    confluent_config,
    kafka_python_config,
    only_kafka_python_logs_in,
)
from kafka_ferry.config.files.load import cluster_aliases, flow_files, load_flow, load_flows
from kafka_ferry.config.flow import Flow
from kafka_ferry.config.options.copy import IsolationLevelName, MirrorStart
from kafka_ferry.config.types.name_filter import NameFilter, split_list

__all__ = [
    "Cluster",
    "Flow",
    "IsolationLevelName",
    "MirrorStart",
    "NameFilter",
    "cluster_aliases",
    "confluent_config",
    "flow_files",
    "kafka_python_config",
    "load_flow",
    "load_flows",
    "only_kafka_python_logs_in",
    "split_list",
]
