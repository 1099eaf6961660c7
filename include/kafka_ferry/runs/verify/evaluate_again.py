"""Which ranges' transform rules a run evaluates again, and what comes of it.

A job of Spark costs more than a few thousand records, so a run evaluates a sample: the first few ranges of an order
that the run's id shuffles, from every topic one before any has two, and of each range a stretch at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import xxhash

from kafka_ferry.batches import Reason
from kafka_ferry.model import Range
from kafka_ferry.schemas.ids import stored_schemas
from kafka_ferry.verify.rows import RuleEvaluation
from kafka_ferry.verify.transforms.rule_evaluation import RangeToEvaluate

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import CopiedRange, LedgerRange, RangeKey
    from kafka_ferry.model import Plan, Topic
    from kafka_ferry.runs.state.run_context import RunContext
    from kafka_ferry.runs.state.stored_recounts import StoredRecounts
    from kafka_ferry.runs.verify.due import Due
    from kafka_ferry.spark.session import SparkSource

MOST_OFFSETS: Final = 10_000
"""The most offsets of a range that are evaluated, unless everything is."""

# Their offsets have no record on the target whatever the rule gives for them.
_NOT_THE_RULES: Final = (
    Reason.DEAD_LETTERED,
    Reason.RETURNED,
    Reason.OUTSIDE_WINDOW,
    Reason.COPIED_BEFORE,
)
_Evaluated = dict["RangeKey", RuleEvaluation]


def ranges_to_evaluate(
    flow: Flow, run: str, plan: Plan, ranges: Iterable[LedgerRange], topics: Mapping[str, Topic]
) -> list[LedgerRange]:
    """The run's ranges whose rule it evaluates again, by ``verify.transforms``.

    Only those are chosen that were copied by the rule and into the topic that there are now.

    Args:
        flow: the flow.
        run: the run's id.
        plan: its plan.
        ranges: what it verifies.
        topics: the remote topics that exist, by name.
    """
    if flow.verify_transforms == 0 or not flow.transform:
        return []
    changed = [entry for entry in ranges if entry.copied.transform and entry.copied.digest]
    rules = {
        topic: flow.fingerprint_of(topic)
        for topic in {changed_range.copied.topic for changed_range in changed}
    }
    schema_ids = {range_.topic: range_.schema_ids for range_ in plan.ranges}

    def is_as_now(copied: CopiedRange) -> bool:
        existing = topics.get(copied.remote_topic)
        ids = schema_ids.get(copied.topic, copied.schema_ids)
        return (
            existing is not None
            and copied.remote_topic_id in ("", existing.topic_id)
            and (copied.transform, copied.schema_ids) == (rules[copied.topic], ids)
        )

    candidates = [entry for entry in changed if is_as_now(entry.copied)]
    if flow.verify_transforms == "all":
        return candidates
    candidates.sort(key=lambda entry: _shuffle_key(run, entry))
    of_topic = Counter[str]()
    turns = []
    for entry in candidates:
        turns.append(of_topic[entry.copied.topic])
        of_topic[entry.copied.topic] += 1
    order = sorted(range(len(candidates)), key=turns.__getitem__)
    return [candidates[at] for at in order[: flow.verify_transforms]]


def evaluate_due(
    spark: SparkSource, run: RunContext, plan: Plan, due: Due, stored: StoredRecounts | None
) -> _Evaluated:
    """By range that is due, what came of evaluating its rule again: in the step ``mirror``, or else now.

    Args and errors as of ``evaluate_chosen``, and:
        stored: what the step ``mirror`` has stored; None where that is not believed.
    """
    known = stored.evaluations() if stored else {}
    return known | evaluate_chosen(spark, run, left_to_evaluate(run, plan, due, known))


def left_to_evaluate(
    run: RunContext, plan: Plan, due: Due, known: Container[RangeKey]
) -> list[LedgerRange]:
    """The ranges whose rules are still to be evaluated again: a sample is not taken twice."""
    if run.flow.verify_transforms != "all" and any(range_.key in known for range_ in due.ranges):
        return []
    chosen = ranges_to_evaluate(run.flow, run.run_id, plan, due.ranges, due.topics)
    return [entry for entry in chosen if entry.key not in known]


def evaluate_chosen(
    spark: SparkSource, run: RunContext, chosen: Sequence[LedgerRange]
) -> _Evaluated:
    """What comes of evaluating the rules of ranges again.

    Args:
        spark: gives the session; called only if there are any.
        run: the run.
        chosen: the ranges.

    Raises:
        ConfigError, SparkFailed: as ``spark.transforms.evaluate_again``.
    """
    if not chosen:
        return {}
    from kafka_ferry.spark.transforms.evaluate_again import evaluate_all  # noqa: PLC0415  (PySpark)

    flow = run.flow
    schemas = stored_schemas(run.state) if flow.sync_schemas == "translate-ids" else None
    is_whole = flow.verify_transforms == "all"
    to_evaluate = [range_to_evaluate(flow, run.run_id, entry, whole=is_whole) for entry in chosen]
    return evaluate_all(spark(), flow, to_evaluate, schemas)


def range_to_evaluate(
    flow: Flow, run: str, entry: LedgerRange, *, whole: bool = False
) -> RangeToEvaluate:
    """What of a ledger's range is evaluated again: all of it, or a stretch that the run's id chooses."""
    copied = entry.copied
    start, end = copied.start, copied.end
    if not whole and end - start > MOST_OFFSETS:
        start += _shuffle_key(run, entry) % (end - start - MOST_OFFSETS + 1)
        end = start + MOST_OFFSETS
    return RangeToEvaluate(
        entry.key,
        Range(
            topic=copied.topic,
            partition=copied.partition,
            start=start,
            end=end,
            topic_id=copied.topic_id,
            remote_topic=copied.remote_topic,
            writer=0,
            transform=copied.transform,
            schema_ids=copied.schema_ids,
        ),
        tuple(part for segment in copied.segments if (part := segment.within(start, end))),
        copied.letters,
        sum(copied.reasons.get(reason, 0) for reason in _NOT_THE_RULES)
        - sum(segment.records for segment in copied.letters),
        f"{flow.rule_name(copied.topic)} for {copied.topic}-{copied.partition}",
    )


def _shuffle_key(run: str, entry: LedgerRange) -> int:
    return xxhash.xxh3_64_intdigest(f"{run} {entry.key}".encode())
