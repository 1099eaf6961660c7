"""The situations in which copying cannot simply continue, as tables: what holds, which option decides.

A situation that holds is a refusal, or a note where the option's value lets the flow continue. The
tables' texts are format strings over the case, ``it``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from kafka_ferry.config import Flow
from kafka_ferry.model.cluster_state import LogBounds, LogMismatch
from kafka_ferry.model.positions import SEE_POSITIONS
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.remarks import Note, Refusal
from kafka_ferry.model.rights import how_to_grant
from kafka_ferry.model.topic_pair import Pair


@dataclass(frozen=True, slots=True)
class Place:
    """Where copying a partition would continue.

    Attributes:
        offset: the next source offset to copy.
        bounds: what the source holds.
        diverged: where the source's log parts from the one that was copied, None where it does not, -1 where it
            does and that is unknown.
        split: where a transaction begins that is cut there and has ended otherwise since, None where none has.
        remote_topic: the remote topic's name.
        preserved: whether records keep their offsets in it.
        remote_end: where the target's log ends then, None where unknown.
        moved_to: the offset that another client has committed in the flow's group, None without one.
        begins_at: where copying would begin without a position, None where the ledger has this one.
        mismatch: how the target's log contradicts the ledger, None where it does not.
        is_beyond: whether the target's log ends after the source's, although offsets are preserved.
        is_compacted: whether the source's topic or the remote one is compacted.
    """

    offset: int
    bounds: LogBounds
    diverged: int | None = None
    remote_topic: str = ""
    preserved: bool = False
    remote_end: int | None = None
    split: int | None = None
    moved_to: int | None = None
    begins_at: int | None = None
    mismatch: LogMismatch | None = None
    is_beyond: bool = False
    is_compacted: bool = False

    @property
    def lost_branch_keys(self) -> str:
        """What the records of a lost branch do to keys that the source has no newer record of."""
        if not self.is_compacted:
            return ""
        return (
            " The topic is compacted: of a key that the source does not write again, the lost record stays the newest "
            "one on the target. `ferry audit` names such keys."
        )


_Case = TypeVar("_Case", Pair, Place)


@dataclass(frozen=True, slots=True)
class Situation(Generic[_Case]):
    """One line of a table.

    Attributes:
        holds: whether a case is in this situation.
        reason: what has happened.
        advice: what to do about it.
        option: the flow's option that decides, as in its file; "" where none does.
        go_on: the option's value that lets the flow continue.
        outcome: what happens then.
        offset: where copying continues then, if not where the case says.
        if_preserved: what to do about it where offsets are preserved, and no option can help;
            "" where it makes no difference.
    """

    holds: Callable[[_Case], bool]
    reason: str
    advice: str
    option: str = ""
    go_on: str = ""
    outcome: str = ""
    offset: Callable[[_Case], int] | None = None
    if_preserved: str = ""

    def judge(
        self, flow: Flow, case: _Case, topic: str, partition: int | None = None
    ) -> Refusal | Note | None:
        """A refusal, a note where the flow's option says so, None where it does not hold."""
        if not self.holds(case):
            return None
        reason = self.reason.format(it=case, flow=flow)
        if case.preserved and self.if_preserved:
            return Refusal(topic, reason, self.if_preserved.format(it=case), partition=partition)
        if self.option and getattr(flow, self.option.replace(".", "_")) == self.go_on:
            return Note(
                topic, f"{reason} {self.outcome.format(it=case, flow=flow)}", partition=partition
            )
        advice = self.advice.format(it=case)
        if self.option:
            advice = f"{advice} Or set {self.option}: {self.go_on}."
        return Refusal(topic, reason, advice, partition=partition)


# Nothing is deleted before it is known what is lost: the command says so, and asks for --yes.
_ANEW: Final = (
    "`ferry repair --topic {it.remote_topic}` shows what is lost if the copy is given up, and gives it up with "
    "--yes; the next run then copies all that the source still has."
)

