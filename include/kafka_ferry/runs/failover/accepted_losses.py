"""What a person has accepted as missing, where a group that fails over has not read it yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from kafka_ferry.ledger.proofs import accepted_ranges
from kafka_ferry.runs.failover.readers import most_lacking
from kafka_ferry.verify.counts import count

if TYPE_CHECKING:
    from kafka_ferry.groups.outlook import GroupOutlook
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.model import Topic


def accepted_losses(
    ledger: LedgerTable, topics: Collection[Topic], groups: Iterable[GroupOutlook]
) -> Iterator[str]:
    """A sentence for each range that lacks records after the offset at which a group is to continue.

    They are copied by the ledger, so that nothing else counts them.

    Args:
        ledger: the flow's ledger, projected.
        topics: the remote topics that exist.
        groups: where the groups continue.
    """
    accepted = {key: it for key, it in accepted_ranges(ledger).items() if it.missing}
    if not accepted:
        return
    released = ledger.released_topics()
    ids = {topic.name: topic.topic_id for topic in topics if topic.topic_id not in released}
    continues = {
        (one.target, group.name): one.offset
        for group in groups
        for one in group.partitions
        if one.target and one.offset is not None
    }
    offsets = sorted({offset for offset, *_ in accepted})
    for entry in chain.from_iterable(ledger.ranges_within(at, at + 1) for at in offsets):
        known, went_to = accepted.get(entry.key), entry.copied.remote_topic_id
        if not known or went_to not in ("", ids.get(entry.target.topic)):
            continue
        offsets_there = {name: at for (tp, name), at in continues.items() if tp == entry.target}
        if lacking := most_lacking(offsets_there, known.missing):
            names, records = lacking
            yield (
                f"{entry.target} lacks {count(records, 'record')} of {known.topic}-{known.partition} "
                f"[{known.start}, {entry.copied.end}) that {names} would read next: they were accepted "
                f"as missing ({known.reason})."
            )
