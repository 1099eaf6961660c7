"""Which topics and partitions were ever copied, into which, and where their copies began."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.compute as pc

from kafka_ferry.ledger.rows import backfilled_rows, copied_rows, is_one_of, ordinary_rows
from kafka_ferry.model.ranges import TopicPartition

if TYPE_CHECKING:
    from kafka_ferry.ledger.table import LedgerTable
    from kafka_ferry.model.cluster_state import Topic


class TopicCopy(NamedTuple):
    """A topic that was copied, and the one that it was copied to."""

    topic: str
    topic_id: str
    remote_topic: str
    remote_topic_id: str


class CopiedSince(NamedTuple):
    """A copy, and when its first record was written to the ledger, in milliseconds since 1970."""

    topic: str
    topic_id: str
    remote_topic: str
    remote_topic_id: str
    at: int


class RuleStarts(NamedTuple):
    """Where copies began by ``topics.start``.

    Attributes:
        rules: what the option said when a copy began, by remote topic's id; "" where it said nothing.
        offsets: the first source offsets by that, by source topic's id and partition.
    """

    rules: Mapping[str, str]
    offsets: Mapping[tuple[str, int], int]


def copied_topics(ledger: LedgerTable) -> list[TopicCopy]:
    """The topics that were copied other than by backfills, in the order in which their copies began."""
    columns = list(TopicCopy._fields)
    # One thread keeps the order.
    rows = ledger.read(ordinary_rows(), columns).group_by(columns, use_threads=False).aggregate([])
    return [TopicCopy(*row.values()) for row in rows.select(columns).to_pylist()]


def past_writers(
    ledger: LedgerTable, remote_topics: Collection[str]
) -> set[tuple[TopicPartition, int]]:
    """The *target* partitions of some topics, with the numbers of all writers that they have had."""
    keys = ["remote_topic", "partition", "writer"]
    wanted = ordinary_rows() & is_one_of("remote_topic", remote_topics)
    rows = ledger.read(wanted, keys).group_by(keys).aggregate([])
    return {
        (TopicPartition(row["remote_topic"], row["partition"]), row["writer"])
        for row in rows.to_pylist()
    }


def copies_since(ledger: LedgerTable) -> list[CopiedSince]:
    """The copies of all topics, backfills' too, in the order in which they began."""
    keys = list(TopicCopy._fields)
    rows = ledger.read(copied_rows(), [*keys, "at"]).group_by(keys, use_threads=False)
    first = rows.aggregate([("at", "min")]).select([*keys, "at_min"])
    return [CopiedSince(*row.values()) for row in first.to_pylist()]


def remote_topics(
    ledger: LedgerTable, names: Iterable[str] | None = None
) -> frozenset[tuple[str, str]]:
    """The remote topics, each by its name and id, that were ever copied to, by backfills too.

    Args:
        ledger: the flow's ledger.
        names: only those of these names; None for all.
    """
    wanted = copied_rows() if names is None else copied_rows() & is_one_of("remote_topic", names)
    columns = ["remote_topic", "remote_topic_id"]
    rows = ledger.read(wanted, columns).group_by(columns).aggregate([])
    return frozenset(tuple(row[name] for name in columns) for row in rows.to_pylist())


def backfilled_ids(ledger: LedgerTable, names: Iterable[str]) -> frozenset[str]:
    """The ids of remote topics of these names that backfills have copied to."""
    wanted = backfilled_rows() & is_one_of("remote_topic", names)
    return frozenset(ledger.read(wanted, ["remote_topic_id"])["remote_topic_id"].to_pylist())


def copied_partitions(
    ledger: LedgerTable, topics: Iterable[str] | None = None
) -> frozenset[TopicPartition]:
    """The *source* partitions that were ever copied.

    Args:
        ledger: the flow's ledger.
        topics: only those of these topics, and none that only backfills have copied; None for all.
    """
    wanted = copied_rows() if topics is None else ordinary_rows() & is_one_of("topic", topics)
    rows = ledger.read(wanted, ["topic", "partition"]).group_by(["topic", "partition"])
    return frozenset(
        TopicPartition(row["topic"], row["partition"]) for row in rows.aggregate([]).to_pylist()
    )


def rule_starts(ledger: LedgerTable) -> RuleStarts:
    """Where copies began by ``topics.start``."""
    columns = ["remote_topic_id", "topic_id", "partition", "start", "begin"]
    rows = ledger.read(ordinary_rows(), columns)
    # In ledger order, which threads would lose.
    first = rows.group_by("remote_topic_id", use_threads=False).aggregate([("begin", "first")])
    rules = {row["remote_topic_id"]: row["begin_first"] for row in first.to_pylist()}
    offsets: dict[tuple[str, int], int] = {}
    for row in rows.filter(pc.field("begin") != "").to_pylist():
        offsets.setdefault((row["topic_id"], row["partition"]), row["start"])
    return RuleStarts(rules, offsets)


def first_copied_offsets(ledger: LedgerTable, topics: Iterable[Topic]) -> dict[TopicPartition, int]:
    """The first source offset that was ever copied to each partition of the remote ``topics``."""
    ids = {topic.name: topic.topic_id for topic in topics}
    if not ids:
        return {}
    starts = _first_starts(ledger, is_one_of("remote_topic", ids))
    return {tp: start for (tp, topic_id), start in starts.items() if topic_id == ids[tp.topic]}


def preserved_starts(ledger: LedgerTable) -> dict[tuple[TopicPartition, str], int]:
    """Where the mirror of each *target* partition with preserved offsets begins, by partition and topic id."""
    return _first_starts(ledger, pc.field("preserved"))


def _first_starts(
    ledger: LedgerTable, wanted: pc.Expression
) -> dict[tuple[TopicPartition, str], int]:
    keys = ["remote_topic", "partition", "remote_topic_id"]
    rows = ledger.read(ordinary_rows() & wanted, [*keys, "start"]).group_by(keys)
    return {
        (TopicPartition(row["remote_topic"], row["partition"]), row["remote_topic_id"]): row[
            "start_min"
        ]
        for row in rows.aggregate([("start", "min")]).to_pylist()
    }
