"""Records that a group which fails back has passed, because the cluster that it leaves never had them, or lost them.

They are on the cluster that it goes home to, before the offset at which it continues there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafka_ferry.groups.ledger_entries import synced_key
from kafka_ferry.ledger.queries.accepted_losses import accepted_losses
from kafka_ferry.ledger.queries.dead_letters import dead_letters
from kafka_ferry.model import TopicPartition
from kafka_ferry.plan.backfill.windows import Span
from kafka_ferry.runs.failover.readers import most_lacking
from kafka_ferry.verify.counts import count

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.groups.moves import GroupMoves
    from kafka_ferry.ledger import LedgerTable


def passed_records(flow: Flow, ledger: LedgerTable, moves: GroupMoves) -> Iterator[str]:
    """A sentence for each partition of which a group gets some records on neither cluster.

    Args:
        flow: the flow to the cluster that the groups leave.
        ledger: its ledger, projected.
        moves: the groups, moved back to the flow's source.
    """
    passed = _group_jumps(ledger, moves)
    topics = {home.topic for home in passed}
    where: dict[TopicPartition, list[tuple[str, list[Span]]]] = defaultdict(list)
    for home, spans in (dead_letters(ledger, topics) if topics else {}).items():
        where[home].append((f"went to {flow.dead_letter_name}", spans))
    for home, reason, spans in _losses(ledger) if topics else ():
        where[home].append((f"were accepted as missing ({reason})", spans))
    for home, kinds in sorted(where.items()):
        for kind, spans in kinds:
            if lacking := most_lacking(passed.get(home, {}), spans):
                names, records = lacking
                yield (
                    f"{names} did not get {count(records, 'record')} of {home} on {flow.target.alias}, where they "
                    f"{kind}, and goes on after them on {flow.source.alias}: to get them, it has to read again from "
                    f"{_first(passed[home], spans)} on."
                )


def _group_jumps(ledger: LedgerTable, moves: GroupMoves) -> dict[TopicPartition, dict[str, Span]]:
    """By partition at home and group, the offsets from where the group left to where it comes back."""
    synced, ids = ledger.synced_groups(), ledger.remote_ids()
    passed: dict[TopicPartition, dict[str, Span]] = defaultdict(dict)
    for group, one in moves.partitions():
        if one.target and one.offset is not None:
            name, key = group.group.name, synced_key(ids.get(one.source.topic, ""), one.source)
            left = synced.get(name, {}).get(key)
            passed[one.target][name] = (max(0, left.source) if left else 0, one.offset)
    return passed


def _losses(ledger: LedgerTable) -> Iterator[tuple[TopicPartition, str, list[Span]]]:
    """By source partition, why the target lacks records, and which."""
    ids, remote_ids = ledger.topic_ids(), ledger.remote_ids()
    for loss in accepted_losses(ledger, lasting=True):
        copied = loss.entry.copied
        if (copied.topic_id, copied.remote_topic_id) == (
            ids.get(copied.topic),
            remote_ids.get(copied.remote_topic),
        ):
            yield TopicPartition(copied.topic, copied.partition), loss.reason, loss.sources


def _first(passed: dict[str, Span], spans: list[Span]) -> int:
    """The first of some offsets that a group has passed."""
    return min(
        max(start, first)
        for start, end in spans
        for first, last in passed.values()
        if max(start, first) < min(end, last)
    )
