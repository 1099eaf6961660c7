"""Refuses a second file of a flow, which would continue with the first one's positions, ledger and history; and a plan
that the flow's file does not cover any more. Says which copies a changed file leaves behind."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from kafka_ferry.errors import ConfigError
from kafka_ferry.ledger.queries.run_starts import last_run
from kafka_ferry.model.removals import first_of
from kafka_ferry.plan.backfill.separate_topic import separate_topic
from kafka_ferry.plan.topics.replication_policy import policy_of
from kafka_ferry.plan.topics.topic_filter import select_topics

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.model import Plan

_SHOWN: Final = 10
_PLAN_AGAIN: Final = (
    "Plan the run again: clear plan and all that follows it in Airflow, or start a new run."
)


def selection_of(flow: Flow) -> str:
    """Which topics the flow selects, and their names on the target."""
    selection = {
        "topics": flow.topics,
        "topics.exclude": flow.topics_exclude,
        "topics.rename": dict(flow.topics_rename),
        "replication.policy.class": flow.replication_policy_class,
    }
    return json.dumps(selection, sort_keys=True)


def is_moved(file: str, ledger: LedgerTable) -> bool:
    """Whether the flow's last run used another file.

    Args:
        file: this one, as ``Flow.short_file`` has it.
        ledger: the flow's ledger, projected.
    """
    last = last_run(ledger)
    return last is not None and last.file not in ("", file)


def require_one_file(flow: Flow, ledger: LedgerTable) -> None:
    """Does nothing if the flow's last run used this file, or one that selects the same topics.

    So a file that was moved is run once unchanged, and may be changed afterwards.

    Raises:
        ConfigError: it used another file, which selects other topics.
    """
    if not is_moved(flow.short_file, ledger):
        return
    last = last_run(ledger)
    if last and last.topics != selection_of(flow):
        raise ConfigError(
            flow.file,
            "source.alias",
            f"{flow.name} was run from {last.file} with other topics, by the run {last.run}",
            advice="Two files of one flow would share its positions and its ledger: give one of them "
            "another alias. If this file was moved, run it once with the topics that it had.",
        )


def left_behind(flow: Flow, ledger: LedgerTable, names: Collection[str]) -> Iterator[str]:
    """A sentence about copies whose topics the flow's file leaves out by now, until a run has begun with it.

    Args:
        flow: the flow.
        ledger: its ledger, projected.
        names: the source's topics.
    """
    last = last_run(ledger)
    if last is None or last.topics in ("", selection_of(flow)):
        return
    copied = {topic: name for topic, name in ledger.topics().items() if topic in names}
    selected, _ = select_topics(flow, copied)
    if copies := [name for topic, name in sorted(copied.items()) if topic not in selected]:
        yield (
            f"This file leaves out what was copied before to {first_of(copies, _SHOWN)}: what is there stays as it is, "
            "and gets nothing more."
        )


def require_same_selection(flow: Flow, plan: Plan) -> None:
    """Check that a flow still selects the topics of a plan, and copies them to topics of the same names.

    A task of an old run may be repeated at any time.

    Raises:
        ConfigError: its file leaves one of them out by now, or names its copy otherwise; or as ``policy_of``.
    """
    copies = {(it.topic, it.remote_topic): it.backfill for it in (*plan.ranges, *plan.pins)}
    _, skipped = select_topics(flow, {topic for topic, _ in copies})
    for it in skipped[:1]:
        raise ConfigError(
            flow.file,
            "topics",
            f"leaves out {it.topic} ({it.reason}), which the run {plan.run} was to copy when it was planned.",
            advice=_PLAN_AGAIN,
        )
    policy = policy_of(flow)
    for (topic, planned), backfill in sorted(copies.items(), key=itemgetter(0)):
        now = policy.remote_topic(topic)
        if planned != now and not (backfill and planned == separate_topic(now)):
            # The groups would follow what was copied last, and the certificate would name the file's rules.
            raise ConfigError(
                flow.file,
                "topics.rename" if topic in flow.topics_rename else "replication.policy.class",
                f"says that {topic} goes to {now}, and the run {plan.run} was to copy it to {planned} when it was "
                "planned.",
                advice=_PLAN_AGAIN,
            )
