"""Makes a plan from the state of both clusters. Pure: asks no cluster and changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from kafka_ferry.config import Flow
from kafka_ferry.config.doubts import doubts
from kafka_ferry.model.changes import (
    Acl,
    AclChange,
    ConfigChange,
    Drift,
    Misplacement,
    QuotaChange,
    QuotaEnd,
    Retirement,
    SetConfigs,
    UserChange,
)
from kafka_ferry.model.cluster_state import HANGING, ClusterState, Topic
from kafka_ferry.model.groups import unused_patterns_notes
from kafka_ferry.model.plan import (
    AccessChanges,
    Creation,
    Growth,
    OffsetsChoice,
    Plan,
    TopicChanges,
)
from kafka_ferry.model.ranges import Range
from kafka_ferry.model.remarks import Note, PlanRemarks, Refusal, Skipped
from kafka_ferry.model.removals import Removals
from kafka_ferry.model.run_options import ORDINARY, RunOptions
from kafka_ferry.model.topic_pair import Pair
from kafka_ferry.plan.access.acls import advised_acls
from kafka_ferry.plan.access.steps import access_steps
from kafka_ferry.plan.offsets.mode import choose_offsets, with_costs
from kafka_ferry.plan.offsets.start_offsets import (
    refused_start,
)
from kafka_ferry.plan.partition_steps import partition_steps
from kafka_ferry.plan.removals import excesses_of, gate_removals, why_emptied
from kafka_ferry.plan.retention import retention_notes
from kafka_ferry.plan.schedule.estimates import estimates
from kafka_ferry.plan.schedule.priority import with_expiries
from kafka_ferry.plan.schedule.retention_risks import risks
from kafka_ferry.plan.schedule.sharding import shards_of
from kafka_ferry.plan.topics.configs import no_tiers, sync_configs
from kafka_ferry.plan.topics.missing import missing_topics
from kafka_ferry.plan.topics.refusals import judge_topic
from kafka_ferry.plan.topics.replica_placement import creation_of, growth_of, misplacement_of
from kafka_ferry.plan.topics.replication_policy import policy_of
from kafka_ferry.plan.topics.retire import retire
from kafka_ferry.plan.topics.rules import idle_rule_changes, rule_changes
from kafka_ferry.plan.topics.subset import access_of, narrow
from kafka_ferry.plan.topics.topic_filter import select_topics, selection_of
from kafka_ferry.plan.topics.unused_options import unused_options, unused_registries

# Transactions of applications that run well are always open somewhere.
_SHORT_MS: Final = 3_000

_Step = (
    Range
    | Creation
    | Growth
    | Skipped
    | Refusal
    | Note
    | OffsetsChoice
    | ConfigChange
    | Drift
    | Misplacement
    | SetConfigs
    | Retirement
    | AclChange
    | Acl
    | QuotaChange
    | QuotaEnd
    | UserChange
)
_Kind = TypeVar("_Kind")


def make_plan(
    flow: Flow, state: ClusterState, *, run: str, at: int, options: RunOptions = ORDINARY
) -> Plan:
    """Plan a run of ``flow``.

    Args:
        flow: the flow.
        state: the state of both clusters.
        run: the run's id.
        at: now, in milliseconds since 1970.
        options: the run's options.

    Raises:
        ConfigError: a pattern of ``options.topics`` is not valid.
        FerryError: no topic of the flow matches them.
    """
    steps = list(_steps(flow, state, at, options))
    chosen = [step for step in steps if isinstance(step, OffsetsChoice)]
    access = access_steps(flow, state, chosen)
    steps += access_of(chosen, access) if options.topics else access
    steps = gate_removals(flow, state, steps)
    ranges = with_expiries(flow, state.source, _all_of(steps, Range), at)
    choices = _all_of(steps, OffsetsChoice)
    copied = [choice.topic for choice in choices]
    steps += idle_rule_changes(flow, copied, ranges, state.ledger.rules)
    sizes = tuple(estimates(state.source.logs, ranges))
    return replace(
        empty_plan(flow, state, run=run, at=at, options=options),
        ranges=ranges,
        shards=shards_of(flow, ranges, sizes),
        estimates=sizes,
        choices=choices,
        rules=tuple(rule_changes(flow, ranges, state.ledger.rules)),
        heartbeats=_heartbeats(flow, ranges),
        topics=_topic_changes(steps),
        access=AccessChanges(
            acl_changes=_all_of(steps, AclChange),
            relied_on=_all_of(steps, Acl),
            quota_changes=_all_of(steps, QuotaChange),
            ended_quotas=_all_of(steps, QuotaEnd),
            user_changes=_all_of(steps, UserChange),
            advised_acls=tuple(advised_acls(flow, choices)),
        ),
        removals=Removals(
            excesses=excesses_of(flow, state, steps, at), emptied=why_emptied(flow, state)
        ),
        remarks=replace(
            _remarks(steps), risks=tuple(risks(flow, state.source, choices, ranges, at))
        ),
    )


def empty_plan(flow: Flow, state: ClusterState, *, run: str, at: int, options: RunOptions) -> Plan:
    """A plan to do nothing; arguments as of ``make_plan``."""
    return Plan(
        flow=flow.name,
        run=run,
        at=at,
        source_cluster_id=state.source.cluster_id,
        target_cluster_id=state.target.cluster_id,
        ledger_end=state.positions.ledger_end,
        file=flow.short_file,
        isolation_level=flow.isolation_level,
        options=options,
    )


def _heartbeats(flow: Flow, ranges: Iterable[Range]) -> tuple[str, ...]:
    policy = policy_of(flow)
    return tuple(sorted(filter(policy.is_heartbeats_topic, {range_.topic for range_ in ranges})))


def _all_of(steps: Iterable[_Step], kind: type[_Kind]) -> tuple[_Kind, ...]:
    return tuple(step for step in steps if isinstance(step, kind))


def _remarks(steps: Collection[_Step]) -> PlanRemarks:
    return PlanRemarks(
        skipped=_all_of(steps, Skipped),
        refused=_all_of(steps, Refusal),
        notes=_all_of(steps, Note),
    )


def _topic_changes(steps: Collection[_Step]) -> TopicChanges:
    return TopicChanges(
        creations=_all_of(steps, Creation),
        growths=_all_of(steps, Growth),
        config_changes=_all_of(steps, ConfigChange),
        set_configs=_all_of(steps, SetConfigs),
        drifts=_all_of(steps, Drift),
        misplacements=_all_of(steps, Misplacement),
        retirements=_all_of(steps, Retirement),
    )


def _steps(flow: Flow, state: ClusterState, at: int, options: RunOptions) -> Iterator[_Step]:
    """Collects the plan's content, topic by topic."""
    yield from (Note("", sentence) for sentence in state.unknown)
    if state.source.groups is not None:
        sentences = unused_patterns_notes(flow.source.alias, state.source.groups, flow.groups)
        yield from (Note("", sentence) for sentence in sentences)
    if state.target.untiered:
        yield Note("", no_tiers(flow.target.alias))
    selection = selection_of(flow, state)
    source = state.source
    missing = missing_topics(flow, source.names, state.ledger.copied, selection, source.invisible)
    wanted = options.topic_filter
    yield from (item for item in missing if wanted is None or wanted.matches(item.topic))
    astray = {
        skip.topic: refusal
        for skip in selection.skipped
        if (refusal := lost_by_origin(flow, state.ledger.copied, skip))
    }
    yield from unused_options(flow, selection, astray)
    yield from unused_registries(flow)
    yield from (
        Note("", f"{item.key}: {item.reason}. {item.advice}".rstrip()) for item in doubts(flow)
    )
    if options.topics:
        selection, note = narrow(flow, selection, options)
        yield note
    for skip in selection.skipped:
        yield astray.get(skip.topic, skip)
    yield from selection.refused
    for name, remote_name in selection.names.items():
        pair = Pair.of(name, remote_name, state)
        if pair.refused:
            yield from judge_topic(flow, pair)
        elif pair.source:
            yield from _topic(flow, state, pair, pair.source, at)
        else:
            yield Skipped(name, "it was deleted while the run was planned")
    if options.topics:
        return
    if flow.on_source_topic_deleted == "retire":
        yield from retire(flow, state, at)
    else:
        yield from _judge_gone_topics(flow, state)


