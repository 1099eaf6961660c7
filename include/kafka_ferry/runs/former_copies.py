"""Copies that certificates name and that the newest ones no longer are of: of a recreated topic, or given up. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_ferry.clock import moment_text
from kafka_ferry.ledger.queries.copied_topics import CopiedSince
from kafka_ferry.ledger.rows import Release
from kafka_ferry.model import TopicPartition
from kafka_ferry.plan.backfill.windows import Span

if TYPE_CHECKING:
    from kafka_ferry.certificates import Certificate


@dataclass(frozen=True)
class FormerCopy:
    """A copy that is another one now.

    Attributes:
        topic: the source's topic.
        remote_topic: the topic that it was copied to.
        remote_topic_id: the id of that one.
        release: how the flow has given it up; None where the source's topic was recreated instead.
        serials: the certificates with ranges of it.
        spans: the source offsets that these have, by partition, ascending; offsets of the former source topic.
    """

    topic: str
    remote_topic: str
    remote_topic_id: str
    release: Release | None
    serials: tuple[int, ...]
    spans: tuple[tuple[TopicPartition, Span], ...]

    @property
    def text(self) -> str:
        """What became of it, and which certificates have it, as a sentence."""
        where = ", ".join(f"{tp} [{start}, {end})" for tp, (start, end) in self.spans)
        serials = ", ".join(map(str, self.serials))
        one = (
            f"certificate {serials} has"
            if len(self.serials) == 1
            else f"certificates {serials} have"
        )
        has = f"of it, {one} {where}" if self.serials else "no certificate has any of it"
        if self.release is None:
            return (
                f"{self.topic} was deleted on the source and recreated: which records of the former topic are of these "
                f"dates is unknown, and its offsets are not those of the topic that is there now; {has}."
            )
        how = (
            "given up with `ferry repair`"
            if self.release.is_repair
            else f"retired by the run {self.release.run}, since the source did not have its topic any more,"
        )
        return (
            f"{self.remote_topic} (id {self.remote_topic_id}), a copy of {self.topic}, was {how} on "
            f"{moment_text(self.release.at)} and deleted with all its records; {has}."
        )


def former_copies(
    copies: Sequence[CopiedSince],
    releases: Iterable[Release],
    ids: Mapping[str, str],
    certificates: Iterable[Certificate],
    since: int,
) -> list[FormerCopy]:
    """The copies that ended in a window or after it, by topic.

    Args:
        copies: what was copied into what, in the ledger's order.
        releases: what was given up.
        ids: the ids of the source's topics that are there now.
        certificates: the flow's.
        since: the window's first timestamp, in milliseconds since 1970.
    """
    given_up = {it.remote_topic_id: it for it in reversed(list(releases))}
    certified: dict[tuple[str, str], list[tuple[int, TopicPartition, Span]]] = defaultdict(list)
    for one in certificates:
        for row in one.ranges():
            source = TopicPartition(row["topic"], row["partition"])
            place = row["topic_id"], row["remote_topic_id"]
            certified[place].append((one.header.serial, source, (row["start"], row["end"])))
    former = []
    for number, copy in enumerate(copies):
        rows = certified[copy.topic_id, copy.remote_topic_id]
        serials = tuple(sorted({serial for serial, *_ in rows}))
        spans = tuple(_join((tp, span) for _, tp, span in rows))
        names = copy.topic, copy.remote_topic, copy.remote_topic_id
        release = given_up.get(copy.remote_topic_id)
        if release and release.at >= since:
            former.append(FormerCopy(*names, release, serials, spans))
        # A topic that is gone is named as such.
        if copy.topic in ids and copy.topic_id not in ("", ids[copy.topic]):
            later = (it for it in copies[number + 1 :] if it.topic == copy.topic)
            next_at = next((it.at for it in later if it.topic_id != copy.topic_id), since)
            if next_at >= since:
                former.append(FormerCopy(*names, None, serials, spans))
    return sorted(former, key=lambda it: (it.topic, it.release is not None))


def _join(spans: Iterable[tuple[TopicPartition, Span]]) -> Iterable[tuple[TopicPartition, Span]]:
    """The spans by partition, those that touch or overlap as one."""
    last: tuple[TopicPartition, Span] | None = None
    for source, (start, end) in sorted(spans):
        if last and last[0] == source and start <= last[1][1]:
            last = source, (last[1][0], max(end, last[1][1]))
        else:
            if last:
                yield last
            last = source, (start, end)
    if last:
        yield last
