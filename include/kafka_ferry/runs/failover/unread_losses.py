"""What a person has accepted as missing, where a group that fails over has not read it yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from kafka_ferry.groups.decisions import NO_END
from kafka_ferry.ledger.queries.accepted_losses import accepted_losses
from kafka_ferry.runs.failover.readers import most_lacking
from kafka_ferry.verify.counts import count

if TYPE_CHECKING:
    from kafka_ferry.groups.outlook import GroupOutlook
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.model import Topic


def unread_losses(
    ledger: LedgerTable, topics: Collection[Topic], groups: Iterable[GroupOutlook]
) -> Iterator[str]:
    """A sentence for each range that lacks records after the offset at which a group is to continue.

    They are copied by the ledger, so that nothing else counts them.

    Args:
        ledger: the flow's ledger, projected.
        topics: the remote topics that exist.
        groups: where the groups continue.
    """
    released = ledger.released_topics()
    ids = {topic.name: topic.topic_id for topic in topics if topic.topic_id not in released}
    continues = {
        (one.target, group.name): (one.offset, NO_END)
        for group in groups
        for one in group.partitions
        if one.target and one.offset is not None
    }
    for loss in accepted_losses(ledger, lasting=True):
        copied, target = loss.entry.copied, loss.entry.target
        if copied.remote_topic_id not in ("", ids.get(target.topic)):
            continue
        offsets_there = {name: at for (tp, name), at in continues.items() if tp == target}
        if lacking := most_lacking(offsets_there, loss.targets):
            names, records = lacking
            yield (
                f"{target} lacks {count(records, 'record')} of {copied.topic}-{copied.partition} "
                f"[{copied.start}, {copied.end}) that {names} would read next: they were accepted "
                f"as missing ({loss.reason})."
            )
