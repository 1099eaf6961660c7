"""Two clusters without a flow's file: from the properties of a Kafka client for each."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from kafka_ferry.config.client.cluster import Cluster
from kafka_ferry.config.files.mm1_properties import MirrorClient, Remark, read_source
from kafka_ferry.config.flow import MAY_BE_ONE_CLUSTER, Flow
from kafka_ferry.config.types.problems import config_error, problems_of


def flow_of_clients(
    source: Path,
    target: Path,
    *,
    source_alias: str = "source",
    policy: str = "DefaultReplicationPolicy",
) -> tuple[Flow, list[tuple[Path, Remark]]]:
    """A flow between two clusters, for commands that only read both.

    Args:
        source: the properties of a client of the source, by the Java client's names.
        target: those of a client of the target.
        source_alias: the source's alias, which a replication policy may put before topics' names.
        policy: as ``replication.policy.class``.

    Returns:
        The flow; and by file, the properties without effect.

    Raises:
        ConfigError: a file cannot be read, names no brokers or has a wrong value; or an argument is not valid.
    """
    clients = read_source(source), read_source(target)
    clusters = _cluster(clients[0], source_alias), _cluster(clients[1], "target")
    values = {"source": clusters[0], "target": clusters[1], "file": str(source)}
    try:
        flow = Flow.model_validate(
            values | {"replication.policy.class": policy}, context={MAY_BE_ONE_CLUSTER: True}
        )
    except ValidationError as error:
        problems = problems_of(error, lambda path: ".".join(map(str, path)))
        raise config_error("the command line", *problems) from None
    files = zip((source, target), clients, strict=True)
    return flow, [(file, remark) for file, client in files for remark in client.remarks]


def _cluster(client: MirrorClient, alias: str) -> Cluster:
    try:
        return Cluster(alias=alias, properties=client.properties, file=client.file)
    except ValidationError as error:
        problems = problems_of(error, lambda path: str(path[-1]))
        raise config_error("the command line", *problems) from None
