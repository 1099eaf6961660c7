"""The ranges of certificates, as far as they say something of what the source has now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_ferry.certificates.document import count_unread, is_without_copy
from kafka_ferry.plan.backfill.windows import BEGINNING, FOREVER, Span, gaps

if TYPE_CHECKING:
    from kafka_ferry.certificates import Certificate
    from kafka_ferry.ledger.rows import RangeKey
    from kafka_ferry.runs.provenance.branches import Branches


class CertifiedRange(NamedTuple):
    """A range of a certificate, as far as the source still has its offsets as they were copied.

    Attributes:
        offsets: the offsets.
        serial: the certificate.
        remote_topic: the topic on the target.
        times: of a backfill, the timestamps ``[since, until)`` of its records: of others it says nothing.
        unread: how many of its records were gone before a run could read them back.
    """

    offsets: Span
    serial: int
    remote_topic: str
    times: Span = (BEGINNING, FOREVER)
    unread: int = 0


def certified_ranges(
    certificates: Iterable[Certificate],
    branches: Branches,
    windows: Mapping[int, Span],
    accepted: Mapping[RangeKey, Sequence[Span]],
) -> Mapping[tuple[str, int], list[CertifiedRange]]:
    """The ranges of all certificates, by the topic's id and the partition.

    Args:
        certificates: the certificates.
        branches: which of their offsets the source still has as they were copied.
        windows: those of backfills, by their ledger offsets: runs certify ranges of backfills too.
        accepted: the source offsets of records that were accepted as missing, by the ranges that have them: a repair
            may have appended these, and a later range of a certificate have them.
    """
    known: dict[tuple[str, int], list[CertifiedRange]] = defaultdict(list)
    for one in certificates:
        for row in one.ranges():
            if is_without_copy(row):
                continue
            place, at = (row["topic_id"], row["partition"]), row["ledger_offset"]
            if offsets := branches.kept(place, (row["start"], row["end"]), at):
                times = one.header.window or windows.get(at, (BEGINNING, FOREVER))
                missing = accepted.get((at, row["topic"], row["partition"], row["start"]), ())
                known[place] += (
                    CertifiedRange(part, one.header.serial, row["remote_topic"], times, unread)
                    for part, unread in _parts(row, offsets, missing)
                )
    return known


def _parts(
    row: Mapping[str, Any], offsets: Span, missing: Sequence[Span]
) -> Iterator[tuple[Span, int]]:
    """The parts of a range that were read back, and those that were not, with how many of their records were not.

    Only where all of these are known, the rest counts as read back.
    """
    absent = row.get("absent", {})
    is_known = sum(end - start for start, end in missing) == absent.get("accepted", 0)
    if absent.get("expired") or not is_known:
        yield offsets, count_unread(row)
        return
    for part in gaps(missing, offsets):
        yield part, 0
    for first, last in missing:
        start, end = max(first, offsets[0]), min(last, offsets[1])
        if start < end:
            yield (start, end), end - start
