"""What is judged of remote topics and of their partitions: by the plan, the positions and the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_ferry.control import read_positions
from kafka_ferry.ledger.proofs import ends_before
from kafka_ferry.ledger.queries.copied_topics import remote_topics
from kafka_ferry.plan.topics.configs import config_key
from kafka_ferry.runs.verify.backfill_duplicates import count_duplicates
from kafka_ferry.runs.verify.source_logs import compare_with_source
from kafka_ferry.verify import PartitionRecount, partition_rows, topic_rows
from kafka_ferry.verify.backfills import backfill_rows
from kafka_ferry.verify.topics import is_lost

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_ferry.control import ClusterControl
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.model import Plan
    from kafka_ferry.runs.state.run_context import RunContext
    from kafka_ferry.runs.verify.due import Due, Written
    from kafka_ferry.runs.verify.recount import Recounted
    from kafka_ferry.verify import PartitionRow, TopicRow


_LAST_IS_GONE: Final = (
    "the last record that the ledger has there is gone, or hidden from consumers."
)


def rows_of_topics(run: RunContext, plan: Plan, target: ClusterControl, due: Due) -> list[TopicRow]:
    """What is judged of each remote topic that is due, or that the run had nothing to copy to."""
    topics, refused = target.readable_topics(due.topics.keys() | due.refused.keys())
    ids = {name: topic.topic_id for name, topic in due.topics.items()} | _idle_topics(run, plan)
    # By remote topic, the configs that the flow has set there and still manages.
    configs: dict[str, Mapping[str, str]] = {}
    if run.flow.sync_topic_configs_enabled:
        applied = run.ledger.applied().configs
        configs = {name: applied.get(config_key(topic), {}) for name, topic in topics.items()}
    return topic_rows(plan, topics, configs, ids, {**due.refused, **refused})


def rows_of_partitions(
    run: RunContext,
    plan: Plan,
    target: ClusterControl,
    due: Due,
    recounted: Recounted,
    written: Written,
) -> list[PartitionRow]:
    """What is judged of each partition, beside its ranges.

    Args:
        run: the run.
        plan: its plan.
        target: the target.
        due: what is verified.
        recounted: what was read back of it.
        written: what was found in the logs of partitions without ranges; nothing for a backfill.
    """
    if plan.options.window is not None:
        return _rows_of_backfill(run.ledger, plan, target, due, recounted)
    verified = ends_before(run.ledger, due.since, {entry.target.topic for entry in due.ranges})
    unread = {tp: PartitionRecount.of_unread(0, why) for tp, why in written.unread.items()}
    recounts = {**unread, **recounted.recounts}
    for tp in recounted.cut - written.refused:
        recounts[tp] = recounts[tp]._replace(unread=_LAST_IS_GONE)
    preserved = {range_.remote_topic for range_ in plan.ranges if range_.preserved}
    preserved |= {row.remote_topic for row in recounted.present if row.preserved}
    positions = read_positions(run.flow.target, run.flow.name)
    rows = partition_rows(
        # Positions in topics that may not be described are not shown.
        [row for row in recounted.present if row.remote_topic not in due.refused],
        # A remote topic that is lost is one fault, and its partitions are no others.
        [range_ for range_ in plan.ranges if not is_lost(range_, due.topics)],
        {tp: position.offset for tp, position in positions.items()},
        recounts,
        target.log_bounds(
            (due.topics[name] for name in preserved & due.topics.keys()),
            "read_committed",
            wait_s=run.flow.partition_wait_ms / 1000,
        ),
        verified,
    )
    return compare_with_source(run.flow, run.ledger, rows, positions, due.ranges)


def _rows_of_backfill(
    ledger: LedgerTable, plan: Plan, target: ClusterControl, due: Due, recounted: Recounted
) -> list[PartitionRow]:
    # What the target does not let be described is named where its ranges are read back.
    topics, _ = target.readable_topics({name for name, _ in remote_topics(ledger)})
    remote_ids = {topic.topic_id for topic in topics.values()}
    own_ids = remote_ids - ledger.released_topics()
    twice = count_duplicates(ledger, plan.run, due.ranges, own_ids)
    return backfill_rows(recounted.present, plan.ranges, twice)


def _idle_topics(run: RunContext, plan: Plan) -> dict[str, str]:
    """The ids of the remote topics for which the run had nothing to copy, as the ledger has them of earlier runs."""
    left_out = {it.topic for it in plan.remarks.refused if it.partition is None}
    touched = {it.remote_topic for it in plan.ranges}
    touched |= {it.remote_topic for it in plan.topics.creations}
    names = {it.remote_topic for it in plan.choices if it.topic not in left_out} - touched
    if not names:
        return {}
    released = run.ledger.released_topics()
    return {
        name: topic_id
        for name, topic_id in run.ledger.remote_ids().items()
        if name in names and topic_id and topic_id not in released
    }
