"""Takes over from MirrorMaker 2 or MirrorMaker 1: continues in the topics that it has filled.

Each topic is handled by itself: the other mirror's position is compared with the records on both
clusters (``groups.alignment.align``), and only then the position, the topic's mark and its history are
written, in one transaction. A repetition skips what was taken over, so that it can follow any
interruption; it also takes over what the other mirror has copied since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Final

from kafka_ferry.clock import run_id_now
from kafka_ferry.config import Flow
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import FerryError
from kafka_ferry.groups.mirrormaker2.connect_offsets import newest, offsets_topic, worker_group
from kafka_ferry.groups.mirrormaker2.stored_offsets import read_offsets
from kafka_ferry.model import ClusterState
from kafka_ferry.model.groups import Group
from kafka_ferry.model.takeover import TopicHandover
from kafka_ferry.model.topic_pair import Pair
from kafka_ferry.plan import selection_of
from kafka_ferry.runs.plan.discover import discover
from kafka_ferry.runs.state.flow_state import flow_ledger
from kafka_ferry.runs.takeover.adopt import adopt_topic, mark_owned, prepare, raise_if_unverified
from kafka_ferry.runs.takeover.align import Aligned, Aligner, Positions
from kafka_ferry.runs.takeover.liveness import look, require_still, wait_for_members
from kafka_ferry.runs.takeover.mirrored_offsets import MirroredOffsets

MIRROR_MAKER_2: Final = "MirrorMaker 2"
MIRROR_MAKER_1: Final = "MirrorMaker 1"


class Takeover:
    """Takes over a flow's topics from another mirror.

    Args:
        flow: the flow; it must name topics as the other mirror does.
        settle_s: for how many seconds nothing may change before the other mirror counts as stopped.
    """

    def __init__(self, flow: Flow, *, settle_s: float = 5.0) -> None:
        self._flow = flow
        self._settle_s = settle_s
        self._ledger = flow_ledger(flow)
        self._mirrored = MirroredOffsets(flow)

    def from_mirrormaker2(
        self, *, dry_run: bool = False, positions_topic: str = ""
    ) -> list[TopicHandover]:
        """Take over what MirrorMaker 2 has copied.

        Args:
            dry_run: whether only to report what would be done.
            positions_topic: Connect's offsets topic on the target, if it is not that of MirrorMaker
                2's dedicated mode.

        Returns:
            The result for each topic of the flow that is on the target.

        Raises:
            FerryError: MirrorMaker 2 still runs, or has no positions; or a cluster cannot be read.
        """
        flow = self._flow
        topic = positions_topic or offsets_topic(flow.source.alias)
        wait_for_members(flow.target, worker_group(flow.source.alias), MIRROR_MAKER_2)
        stored, end = read_offsets(flow.target, flow.source.alias, topic)

        def check() -> None:
            if read_offsets(flow.target, flow.source.alias, topic)[1] != end:
                raise FerryError(
                    f"{MIRROR_MAKER_2} still runs: it wrote to {topic} on {flow.target.alias}.",
                    advice="Stop it, and try again.",
                )

        positions = {tp: offset.next for tp, offset in newest(stored).items()}
        return self._take_over(positions, check, dry_run=dry_run)

    def from_mirrormaker1(self, group: str, *, dry_run: bool = False) -> list[TopicHandover]:
        """Take over what a MirrorMaker 1 has copied, whose consumers form the group ``group`` on the source.

        Args and Returns as in ``from_mirrormaker2``.

        Raises:
            FerryError: it still runs, or has committed nothing; or the flow gives topics other names.
        """
        flow = self._flow
        wait_for_members(flow.source, group, MIRROR_MAKER_1)
        positions = _committed_positions(flow, group)

        def check() -> None:
            if _committed_positions(flow, group) != positions:
                raise FerryError(
                    f"{MIRROR_MAKER_1} still runs: the offsets of {group} on {flow.source.alias} advance.",
                    advice="Stop it, and try again.",
                )

        return self._take_over(positions, check, dry_run=dry_run, unchanged_names=True)

    def _take_over(
        self,
        positions: Positions,
        check: Callable[[], None],
        *,
        dry_run: bool,
        unchanged_names: bool = False,
    ) -> list[TopicHandover]:
        state = discover(self._flow, self._ledger)
        raise_if_unverified(self._flow, self._ledger)
        ledger_end = self._ledger.next_offset
        pairs = [pair for pair in pairs_of(self._flow, state) if pair.remote]
        if unchanged_names:
            _require_own_names(self._flow, pairs)
        remote = [pair.remote for pair in pairs if pair.remote]
        before = look(self._flow, remote)
        with Aligner(self._flow, self._ledger, positions, spreads=unchanged_names) as aligner:
            aligned = [aligner.look(pair) for pair in pairs]
        require_still(self._flow, before, remote, self._settle_s)
        check()
        if dry_run or not any(topic.found or _is_given_back(topic) for topic in aligned):
            return [topic.handover for topic in aligned]
        prepare(self._flow, self._ledger)
        run = run_id_now("takeover")
        return [self._adopt(topic, state, run, ledger_end) for topic in aligned]

    def _adopt(
        self, aligned: Aligned, state: ClusterState, run: str, ledger_end: int
    ) -> TopicHandover:
        if not aligned.found:
            if _is_given_back(aligned):
                mark_owned(self._flow, run, aligned)
            return aligned.handover
        try:
            adopt_topic(
                *(self._flow, self._ledger, run, aligned, state, self._mirrored), since=ledger_end
            )
        except FerryError as error:
            return replace(aligned.handover, state="refused", reason=str(error))
        return replace(aligned.handover, state="taken over")


def _is_given_back(aligned: Aligned) -> bool:
    """Whether the flow may not continue in a topic as it is, although nothing is to be taken over."""
    mark = aligned.pair.mark
    return aligned.handover.state == "up to date" and mark is not None and mark.given_back


def pairs_of(flow: Flow, state: ClusterState) -> Iterator[Pair]:
    """The topics that the flow copies, each with its remote topic, in order."""
    names = selection_of(flow, state).names
    for name in sorted(names.keys() & state.source.topics.keys()):
        yield Pair.of(name, names[name], state)


def _committed_positions(flow: Flow, group: str) -> Positions:
    with GroupControl(flow.source) as groups:
        committed = groups.committed_offsets([Group(group)])[group]
    if isinstance(committed, FerryError):
        raise committed
    if not committed:
        raise FerryError(
            f"The group {group} on {flow.source.alias} has committed no offset.",
            advice="Is it the group.id of MirrorMaker 1's consumer.config? Kafka forgets what a group "
            "without members has committed after offsets.retention.minutes.",
        )
    return {tp: offset.offset for tp, offset in committed.items()}


def _require_own_names(flow: Flow, pairs: Collection[Pair]) -> None:
    for pair in pairs:
        if pair.topic != pair.remote_topic:
            raise FerryError(
                f"{MIRROR_MAKER_1} keeps topic names, and {flow.name} names {pair.topic} "
                f"{pair.remote_topic} on the target.",
                advice="Set replication.policy.class to the IdentityReplicationPolicy.",
            )