OF_TOPICS: Final[tuple[Situation[Pair], ...]] = (
    Situation(
        holds=lambda it: bool(it.refused),
        reason="{it.refused}",
        advice="The next run copies it.",
    ),
    Situation(
        holds=lambda it: it.source is None and it.remote is not None and bool(it.invisible),
        reason="the flow may no longer see the topic on the source, if it was not deleted. {it.invisible}",
        advice="If it was deleted, its copy {it.remote_topic} may be all that is left of it: leave the topic out "
        "with topics.exclude.",
    ),
    Situation(
        holds=lambda it: it.source is None and it.remote is not None and not it.invisible,
        reason="the topic was deleted on the source, or is no longer visible to the flow.",
        advice="Its copy {it.remote_topic} may be all that is left of it.",
        option="on.source.topic.deleted",
        go_on="keep",
        outcome="Its copy {it.remote_topic} stays as it is.",
    ),
    Situation(
        holds=lambda it: it.source is not None and bool(it.other_clusters),
        reason="{it.remote_topic} is a copy of a topic of another cluster than {it.source_cluster_id}, which is the "
        "source now; its brokers give topics no ids.",
        advice="Correct the source's bootstrap.servers. If this cluster has taken the other one's place, give "
        "the copy up (`ferry repair --topic {it.remote_topic}` shows what is lost by it), or mirror the topic under "
        "another name.",
    ),
    Situation(
        holds=lambda it: it.source is not None and bool(it.copy_of),
        reason="{it.remote_topic} is the copy of {it.copy_of}, by the ledger{it.copied_elsewhere}: the flow's names of "
        "remote topics have changed (topics.rename, or replication.policy.class).",
        advice="{it.advice_on_names}",
    ),
    Situation(
        holds=lambda it: (
            it.source is not None and not all(map(it.is_of_source, it.positions.values()))
        ),
        reason="the source's topic was deleted and recreated since it was last copied.",
        advice="Mirror the new topic under another name (topics.rename), which keeps the old one's copy. To copy it "
        "to this name, " + _ANEW,
        option="on.source.topic.recreated",
        go_on="append",
        outcome="The new one's records go after the old one's in {it.remote_topic}.",
        if_preserved="Preserved offsets cannot be shifted: mirror the new topic under another name (topics.rename), "
        "which keeps the old one's copy. To copy it to this name, " + _ANEW,
    ),
    Situation(
        holds=lambda it: (
            it.source is not None and not all(map(it.is_of_remote, it.positions.values()))
        ),
        reason="the target's topic was deleted since it was last copied; its history there is gone.",
        advice="Leave the topic out with topics.exclude.",
        option="on.target.topic.lost",
        go_on="recopy",
        outcome="All that the source still has is copied again, to {it.remote_topic}.",
    ),
    Situation(
        holds=lambda it: it.source is not None and it.doubtful,
        reason="{flow.source.alias} does not show what {flow.target.alias}->{flow.source.alias} has copied there: "
        "records of {it.remote_topic} itself may be among those of the topic, and would be there twice.",
        advice=how_to_grant(SEE_POSITIONS) + " Or leave the topic out with topics.exclude.",
    ),
    Situation(
        holds=lambda it: it.source is not None and bool(it.rival),
        reason="the flow {it.rival} brings the same records to {it.remote_topic} on the target, where they would "
        "be twice.",
        advice="Let one of the two leave the topic out (topics.exclude), or name its topics differently. Where the "
        "other one leaves it out, its position in {it.remote_topic} still counts for a week: docs/operations.md says "
        "how to take it away.",
    ),
    Situation(
        holds=lambda it: it.source is not None and bool(it.owner),
        reason="{it.remote_topic} on the target is copied by the flow {it.owner}, which has marked it first.",
        advice="If that flow is this one under its former name, give this one that name back (the aliases of "
        "its clusters). Otherwise let one of the two leave the topic out, or name its topics differently.",
        option="on.foreign.records",
        go_on="adopt",
        outcome="The records of {flow.source.alias} go between that flow's.",
    ),
    Situation(
        holds=lambda it: it.source is not None and it.foreign,
        reason="{it.remote_topic} on {flow.target.alias} holds records that this flow has not copied.",
        advice="If MirrorMaker has copied them, continue with `ferry takeover`, which says what differs where it "
        "cannot. Otherwise let the flow name its topics differently (replication.policy.class).",
        option="on.foreign.records",
        go_on="adopt",
        outcome="Those of {flow.source.alias} go after them, also those that are there already.",
    ),
    Situation(
        holds=lambda it: it.source is not None and bool(it.unreadable),
        reason="{it.remote_topic} on the target holds something, and whose records they are is "
        "unknown. {it.unreadable}",
        advice="Otherwise repair the topic.",
        option="on.foreign.records",
        go_on="adopt",
        outcome="The records of {flow.source.alias} go after it.",
    ),
)
"""What may have happened to a topic; the first that does not let the flow continue counts."""


