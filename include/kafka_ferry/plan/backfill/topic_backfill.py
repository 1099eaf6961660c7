"""What a backfill copies of one topic, where to, and why it may not. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kafka_ferry.config.types.values import is_topic_name
from kafka_ferry.model.plan import Creation, Growth, OffsetsChoice, Plan
from kafka_ferry.model.ranges import Backfill, Range, Settled, TopicPartition
from kafka_ferry.model.remarks import Note, Refusal
from kafka_ferry.model.run_options import Window
from kafka_ferry.model.topic_pair import Pair
from kafka_ferry.plan.backfill.deleted_offsets import deleted_offsets, judge_deleted
from kafka_ferry.plan.backfill.separate_topic import separate_topic
from kafka_ferry.plan.backfill.windows import Span, hull, whole_spans, within
from kafka_ferry.plan.schedule.sharding import writers_of
from kafka_ferry.plan.topics.configs import wanted_configs
from kafka_ferry.plan.topics.provenance import origins_beyond
from kafka_ferry.plan.topics.replica_placement import creation_of, growth_of

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.model.cluster_state import ClusterState, LogBounds, Topic

# A plan has all of them, and so has each task.
_MOST_PIECES: Final = 20_000


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """What must be known of both clusters besides ``ClusterState``, by *source* partition or by name.

    Attributes:
        firsts: the first offset whose record is not older than the window; absent where there is none.
        lasts: the first offset whose record is so much newer than the window that no older one
            is expected after it; absent where there is none.
        unread: why nothing says where the window is in other partitions.
        cut: partitions whose logs start after 0 and have no record before ``firsts`` any more: what the source
            has deleted may be of the window.
        older: of those, the offset before which all records were on the source before the window began, by the
            ledger; absent where it does not say.
        settled: what the ledger knows of the partition, in remote topics that exist.
        left_out: how many offsets it has for a reason that is no record's own, in ranges that may be of the window.
        separate: the topics for backfills that the target has, by name.
        foreign: those of them that hold records which the flow has not copied.
        mismatched: those of them whose logs contradict the ledger.
    """

    firsts: Mapping[TopicPartition, int] = field(default_factory=dict)
    lasts: Mapping[TopicPartition, int] = field(default_factory=dict)
    unread: Mapping[TopicPartition, str] = field(default_factory=dict)
    cut: frozenset[TopicPartition] = frozenset()
    older: Mapping[TopicPartition, int] = field(default_factory=dict)
    settled: Mapping[TopicPartition, Sequence[Settled]] = field(default_factory=dict)
    left_out: Mapping[TopicPartition, Mapping[str, int]] = field(default_factory=dict)
    separate: Mapping[str, Topic] = field(default_factory=dict)
    foreign: frozenset[str] = frozenset()
    mismatched: frozenset[str] = frozenset()


class TopicBackfill:
    """A backfill of one topic.

    Attributes:
        ranges: what is to be copied.
        unread: how many offsets below the flow's position are not looked at: they come after a record that is so much
            newer than the window that no older one is expected after it.
        refusals: what keeps it, or some of its partitions, from being backfilled.
    """

    def __init__(
        self,
        flow: Flow,
        state: ClusterState,
        facts: WindowFacts,
        window: Window,
        ordinary: Plan,
        choice: OffsetsChoice,
    ) -> None:
        self._flow, self._state, self._facts, self._window = flow, state, facts, window
        self._choice = choice
        self._taken = {
            *state.ledger.copied.values(),
            *(entry.remote_topic for entry in ordinary.choices),
        }
        self._pair = Pair.of(choice.topic, choice.remote_topic, state)
        self._is_separate = flow.backfill_topic == "separate"
        self._remote_topic = choice.remote_topic
        if self._is_separate:
            self._remote_topic = separate_topic(choice.remote_topic)
        self._source = state.source.topics[choice.topic]
        # Once a topic: of a function it takes the file.
        self._transform = flow.fingerprint_of(choice.topic)
        self._there = self._after = self.unread = 0
        self._ends_early = self._has_left = False
        self._of_partitions: list[Refusal | Note] = []
        planned = {
            range_.partition: range_ for range_ in ordinary.ranges if range_.topic == choice.topic
        }
        refused = {
            entry.partition for entry in ordinary.remarks.refused if entry.topic == choice.topic
        }
        self.ranges = [
            range_
            for number in range(self._source.partitions)
            if number not in refused
            for range_ in self._range(number, planned.get(number))
        ]
        # What a topic has lost is in the ledger, and so is not among the ranges.
        has_lost = self._there > 0 and self._remote_topic in facts.mismatched
        self.refusal = self._refusal() if self.ranges or has_lost else None
        self.refusals = [it for it in self._of_partitions if isinstance(it, Refusal)]
        if self.refusal:
            self.refusals = [self.refusal]

    @property
    def is_work(self) -> bool:
        """Whether anything is to be copied."""
        return bool(self.ranges) and self.refusal is None

    @property
    def creations(self) -> Iterator[Creation]:
        """The separate topic, if it is to be created."""
        return (step for step in self._separate_steps() if isinstance(step, Creation))

    @property
    def growths(self) -> Iterator[Growth]:
        """The separate topic, if it needs more partitions."""
        return (step for step in self._separate_steps() if isinstance(step, Growth))

    def _separate_steps(self) -> Iterator[Creation | Growth | Refusal | Note]:
        racks = self._state.target.racks
        if self._is_separate and self._remote is None:
            yield creation_of(self._flow, racks, self._source, self._remote_topic)
        elif self._is_separate and self._remote:
            yield from growth_of(self._flow, racks, self._source, self._remote)

    @property
    def notes(self) -> Iterator[Note]:
        """Notes on it."""
        topic = self._choice.topic
        if self.refusal:
            return
        places = dict.fromkeys((self._choice.remote_topic, self._remote_topic))
        if not self.ranges and self._there:
            yield Note(
                topic,
                "Nothing to backfill: by the ledger all of the source's records of the window that it looks at below "
                f"the flow's position were copied to {' or '.join(places)}, {self._there:,} offsets"
                f"{self._left_out_text}. What was lost there since `ferry verify --all` finds, and `ferry repair "
                "--append` copies.",
            )
        elif not (self.ranges or self._after or self._of_partitions):
            reason = "the source has no record in the window."
            if self._has_left:
                reason = (
                    "the source has no record of the window left, and by the ledger the flow has copied those that "
                    "the source has deleted."
                )
            if self._ends_early:
                reason = (
                    "the source has no record of the window where it is looked for: the first record that is not "
                    "older than the window is newer than it by more than backfill.disorder.ms."
                )
            yield Note(topic, f"Nothing to backfill: {reason}")
        if self._after:
            yield Note(
                topic,
                f"{self._after:,} offsets that may be in the window are not below the flow's "
                "position: its own runs copy them, in order.",
            )
        yield from (it for it in self._of_partitions if isinstance(it, Note))

    @property
    def _left_out_text(self) -> str:
        """What has no record there all the same; "" where all has."""
        counts = Counter[str]()
        for tp, of_partition in self._facts.left_out.items():
            counts.update(of_partition if tp.topic == self._choice.topic else {})
        text = ", ".join(f"{name} {number:,}" for name, number in sorted(counts.items()) if number)
        return (
            f"; but those that were left out, in the ranges with any of them: {text}"
            if text
            else ""
        )

    @property
    def _remote(self) -> Topic | None:
        if self._is_separate:
            return self._facts.separate.get(self._remote_topic)
        return self._pair.remote

    def _range(self, number: int, planned: Range | None) -> Iterator[Range]:
        source = TopicPartition(self._choice.topic, number)
        if unread := self._facts.unread.get(source):
            self._of_partitions.append(Refusal(source.topic, unread, "", number))
            return
        bounds = self._state.source.logs.bounds[source]
        position = self._position(number, bounds, planned)
        offsets, after = self._offsets(source, bounds, position)
        self._after += after
        known = self._facts.settled.get(source, ())
        if source in self._facts.cut:
            older = self._facts.older.get(source, 0), min(bounds.start, position)
            is_left = offsets is not None or after > 0
            if deleted := deleted_offsets(known, older, self._window):
                self._of_partitions.append(
                    judge_deleted(self._flow, source, bounds.start, deleted, is_left=is_left)
                )
            else:
                self._has_left |= not is_left
        if offsets is None:
            return
        settled = within(known, offsets, self._window)
        left = hull(settled, offsets, self._window)
        self._there += sum(end - start for start, end in whole_spans(settled, self._window))
        if left is None:
            return
        pieces = within(settled, left, self._window)
        if len(pieces) > _MOST_PIECES:
            reason = (
                f"an earlier rule has left out records of the window in more than {_MOST_PIECES:,} places, between "
                "others that were copied."
            )
            refusal = Refusal(source.topic, reason, "Choose a shorter span of time.", number)
            self._of_partitions.append(refusal)
            return
        yield self._range_of(number, left, pieces, self._epoch(number, planned))

    def _range_of(
        self, number: int, offsets: Span, pieces: tuple[Settled, ...], epoch: int
    ) -> Range:
        """The range of a partition, of whose offsets ``pieces`` are settled already."""
        target = TopicPartition(self._remote_topic, number)
        return Range(
            topic=self._choice.topic,
            partition=number,
            start=offsets[0],
            end=offsets[1],
            topic_id=self._source.topic_id,
            remote_topic=self._remote_topic,
            writer=writers_of(self._flow).of(target),
            remote_topic_id=self._remote.topic_id if self._remote else "",
            origins=origins_beyond(self._state, self._pair),
            # Records from the opposite flow lie below the position, and anywhere in its ledger.
            returned_since=min(self._state.other_flows.returned_end, 0),
            is_hidden=target in self._state.positions.hidden,
            transform=self._transform,
            backfill=Backfill(
                self._window.since_ms,
                self._window.until_ms,
                self._state.positions.ledger_end,
                pieces,
                epoch,
            ),
        )

    def _position(self, number: int, bounds: LogBounds, planned: Range | None) -> int:
        """Where the flow's next run continues, or begins."""
        if planned:
            return planned.start
        position = self._pair.position(number)
        return position.offset if position else bounds.start

    def _epoch(self, number: int, planned: Range | None) -> int:
        """The source's leader epoch before that; -1 where it is not known."""
        position = self._pair.position(number)
        if planned and (position is None or position.offset != planned.start):
            return planned.start_epoch
        return position.leader_epoch if position else -1

    def _offsets(
        self, source: TopicPartition, bounds: LogBounds, position: int
    ) -> tuple[Span | None, int]:
        """The offsets to look at, and how many of the same kind are not below ``position``."""
        first = self._facts.firsts.get(source)
        if first is None:
            return None, 0
        last = min(self._facts.lasts.get(source, bounds.end), bounds.end)
        start, end = max(first, bounds.start), min(last, position)
        self.unread += max(0, position - max(last, start))
        self._ends_early |= last <= start < bounds.end and source not in self._facts.cut
        after = max(0, last - max(start, position))
        return ((start, end) if start < end else None), after

    def _refusal(self) -> Refusal | None:
        """Why the topic cannot be backfilled as the flow says."""
        reason, advice = self._unfit_separate() if self._is_separate else self._unfit_same()
        return Refusal(self._choice.topic, reason, advice) if reason else None

    def _unfit_same(self) -> tuple[str, str]:
        advice = "Set backfill.topic: separate."
        if self._choice.preserved:
            return (
                f"{self._remote_topic} keeps the source's offsets: older records cannot be added "
                "after its end.",
                advice,
            )
        policy = wanted_configs(self._flow, self._source).get("cleanup.policy", "")
        if self._remote.is_compacted if self._remote else "compact" in policy:
            return (
                f"{self._remote_topic} is compacted: an older record after a newer one of its "
                "key would replace it.",
                advice,
            )
        return "", ""

    def _unfit_separate(self) -> tuple[str, str]:
        name = self._remote_topic
        if not is_topic_name(name):
            return (
                f"{name} is longer than Kafka allows for a topic name.",
                "Name it in topics.rename.",
            )
        if name in self._taken:
            return (
                f"{name} is the remote topic of another topic of the flow.",
                "Set backfill.topic: same, or rename that one in topics.rename.",
            )
        if name in self._facts.foreign | self._facts.mismatched:
            return self._strange_records(name)
        if self._remote and self._remote.stamps_append_time:
            return (
                f"{name} on the target has message.timestamp.type=LogAppendTime, which would "
                "replace the records' timestamps.",
                "Set it to CreateTime.",
            )
        for step in self._separate_steps():
            if isinstance(step, Refusal):
                return step.reason, step.advice
        return "", ""

    def _strange_records(self, name: str) -> tuple[str, str]:
        if name in self._facts.foreign:
            return (
                f"{name} on the target holds records that the flow has not copied.",
                "Move them elsewhere, or set backfill.topic: same.",
            )
        return (
            f"{name} on the target has lost records that the ledger has, or has some that the ledger has lost.",
            "Give it up with `ferry repair`, or set backfill.topic: same.",
        )