def lost_by_origin(flow: Flow, copied: Collection[str], skipped: Skipped) -> Refusal | None:
    """Topics left out because of their origin that were copied before: refused, since a skip goes unnoticed."""
    is_named, _ = select_topics(flow, [skipped.topic])
    if not is_named or skipped.topic not in copied:
        return None
    return Refusal(
        skipped.topic,
        f"{skipped.reason}, and this flow has copied it before.",
        f"If they were failed back, or flow both ways, set on.returned.records: leave-out. Else find out which flow "
        f"copies to it on {flow.source.alias}, or exclude it with topics.exclude.",
    )


def _judge_gone_topics(flow: Flow, state: ClusterState) -> Iterator[_Step]:
    """What the flow does about topics that are no longer on the source."""
    gone, _ = select_topics(flow, state.ledger.copied.keys() - state.source.names)
    for name in gone:
        yield from judge_topic(flow, Pair.of(name, state.ledger.copied[name], state))


def _topic(flow: Flow, state: ClusterState, pair: Pair, topic: Topic, at: int) -> Iterator[_Step]:
    if refusal := _unfaithful(flow, pair) or refused_start(flow, pair, state.starts):
        yield refusal
        return
    choice = choose_offsets(flow, pair, state)
    if isinstance(choice, Refusal):
        yield choice
        return
    pair = replace(pair, preserved=choice.preserved)
    verdicts = list(judge_topic(flow, pair))
    yield from verdicts
    if any(isinstance(verdict, Refusal) for verdict in verdicts):
        return
    earlier = state.ledger.copied.get(topic.name, pair.remote_topic)
    if earlier != pair.remote_topic:
        yield Note(
            topic.name,
            f"it goes to {pair.remote_topic} from now on. Its copy {earlier} stays as it is, and gets nothing more: "
            f"who reads it has to read {pair.remote_topic}.",
        )
    racks = state.target.racks
    created = None
    if not pair.remote:
        created = creation_of(flow, racks, topic, pair.remote_topic, untiered=pair.untiered)
    if isinstance(created, Refusal):
        yield created
        return
    choice = with_costs(flow, pair, state, choice)
    yield choice
    if isinstance(choice, Refusal):
        return
    pair = replace(pair, preserved=choice.preserved)
    steps = [created] if created else list(_steps_of_existing(flow, racks, pair, topic))
    yield from steps
    changes = list(sync_configs(flow, pair, state.ledger.applied))
    yield from changes
    yield from retention_notes(flow, pair, changes)
    unplaced = {step.partition for step in steps if isinstance(step, Refusal)}
    numbers = [number for number in range(topic.partitions) if number not in unplaced]
    yield from _refuse_unlisted(flow, pair, topic)
    yield from partition_steps(flow, state, pair, topic, numbers, at)
    yield from _open_transaction_notes(state, topic, at)


