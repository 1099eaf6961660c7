"""What every writer is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafka_ferry.batches import TopicLimits
from kafka_ferry.config import kafka_python_config
from kafka_ferry.copy.target.ledger_recovery import LedgerRecovery
from kafka_ferry.plan.schedule.sharding import writers_of
from kafka_ferry.retry import RETRY_S
from kafka_ferry.wire import WireCluster

if TYPE_CHECKING:
    from kafka_ferry.config import Flow

AskLimits = Callable[[WireCluster, AbstractSet[str]], Mapping[str, TopicLimits]]
"""Tells what remote topics take, by their names."""

# A transaction may also have to wait for leaders and for its coordinators; the broker aborts it only
# after this, and takes no longer time.
_TRANSACTION_SLACK_MS: Final = 50_000
_LONGEST_TRANSACTION_MS: Final = 15 * 60 * 1000
# Of which a target that allows only short transactions must leave at least so much.
_LEAST_SLACK_MS: Final = 5_000


def _defaults(_: WireCluster, topics: AbstractSet[str]) -> Mapping[str, TopicLimits]:
    return dict.fromkeys(topics, TopicLimits())


def _no_rule(_: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """What every writer is given.

    Attributes:
        alias: the target's alias.
        client: kafka-python's configuration for it.
        flow: the flow's name, ``source->target``.
        source_alias: the source's alias, which names the ledger.
        run: the run's id.
        number: the writer's number.
        assignment: the number of writers, and how partitions are assigned to them.
        since: the ledger offset from which on the run's beginning is, or that of a newer one, which may have another
            assignment; None where no run has begun.
        timeout_ms: after so long without an end the broker aborts a transaction; less where it allows less.
        least_timeout_ms: the least that a transaction of the flow's length needs.
        wait_s: how long a partition may take no records, for transient reasons, before it fails.
        recopy: whether a remote topic that was recreated is filled from each range's start.
        dead_letters: the topic for records that are set aside; "" where none are.
        takes_rejected: whether records that the target rejects are; otherwise their partition fails.
        limits_by_topic: tells what remote topics take; without it, what brokers take by default.
        rule_name: names the transform rule of a source topic; "" for none.
        recovery: the ledger, for what Kafka has left open or forgotten; None where it may not be
            asked.
    """

    alias: str
    client: Mapping[str, object]
    flow: str
    source_alias: str
    run: str
    number: int
    timeout_ms: int
    assignment: tuple[int, str] = (0, "")
    since: int | None = None
    least_timeout_ms: int = 1_000
    wait_s: float = RETRY_S
    recopy: bool = False
    dead_letters: str = ""
    takes_rejected: bool = True
    limits_by_topic: AskLimits = _defaults
    rule_name: Callable[[str], str] = _no_rule
    recovery: LedgerRecovery | None = None

    @classmethod
    def of(
        cls,
        flow: Flow,
        run: str,
        number: int,
        limits_by_topic: AskLimits = _defaults,
        *,
        since: int | None = None,
    ) -> WriterSettings:
        """The settings of the writer ``number`` of ``flow``."""
        writers = writers_of(flow)
        timeout_ms = flow.transaction_max_ms + flow.partition_wait_ms + _TRANSACTION_SLACK_MS
        return cls(
            alias=flow.target.alias,
            client=kafka_python_config(flow.target.client_properties("producer")),
            flow=flow.name,
            source_alias=flow.source.alias,
            run=run,
            number=number,
            assignment=(writers.count, writers.assignment),
            since=since,
            timeout_ms=min(timeout_ms, _LONGEST_TRANSACTION_MS),
            least_timeout_ms=flow.transaction_max_ms + _LEAST_SLACK_MS,
            wait_s=flow.partition_wait_ms / 1000,
            recopy=flow.on_target_topic_lost == "recopy",
            dead_letters=flow.dead_letter_name if flow.sets_records_aside else "",
            takes_rejected=flow.on_rejected_record == "dead-letter",
            limits_by_topic=limits_by_topic,
            rule_name=flow.rule_name,
            recovery=LedgerRecovery(flow),
        )
