"""OpenLineage's input about a run: from which source topic each topic of the target was copied."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafka_ferry.printable import one_line

if TYPE_CHECKING:
    from kafka_ferry.config import Cluster, Flow
    from kafka_ferry.report import RunReport

# The attribute of a task's operator in which the provider's extractor looks for it.
_METHOD: Final = "get_openlineage_facets_on_complete"
# The parts of a record, all of which are copied unchanged.
_FIELDS: Final = ("key", "value", "headers", "timestamp")


@dataclass(frozen=True, slots=True)
class CopiedTopic:
    """What a run copied of one topic, and proved.

    Attributes:
        topic: the source's topic.
        remote_topic: the topic on the target.
        records: records copied.
    """

    topic: str
    remote_topic: str
    records: int


def report_lineage(published: Any, flow: Flow) -> None:
    """Lets the task ``publish`` report to OpenLineage what its run copied, where Airflow has that provider.

    Without the provider, or without a configured transport, it is never called.

    Args:
        published: the task, or what it returns.
        flow: the flow.
    """
    operator = getattr(published, "operator", published)
    setattr(operator, _METHOD, _Telling(flow))


def namespace(cluster: Cluster) -> str:
    """A cluster as OpenLineage names it: ``kafka://host:port`` of its first bootstrap server.

    Raises:
        ConfigError: the cluster's Airflow connection is not in the environment, or is invalid.
    """
    servers = cluster.client_properties("consumer")["bootstrap.servers"]
    first = servers.split(",")[0].strip()
    return f"kafka://{first.rpartition('://')[2]}"


def copied_by(report: RunReport) -> tuple[CopiedTopic, ...]:
    """What a run copied, by topic; only what its verification has proved.

    Args:
        report: the run's report.
    """
    if report.proof.verdict is None or not report.proof.verdict.success:
        return ()
    records: dict[tuple[str, str], int] = {}
    for row in report.proof.ranges:
        if row.ledger.run == report.run:
            pair = (row.topic, row.remote_topic)
            records[pair] = records.get(pair, 0) + row.ledger.copied
    return tuple(
        CopiedTopic(one_line(topic), one_line(remote), count)
        for (topic, remote), count in sorted(records.items())
    )


class _Telling:
    """Called by the extractor when the task has succeeded or failed."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    def __call__(self, task_instance: Any) -> Any:
        """Inputs and outputs of the run that a task has published; None where it copied nothing.

        The outputs' column lineage has what is copied from what: from inputs and outputs alone, every
        topic would seem to be made from all of them.
        """
        from kafka_ferry.runs import Run  # noqa: PLC0415  (PySpark and Great Expectations)
        from kafka_ferry_airflow.connections import provide_connections  # noqa: PLC0415

        report = Run(self.flow, task_instance.run_id).report()
        copied = copied_by(report) if report else ()
        if not copied:
            return None
        provide_connections(self.flow)
        return as_lineage(copied, namespace(self.flow.source), namespace(self.flow.target))


def as_lineage(copied: Iterable[CopiedTopic], source: str, target: str) -> Any:
    """The provider's ``OperatorLineage``.

    Args:
        copied: what was copied.
        source: the source cluster's namespace.
        target: the target cluster's.
    """
    from airflow.providers.openlineage.extractors.base import OperatorLineage  # noqa: PLC0415
    from openlineage.client.event_v2 import InputDataset, OutputDataset  # noqa: PLC0415
    from openlineage.client.facet_v2 import output_statistics_output_dataset  # noqa: PLC0415

    inputs, outputs = [], []
    for one in copied:
        inputs.append(InputDataset(source, one.topic))
        counted = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=one.records
        )
        outputs.append(
            OutputDataset(
                target,
                one.remote_topic,
                outputFacets={"outputStatistics": counted},
                facets=_columns(source, one.topic),
            )
        )
    return OperatorLineage(inputs=inputs, outputs=outputs)


def _columns(source: str, topic: str) -> dict[str, Any]:
    from openlineage.client.facet_v2 import column_lineage_dataset as lineage  # noqa: PLC0415

    same = [lineage.Transformation("DIRECT", "IDENTITY")]
    fields = {
        name: lineage.Fields([lineage.InputField(source, topic, name, transformations=same)])
        for name in _FIELDS
    }
    return {"columnLineage": lineage.ColumnLineageDatasetFacet(fields)}
