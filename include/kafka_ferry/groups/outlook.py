"""The result of a failover or failback: where groups continue on the other cluster, if they can. Pure."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from kafka_ferry.as_json import AsJson
from kafka_ferry.groups.translation import Kind
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.removals import first_of

if TYPE_CHECKING:
    from kafka_ferry.groups.moves import GroupMove, PartitionMove
    from kafka_ferry.model.cluster_state import LogBounds
    from kafka_ferry.model.groups import Committed, Group

_LONGEST_KEY: Final = 60
_SHOWN: Final = 10
UNKNOWN: Final = -1

State = Literal["ready", "in use", "stuck"]
"""``ready``: its consumers may start on the other cluster; ``in use``: some have already started there;
``stuck``: they would miss records, or read all of them again, for the given reason."""


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """The first record that a consumer of a partition will get.

    Attributes:
        offset: its offset.
        timestamp: its time, in milliseconds since 1970; -1 where it has none.
        key: its key as text, or as ``0x...`` where it is not text; truncated where it is long; None
            where it has no key.
    """

    offset: int
    timestamp: int
    key: str | None


@dataclass(frozen=True, slots=True)
class PartitionOutlook:
    """One partition that a group has read.

    Attributes:
        source: the partition on the cluster that the group leaves.
        target: the partition on the other one, None where the flow has none for it.
        committed: what the group had committed, as far as is known.
        lag: the offsets that it had not read there, -1 where unknown.
        not_copied: the offsets there, of those that the group had not read and of newer ones, that are not on the
            other cluster, -1 where unknown.
        offset: where it continues, None where it has no offset there.
        kind: how exact that is.
        first: the record that it gets first; None where there is none yet.
        reason: why its offset was not set, or why it has none; "" where neither applies.
    """

    source: TopicPartition
    target: TopicPartition | None
    committed: int
    lag: int = UNKNOWN
    not_copied: int = UNKNOWN
    offset: int | None = None
    kind: Kind | None = None
    first: FirstRecord | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GroupOutlook:
    """One group.

    Attributes:
        name: the group.
        state: whether its consumers may start on the other cluster and miss nothing.
        reason: why not, or a further remark.
        at: when its offsets were read, in milliseconds since 1970; 0 where unknown.
        partitions: its partitions that the flow copies, or whose records came from the other cluster;
            ordered.
        outside: its other offsets, which stay where they are; ordered.
        without: partitions with records on the other cluster, of the same topics, for which it has no offset on
            either cluster; ordered.
        is_share: whether it is a share group: a config of the group on the other cluster says where it begins there.
    """

    name: str
    state: State
    reason: str = ""
    at: int = 0
    partitions: tuple[PartitionOutlook, ...] = ()
    outside: tuple[tuple[TopicPartition, int], ...] = ()
    without: tuple[TopicPartition, ...] = ()
    is_share: bool = False

    @property
    def lag(self) -> int:
        """The offsets that it had not read, -1 where unknown."""
        return _sum(one.lag for one in self.partitions)

    @property
    def not_copied(self) -> int:
        """The offsets of its partitions that are not on the other cluster, -1 where unknown."""
        return _sum(one.not_copied for one in self.partitions)


@dataclass(frozen=True)
class Outlook(AsJson):
    """All groups that were to move.

    Attributes:
        flow: the flow whose ledger has translated the offsets.
        run: the id under which the ledger has the commits.
        leaves: the alias of the cluster that the groups leave.
        goes_to: the alias of the cluster that they move to.
        at: when, in milliseconds since 1970.
        source_answers: whether the cluster that they leave could be reached.
        is_done: whether anything was committed; False for a dry run.
        groups: ordered by name.
        notes: sentences that are not about a single group.
        failures: a sentence for each failure.
    """

    WHAT: ClassVar = "a report of a failover"

    flow: str
    run: str
    leaves: str
    goes_to: str
    at: int
    source_answers: bool = True
    is_done: bool = True
    groups: tuple[GroupOutlook, ...] = ()
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()

    @property
    def all_can_start(self) -> bool:
        """Whether no group is stuck, and nothing failed."""
        return not self.failures and all(group.state != "stuck" for group in self.groups)

    @property
    def problems(self) -> tuple[str, ...]:
        """Why not, a sentence each."""
        stuck = (f"{group.name}: {group.reason}" for group in self.groups if group.state == "stuck")
        return (*self.failures, *stuck)


def outlook_of(
    move: GroupMove,
    counterpart: Group | None,
    committed: Mapping[TopicPartition, Committed],
    copied_to: Mapping[TopicPartition, int],
    logs: Mapping[TopicPartition, LogBounds],
    *,
    is_done: bool,
    goes_to: str,
    hidden: Container[TopicPartition] = (),
    unseen: Collection[str] = (),
) -> GroupOutlook:
    """Where one group continues.

    Args:
        move: what was done with its offsets.
        counterpart: the group's current state on the other cluster, None where unknown.
        committed: what it has committed there by now.
        copied_to: by the partition that it leaves, the offset up to which that one is copied.
        logs: the logs of the other cluster, as far as known.
        is_done: whether offsets were to be committed.
        goes_to: the other cluster's alias.
        hidden: the partitions of the other cluster that hide copied records from ``read_committed`` consumers.
        unseen: topics in which the cluster that it leaves does not show what it has committed.
    """
    partitions = tuple(
        _partition(one, committed, copied_to, is_done=is_done) for one in move.partitions
    )
    reason = move.reason
    state: State = "ready"
    if counterpart is not None and counterpart.state not in ("", "Empty", "Dead"):
        state, reason = "in use", f"it is already in use on {goes_to} (state {counterpart.state})."
    elif reasons := _why_stuck(move, partitions, logs, goes_to, hidden):
        state, reason = "stuck", reasons
    elif unseen:
        named = first_of(sorted(unseen), _SHOWN)
        state, reason = "stuck", f"what it has committed in {named} is unknown."
    elif not partitions:
        state, reason = "stuck", reason or "it has no offsets of topics that the flow copies."
    without = _without(partitions, committed, logs)
    return GroupOutlook(
        *(move.group.name, state, reason, move.at, partitions, move.outside, without),
        is_share=move.group.type == "share",
    )


def _without(
    partitions: Iterable[PartitionOutlook],
    committed: Container[TopicPartition],
    logs: Mapping[TopicPartition, LogBounds],
) -> tuple[TopicPartition, ...]:
    """As ``GroupOutlook.without``: no offset was to be moved there, and a consumer starts all the same."""
    targets = {one.target for one in partitions}
    topics = {tp.topic for tp in targets if tp}
    return tuple(
        tp
        for tp, log in sorted(logs.items())
        if tp.topic in topics and tp not in targets and tp not in committed and log.end > log.start
    )


def _why_stuck(
    move: GroupMove,
    partitions: Sequence[PartitionOutlook],
    logs: Mapping[TopicPartition, LogBounds],
    goes_to: str,
    hidden: Container[TopicPartition],
) -> str:
    """Why the group would miss records, or read all of them again; "" where it would not."""
    without = [one for one in partitions if not _begins_in(logs, one)]
    if without:
        first, more = without[0], f" and {len(without) - 1} more" if len(without) > 1 else ""
        why = first.reason or move.reason or "it has no offset there."
        if first.offset is not None and first.target:
            log = logs[first.target]
            why = f": {why}" if first.reason else "."
            why = f"its offset {first.offset} is outside of the log there, [{log.start}, {log.end}){why}"
        return f"{first.source}{more} would begin by auto.offset.reset: {why}"
    for one, moved in zip(partitions, move.partitions, strict=True):
        if one.target not in logs:
            return (
                f"where the log of {one.target} on {goes_to} starts and ends is not known, such as while it has no "
                f"leader: whether the group can continue there at {one.offset} is not either."
            )
        if moved.is_lost and (moved.offset is None or (one.offset or 0) > moved.offset):
            return f"{moved.reason} It would continue at {one.offset}, and miss records."
        if one.target in hidden:
            return (
                f"an open transaction in {one.target} on {goes_to} hides records that were copied from read_committed "
                "consumers. If it is the flow's own, its marker is lost, and a run of the flow commits it again."
            )
        if moved.missing and one.offset == moved.offset:
            return (
                f"{moved.missing:,} offsets of {one.source} that it has not read are not on {goes_to}: it would "
                f"begin there at {one.offset}, and miss them."
            )
    return ""


def _begins_in(logs: Mapping[TopicPartition, LogBounds], one: PartitionOutlook) -> bool:
    """Whether a consumer finds its offset in the log there, as far as that is known."""
    if one.offset is None:
        return False
    log = logs.get(one.target) if one.target else None
    return log is None or log.start <= one.offset <= log.end


def _partition(
    move: PartitionMove,
    committed: Mapping[TopicPartition, Committed],
    copied_to: Mapping[TopicPartition, int],
    *,
    is_done: bool,
) -> PartitionOutlook:
    existing = committed.get(move.target) if move.target else None
    offset = existing.offset if existing else None
    if not is_done and move.action == "written":
        offset = move.offset
    end = move.end if move.end >= 0 else UNKNOWN
    has_read = move.committed.offset if move.committed else 0
    # An empty log has nothing to copy, and what came from the other cluster is there.
    is_there = move.home or move.start == end
    to = end if is_there else None if move.is_lost else copied_to.get(move.source)
    if move.offset is None and to is not None and has_read < to:
        # Of a move that is held, nothing says which of the offsets before the position have copies.
        to = None
    missing = move.missing if offset == move.offset else 0
    return PartitionOutlook(
        source=move.source,
        target=move.target,
        committed=has_read,
        lag=UNKNOWN if end == UNKNOWN else max(0, end - has_read),
        not_copied=UNKNOWN if end == UNKNOWN or to is None else max(0, end - to) + missing,
        offset=offset,
        kind=move.kind if offset == move.offset else None,
        reason=move.reason,
    )


def key_text(key: bytes | None) -> str | None:
    """A record's key as text that is safe for a terminal; in hexadecimal if it is not printable text."""
    if key is None:
        return None
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = ""
    if not text.isprintable() or (key and not text):
        text = f"0x{key.hex()}"
    return text if len(text) <= _LONGEST_KEY else f"{text[:_LONGEST_KEY]}..."


def _sum(numbers: Iterable[int]) -> int:
    known = list(numbers)
    return UNKNOWN if UNKNOWN in known else sum(known)
