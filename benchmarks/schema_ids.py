"""What other ids of schemas cost, beside an unopened copy of the same topic.

python -m benchmarks.schema_ids --repeat 3
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from benchmarks import report
from benchmarks.copies.clusters import Clusters, two_clusters
from benchmarks.copies.copiers import Copier, Ferry
from benchmarks.copies.loads import WholeTopic, copies
from benchmarks.copies.topics import BenchmarkTopic
from kafka_sandbox.schema_registry import SchemaRegistryServer

_TOPIC = "ids"


def _registered(registry: SchemaRegistryServer) -> int:
    """The id of the topic's schema, which is another one on a registry that has none."""
    client = SchemaRegistryClient({"url": registry.url})
    client.register_schema("another", Schema('"string"'))
    return client.register_schema(f"{_TOPIC}-value", Schema('"bytes"'))


def _loads(
    clusters: Clusters,
    registries: tuple[SchemaRegistryServer, SchemaRegistryServer],
    records: int,
    size: int,
) -> list[WholeTopic]:
    copiers: list[Copier] = [Ferry("this", sys.executable, clusters)]
    source, target = ({"schema.registry": {"url": it.url}} for it in registries)
    topic = BenchmarkTopic(_TOPIC, 8, size, schema_id=_registered(registries[0]))
    as_it_is = BenchmarkTopic("as-it-is", 8, size, schema_id=topic.schema_id)
    options = {"sync.schemas": "translate-ids", "source": source, "target": target}
    return [
        WholeTopic("as they are", copiers, clusters, as_it_is, records),
        WholeTopic("with the target's ids", copiers, clusters, topic, records, options),
    ]


def main(
    records: Annotated[int, typer.Option(help="Records of each load.")] = 1_000_000,
    size: Annotated[int, typer.Option(help="Bytes of a value.")] = 1_000,
    repeat: Annotated[int, typer.Option(help="Copies of each.")] = 3,
) -> None:
    """Measure copies with and without other ids."""
    with two_clusters() as clusters:
        folder = clusters.folder
        with (
            SchemaRegistryServer(folder / "registry-1") as source,
            SchemaRegistryServer(folder / "registry-2") as target,
        ):
            loads = _loads(clusters, (source, target), records, size)
            for load in loads:
                load.prepare()
            report.show(report.told(copies(loads, repeat)), loads)


if __name__ == "__main__":
    typer.run(main)