def _open_transaction_notes(state: ClusterState, topic: Topic, at: int) -> Iterator[Note]:
    """What is said of the topic's oldest open transaction, unless it has only just begun."""
    of_topic = [
        (held.since, tp.partition, held)
        for tp, held in state.source.logs.held_back.items()
        if tp.topic == topic.name and at - held.since >= _SHORT_MS
    ]
    if of_topic:
        _, partition, held = min(of_topic)
        yield Note(topic.name, f"{held.text(at)} {HANGING}", partition)


def _steps_of_existing(
    flow: Flow, racks: Mapping[int, str], pair: Pair, topic: Topic
) -> Iterator[_Step]:
    """What is done, and said, about the partitions of a remote topic that exists, and their replicas."""
    if pair.remote is None:
        return
    yield from growth_of(flow, racks, topic, pair.remote)
    if not pair.unlisted and pair.remote.partitions > flow.partitions_of(
        topic.name, topic.partitions
    ):
        yield Note(
            topic.name,
            f"{pair.remote_topic} has {pair.remote.partitions} partitions, the source's topic has "
            f"{topic.partitions}: the others stay empty, and producers that choose partitions by "
            "key choose different ones on the target.",
        )
    if misplacement := misplacement_of(flow, racks, pair):
        yield misplacement


def _refuse_unlisted(flow: Flow, pair: Pair, topic: Topic) -> Iterator[Refusal]:
    """What is said of the partitions that were copied, and that the source does not list."""
    for number in pair.unlisted:
        yield Refusal(
            topic.name,
            f"{flow.source.alias} lists {topic.partitions} partitions of the topic, and this one was copied from it: "
            "Kafka takes no partition away.",
            f"Is a broker of {flow.source.alias} behind its controller? Compare what each one lists, and run again.",
            partition=number,
        )


def _unfaithful(flow: Flow, pair: Pair) -> Refusal | None:
    """Why the remote topic cannot be an exact copy, whatever the flow's options say."""
    if pair.released or (pair.leftover and flow.on_target_topic_lost != "recopy"):
        what = (
            "and still exists"
            if pair.released
            else "and the flow's group still has positions in it"
        )
        return Refusal(
            pair.topic,
            f"{pair.remote_topic} on the target was given up, {what}.",
            f"Run `ferry repair --topic {pair.remote_topic} --yes` again, which deletes that too.",
        )
    if pair.mark and pair.mark.given_back:
        return Refusal(
            pair.topic,
            f"{pair.remote_topic} was given to MirrorMaker 2, which may have copied to it since.",
            "Take it over first: `ferry takeover --from mm2`.",
        )
    if pair.mixed:
        source, target = flow.source.alias, flow.target.alias
        return Refusal(
            pair.topic,
            f"MirrorMaker 2 has copied records of {target} to {pair.topic} on {source}, or may have since it was given "
            f"to it, and the flow {target}->{source} has not taken it over: they would be copied back.",
            f"Take it over first, with the file of {target}->{source}: `ferry takeover --from mm2`.",
        )
    if pair.remote and pair.remote.stamps_append_time:
        return Refusal(
            pair.topic,
            f"{pair.remote_topic} on the target has message.timestamp.type=LogAppendTime, "
            "which would replace the records' timestamps.",
            "Set it to CreateTime.",
        )
    return None