OF_PARTITIONS: Final[tuple[Situation[Place], ...]] = (
    Situation(
        holds=lambda it: it.mismatch is not None and it.mismatch.is_cut,
        reason="the target's log of {it.remote_topic} {it.mismatch.problem}, and others would take their offsets.",
        advice="To copy them again, " + _ANEW,
    ),
    Situation(
        holds=lambda it: it.mismatch is not None and it.mismatch.is_replaced,
        reason="the target's log of {it.remote_topic} {it.mismatch.problem}.",
        advice="`ferry verify --all` names the ranges that are gone. To copy them again, " + _ANEW,
    ),
    Situation(
        holds=lambda it: it.mismatch is not None and it.mismatch.unknown_at >= 0,
        reason="the target's log of {it.remote_topic} {it.mismatch.problem}, and they would be copied twice.",
        advice="To copy all of it once, " + _ANEW,
    ),
    Situation(
        holds=lambda it: it.moved_to is not None,
        reason="the flow's group has the position {it.moved_to}, but by the ledger copying has reached "
        "{it.offset}: another client has committed there, or the group has lost its newest offsets (a power cut?).",
        advice="Find out which principals may write to the flow's group.",
        option="on.position.moved",
        go_on="ledger",
        outcome="Copying continues at {it.offset}.",
    ),
    Situation(
        holds=lambda it: it.begins_at is not None and it.begins_at < it.offset,
        reason="the flow's group has the position {it.offset}, of which the ledger knows nothing: "
        "offsets [{it.begins_at}, {it.offset}) would be left out.",
        advice="Did another client commit there, or was the ledger's topic deleted? To copy them, "
        + _ANEW,
    ),
    Situation(
        holds=lambda it: it.remote_end is not None and it.remote_end < it.offset,
        reason="the target's log of {it.remote_topic} ends at {it.remote_end}, before the position "
        "{it.offset}: records that were copied are gone (an unclean leader election?).",
        advice="To copy them again, " + _ANEW,
    ),
    Situation(
        holds=lambda it: it.split is not None,
        reason="the source's log was truncated at {it.diverged}, below the position {it.offset}, within a transaction "
        "that begins at {it.split}. It has ended otherwise since: the source shows its first records and the copy does "
        "not, or the other way round.",
        advice="`ferry audit` names such records. To copy all of the topic again, " + _ANEW,
    ),
    Situation(
        holds=lambda it: it.diverged is not None and 0 <= it.diverged < it.offset,
        reason="the source's log was truncated below the position {it.offset}: offsets "
        "[{it.diverged}, {it.offset}) were copied from a branch that the source has lost.",
        advice="Was there an unclean leader election? To have nothing but what the source has in their place, "
        + _ANEW,
        option="on.source.divergence",
        go_on="continue",
        outcome="The target keeps them, and copying continues at {it.diverged}.{it.lost_branch_keys}",
        offset=lambda it: it.offset if it.diverged is None else it.diverged,
        if_preserved="Preserved offsets cannot be taken back: " + _ANEW,
    ),
    Situation(
        holds=lambda it: it.diverged == -1,
        reason="the source's log and the copy are not the same up to the position {it.offset}, and where they part "
        "is unknown.",
        advice="Was there an unclean leader election, was the source restored from a backup, or did another client "
        "write to {it.remote_topic}? To copy all of the topic again, " + _ANEW,
    ),
    Situation(
        holds=lambda it: it.diverged is None and it.offset > it.bounds.end,
        reason="the source's log ends at {it.bounds.end}, before the position {it.offset}: it has "
        "lost records that were copied, and where the logs diverge is unknown.",
        advice="Was there an unclean leader election, or was isolation.level changed while "
        "transactions are open? To copy all of the topic again, " + _ANEW,
    ),
    Situation(
        holds=lambda it: it.offset < it.bounds.start,
        reason="offsets [{it.offset}, {it.bounds.start}) were deleted on the source before they "
        "were copied.",
        advice="Mirror more often, or keep the source's records longer.",
        option="on.source.truncation",
        go_on="continue",
        outcome="They are lost, and the ledger records that; copying continues at {it.bounds.start}.",
    ),
    Situation(
        # Where there is something to copy, the writer says whose the records are.
        holds=lambda it: it.is_beyond and it.offset == it.bounds.end,
        reason="the target's log of {it.remote_topic} ends at {it.remote_end}, after the position {it.offset}, "
        "although the source has nothing there: something else has been written to it.",
        advice="Find out who has WRITE on it, and revoke it. The record cannot be removed, and the source's next one "
        "needs its offset: " + _ANEW,
    ),
)
"""What may have happened to a partition that was copied before, each judged from where the previous
one lets copying continue."""


def judge_topic(flow: Flow, pair: Pair) -> Iterator[Refusal | Note]:
    """The notes and refusals for the situations that the pair is in, up to the first refusal."""
    for situation in OF_TOPICS:
        verdict = situation.judge(flow, pair, pair.topic)
        if verdict:
            yield verdict
        if isinstance(verdict, Refusal):
            return


def judge_partition(
    flow: Flow, place: Place, source: TopicPartition
) -> tuple[int, list[Refusal | Note]]:
    """The judgement of a partition, and the source offset at which copying continues."""
    verdicts: list[Refusal | Note] = []
    for situation in OF_PARTITIONS:
        verdict = situation.judge(flow, place, source.topic, source.partition)
        if verdict is None:
            continue
        verdicts.append(verdict)
        if isinstance(verdict, Refusal):
            break
        if situation.offset:
            place = replace(place, offset=situation.offset(place))
    return place.offset, verdicts
