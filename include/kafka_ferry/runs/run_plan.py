"""The plan of a run: what it would do, and whether all that it will need is there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, TypeAlias

from kafka_ferry.clock import moment_text, now_ms
from kafka_ferry.config import Flow
from kafka_ferry.config.files.load import flow_error
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger import ledger_creation, ledger_topic
from kafka_ferry.model import Creation, Plan, Refusal, RunOptions, TopicPartition
from kafka_ferry.plan import make_plan
from kafka_ferry.plan.removals import takes_away
from kafka_ferry.runs.plan.discover import discover
from kafka_ferry.runs.plan.moved_checkpoint import note_moved_checkpoint
from kafka_ferry.runs.state.run_context import RunContext

if TYPE_CHECKING:
    from kafka_ferry.spark.session import SparkSource

RetryTime: TypeAlias = Callable[[], AbstractContextManager[None]]
_FRESH_MS: Final = 2 * 60 * 1000


def plan_run(
    run: RunContext, options: RunOptions, spark: SparkSource | None, retry_time: RetryTime
) -> Plan:
    """Plan what the run is to do; changes nothing on either cluster.

    Args:
        run: the run.
        options: its options.
        spark: gives a session, by which new transform rules are checked; None to check none.
        retry_time: gives the time that the calls of a part of the plan share, as ``step_time``.

    Raises:
        ConfigError, SameCluster, ClusterUnreachable, AccessDenied: as ``Run.plan``.
    """
    flow = run.flow
    # A wrong pattern is told before any cluster is asked.
    _ = options.topic_filter
    if flow.certificates_enabled:
        from kafka_ferry.runs.publish.certify import signing_key

        # The run's last step needs it, when everything is copied.
        signing_key(flow)
    plan = _plan_by(run, options, retry_time)
    if takes_away(plan):
        # The table in the state folder is only a claim.
        with retry_time(), run.by_topic() as by_topic:
            plan = _plan_by(by_topic, options, retry_time)
    with retry_time():
        _require_brokers(flow, plan)
    _check_rules(flow, plan, spark)
    return note_moved_checkpoint(run, plan)


def is_old(plan: Plan) -> bool:
    """Whether things may be otherwise by now than a plan says."""
    return abs(now_ms() - plan.at) > _FRESH_MS


def require_current(run: RunContext, plan: Plan, shard: int | None, retry_time: RetryTime) -> None:
    """Check that a plan of now would refuse nothing that an old one is to copy: only plans look for what may be wrong.

    Args:
        run: the run.
        plan: its plan.
        shard: the shard that is to be copied; None for all of them.
        retry_time: as of ``plan_run``.

    Raises:
        FerryError: it would refuse some of it, such as where the ledger has lost its end since; or as ``plan_run``.
    """
    now = plan_run(run, plan.options, None, retry_time)
    work = {it.source for it in (*plan.of_shard(shard), *plan.pins_of_shard(shard))}
    topics = {tp.topic for tp in work}

    def concerns(it: Refusal) -> bool:
        if it.partition is None:
            return it.topic in topics
        return TopicPartition(it.topic, it.partition) in work

    refused = [it for it in now.remarks.refused if concerns(it) and it not in plan.remarks.refused]
    if refused:
        raise FerryError(
            f"{run.flow.name}, run {run.run_id}: its plan of {moment_text(plan.at)} is out of date, and nothing is "
            "copied by it. A plan of now refuses:",
            details=[str(it) for it in refused],
            advice="Clear the task plan, with the tasks after it: a new plan copies the other partitions.",
        )


def own_topics(flow: Flow) -> list[Creation]:
    """The flow's own topics on the target, as they are to be created."""
    from kafka_ferry.copy import dead_letter_creation

    topics = [ledger_creation(ledger_topic(flow.source.alias), flow.replication_factor)]
    if flow.certificates_enabled:
        from kafka_ferry.certificates import certificates_creation

        topics.append(certificates_creation(flow))
    if flow.sets_records_aside:
        topics.append(dead_letter_creation(flow.dead_letter_name, flow.replication_factor))
    return topics


def _plan_by(run: RunContext, options: RunOptions, retry_time: RetryTime) -> Plan:
    """The plan by the ledger table of ``run``."""
    flow = run.flow
    plan = _plan_of_topics(run, options, retry_time)
    if flow.sync_schemas != "none":
        from kafka_ferry.runs.sync_topics.schemas import planned_schemas

        with retry_time():
            plan = planned_schemas(run, plan)
    if flow.on_source_group_deleted == "delete":
        from kafka_ferry.runs.sync_groups.delete_offsets import planned_deletions

        with retry_time():
            plan = planned_deletions(run, plan)
    return plan


def _plan_of_topics(run: RunContext, options: RunOptions, retry_time: RetryTime) -> Plan:
    """The plan without schemas and deletions of groups' offsets."""
    if options.window:
        from kafka_ferry.runs.plan.backfill import make_backfill_plan

        with retry_time():
            return make_backfill_plan(run.flow, run.ledger, run.run_id, options)
    with retry_time():
        state = discover(run.flow, run.ledger)
    return make_plan(run.flow, state, run=run.run_id, at=now_ms(), options=options)


def _require_brokers(flow: Flow, plan: Plan) -> None:
    """Raise ``ConfigError`` where the target has too few brokers for the flow's own topics, before a first run."""
    factor = flow.replication_factor
    if plan.ledger_end or factor <= 1:
        return
    target = ClusterControl(flow.target)
    missing = target.unknown([topic.remote_topic for topic in own_topics(flow)])
    live = target.brokers() if missing else factor
    if live < factor:
        is_said = "replication_factor" in flow.model_fields_set
        by_default = "" if is_said else " by default"
        reason = (
            f"is {factor}{by_default}, and {flow.target.alias} has {live} live broker{'s' * (live > 1)}: "
            f"the flow's own {', '.join(sorted(missing))} cannot be created there"
        )
        advice = f"Set it to at most {live}, or start more brokers."
        raise flow_error(flow, "replication.factor", reason, advice)


def _check_rules(flow: Flow, plan: Plan, spark: SparkSource | None) -> None:
    """Raise ``ConfigError`` where a new rule cannot be, or a secret of one that the run needs is not there."""
    if any(flow.transform_of(range_.topic) for range_ in plan.ranges):
        from kafka_ferry.transform.secrets import look_up_secret

        for name, _ in flow.transform_secrets:
            look_up_secret(flow, name)
    new = [flow.transform_of(change.topic) for change in plan.rules]
    if any(rule and rule.function for rule in new):
        from kafka_ferry.transform import load_functions

        load_functions(flow)
    if spark and any(rule and not rule.function for rule in new):
        from kafka_ferry.spark.transforms import checked_rules

        checked_rules(spark(), flow)
