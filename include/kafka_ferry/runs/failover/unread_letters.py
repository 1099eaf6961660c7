"""Records in the dead letter topic that a group which fails over has not read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafka_ferry.groups.decisions import NO_END
from kafka_ferry.ledger.queries.dead_letters import dead_letters
from kafka_ferry.runs.failover.readers import most_lacking
from kafka_ferry.verify.counts import count

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.groups.moves import GroupMoves
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.model import TopicPartition


def unread_letters(flow: Flow, ledger: LedgerTable, moves: GroupMoves) -> Iterator[str]:
    """A sentence for each source partition with dead letters after the offset that a group has committed there.

    The ledger accounts for them, and their offsets are gaps in the copy: nothing else counts them.
    """
    committed: dict[TopicPartition, dict[str, tuple[int, int]]] = defaultdict(dict)
    for group, one in moves.partitions():
        if one.committed and one.target and not one.home:
            committed[one.source][group.group.name] = one.committed.offset, NO_END
    letters = dead_letters(ledger, {source.topic for source in committed}) if committed else {}
    for source, spans in sorted(letters.items()):
        unread = most_lacking(committed[source], spans)
        if unread is None:
            continue
        names, records = unread
        yield (
            f"{names} has not read {count(records, 'record')} of {source} that went to {flow.dead_letter_name} on "
            f"{flow.target.alias}: its consumers do not get them there."
        )
