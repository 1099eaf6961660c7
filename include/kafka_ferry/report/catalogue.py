"""Every metric: its name, kind, tags and meaning. docs/reference/metrics.md is made from this table.

Names and tags of the first twelve and of the checkpoints' are MirrorMaker 2's (``MirrorSourceMetrics``,
``MirrorCheckpointMetrics``, in the format that it calls legacy).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

Kind = Literal["counter", "gauge"]
Scope = Literal["partition", "group", "flow"]

PREFIX: Final = "kafka_ferry"
_FLOW: Final = ("source", "target")
_TAGS: Final[dict[Scope, tuple[str, ...]]] = {
    "partition": (*_FLOW, "topic", "partition"),
    "group": (*_FLOW, "group", "topic", "partition"),
    "flow": _FLOW,
}


class Metric(NamedTuple):
    """One metric.

    Attributes:
        name: with dashes, as MirrorMaker 2 writes them.
        kind: a counter only ever grows; a gauge is what it was in the last run, or after it.
        scope: what there is one sample for.
        meaning: a sentence without a full stop.
        more: tags in addition to the scope's.
        original: whether MirrorMaker 2 has it too.
    """

    name: str
    kind: Kind
    scope: Scope
    meaning: str
    more: tuple[str, ...] = ()
    original: bool = False

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags at the finest detail."""
        return (*_TAGS[self.scope], *self.more)

    @property
    def prometheus_name(self) -> str:
        """Its name in Prometheus."""
        suffix = "_total" if self.kind == "counter" else ""
        return f"{PREFIX}_{self.name.replace('-', '_')}{suffix}"


def _spread_metrics(name: str, scope: Scope, what: str) -> Iterator[Metric]:
    for suffix, which in (
        ("", "of the last record"),
        ("-min", "the least"),
        ("-max", "the most"),
        ("-avg", "the mean"),
    ):
        words = f"{what}: {which if scope == 'partition' or suffix else 'of the last offset'}"
        yield Metric(name + suffix, "gauge", scope, words, original=True)


_OF_MIRRORMAKER_2: Final = (
    Metric(
        "record-count",
        "counter",
        "partition",
        "records copied since the flow began, by its ledger",
        original=True,
    ),
    Metric(
        "record-rate",
        "gauge",
        "partition",
        "records a second while the run copied",
        original=True,
    ),
    *_spread_metrics(
        "record-age-ms", "partition", "age of the run's records when they were read, milliseconds"
    ),
    Metric(
        "byte-count",
        "counter",
        "partition",
        "bytes copied since the flow began, as batches are compressed",
        original=True,
    ),
    Metric("byte-rate", "gauge", "partition", "bytes a second while the run copied", original=True),
    *_spread_metrics(
        "replication-latency-ms",
        "partition",
        "age of the run's records when they were committed on the target, milliseconds",
    ),
    *_spread_metrics(
        "checkpoint-latency-ms",
        "group",
        "from translating a group's offset until the run had written everything for groups, "
        "milliseconds",
    ),
)

_BEYOND: Final = (
    Metric(
        "records-behind",
        "gauge",
        "partition",
        "offsets on the source that are not yet accounted for, after the run",
    ),
    Metric(
        "seconds-behind",
        "gauge",
        "partition",
        "age of the first of them after the run, 0 where there is none",
    ),
    Metric(
        "partition-verified-until-seconds",
        "gauge",
        "partition",
        "all that could be read of the partition at that time (Unix) is proved to be on the target",
    ),
    Metric(
        "offsets-without-record",
        "counter",
        "partition",
        "source offsets without a record on the target since the flow began",
        ("reason",),
    ),
    Metric(
        "group-records-behind",
        "gauge",
        "group",
        "offsets between the group's and the partition's end on the source, when they were read",
    ),
    Metric("group-offsets", "gauge", "flow", "offsets of groups by what was done", ("action",)),
    Metric(
        "verified-until-seconds",
        "gauge",
        "flow",
        "all that could be read of the flow's topics at that time (Unix) is proved to be on the target",
    ),
    Metric(
        "oldest-proof-seconds",
        "gauge",
        "flow",
        "when the range was last read back that was not read for the longest time (Unix), with "
        "verify.everything.within",
    ),
    Metric(
        "run-state",
        "gauge",
        "flow",
        "1 for the state of the last run or, if that is worse, of the newest run of all topics; else 0",
        ("state",),
    ),
    Metric("run-planned-seconds", "gauge", "flow", "when the last run was planned (Unix)"),
    Metric("run-finished-seconds", "gauge", "flow", "when the last run was published (Unix)"),
    Metric("run-duration-seconds", "gauge", "flow", "how long all steps of the run took"),
    Metric("run-step-seconds", "gauge", "flow", "how long each step took", ("step",)),
    Metric("run-records", "gauge", "flow", "records that the run copied"),
    Metric("run-bytes", "gauge", "flow", "bytes that the run copied, as batches are compressed"),
    Metric("run-partitions", "gauge", "flow", "partitions that the flow copies"),
    Metric(
        "run-offsets-without-record",
        "gauge",
        "flow",
        "source offsets of the run without a record on the target",
        ("reason",),
    ),
    Metric(
        "run-rebuilt-batches",
        "gauge",
        "flow",
        "batches that could not be copied unopened",
        ("reason",),
    ),
    Metric(
        "run-problems",
        "gauge",
        "flow",
        "problems in the run: partitions that failed or were refused, missing proofs, "
        "changes that could not be made, groups",
        ("kind",),
    ),
)

METRICS: Final = {metric.name: metric for metric in (*_OF_MIRRORMAKER_2, *_BEYOND)}
"""All metrics by name, those of MirrorMaker 2 first."""

_HEAD: Final = """\
# Metrics, each with its tags

Generated from `kafka_ferry.report.catalogue`; do not edit. [Metrics](../metrics.md) says where they go,
how they are measured, and what to do when one of them is bad.

| Metric | In Prometheus | Kind | Tags | Meaning |
| --- | --- | --- | --- | --- |
"""
_OURS_HEAD: Final = "\n## What MirrorMaker 2 lacks\n\n" + "\n".join(_HEAD.splitlines()[-2:]) + "\n"


def page() -> str:
    """The reference page as Markdown."""
    parts = [_HEAD, *map(_row, _OF_MIRRORMAKER_2), _OURS_HEAD, *map(_row, _BEYOND)]
    return "".join(parts)


def _row(metric: Metric) -> str:
    tags = ", ".join(f"`{tag}`" for tag in metric.tags)
    cells = (f"`{metric.name}`", f"`{metric.prometheus_name}`", metric.kind, tags, metric.meaning)
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    print(page(), end="")
