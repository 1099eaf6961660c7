"""The ledger's dead letters: which records of the source are in the dead letter topic and not in a copy."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from kafka_ferry.ledger.rows import copied_rows, is_one_of
from kafka_ferry.model.ranges import TopicPartition

if TYPE_CHECKING:
    from kafka_ferry.ledger.table import LedgerTable


def dead_letters(
    ledger: LedgerTable, topics: Collection[str]
) -> dict[TopicPartition, list[tuple[int, int]]]:
    """The source offsets ``[start, end)`` of dead letters of these topics, as they were copied last, by partition."""
    columns = ["topic", "topic_id", "partition", "letters"]
    wanted = is_one_of("topic", topics) & (pc.list_value_length(pc.field("letters")) > 0)
    ids = ledger.topic_ids()
    offsets: dict[TopicPartition, list[tuple[int, int]]] = {}
    for row in ledger.read(copied_rows() & wanted, columns).to_pylist():
        if row["topic_id"] != ids.get(row["topic"]):
            continue
        spans = offsets.setdefault(TopicPartition(row["topic"], row["partition"]), [])
        spans += [(one["source"], one["source"] + one["records"]) for one in row["letters"]]
    return offsets
