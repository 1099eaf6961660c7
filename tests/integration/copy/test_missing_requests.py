"""Brokers that say they know fewer requests than Kafka's, as others do by docs/compatibility.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.admin import DescribeUserScramCredentialsRequest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, WriteTxnMarkersRequest

from kafka_ferry.copy.target.transactional_writer import TransactionalWriter
from kafka_ferry.errors import FerryError
from kafka_ferry.model.waits import Waits
from kafka_ferry.wire import Connection
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import recreate_topic
from tests.support.records.histories import named, values
from tests.support.records.offsets import assert_same_offsets
from tests.support.runs.flows import copy_now, copy_planned, failures, plan_now, remote
from tests.support.runs.pair import Pair

from .test_old_brokers import a_topic

REDPANDA = (WriteTxnMarkersRequest, DescribeUserScramCredentialsRequest)
URSA = (AddPartitionsToTxnRequest, EndTxnRequest)
# The newest without topic ids.
BY_NAME = 12
# The newest of brokers that have no topic ids, nor say that a log was truncated.
FETCH_2_6, METADATA_2_6 = 11, 9


class Brokers:
    """What a cluster's brokers say they know, and what was sent to them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.sent: set[tuple[str, int]] = set()

    def lack(
        self, cluster: KafkaCluster, *requests: Any, fetch: int = BY_NAME, has_ids: bool = True
    ) -> None:
        """Has connections made from now on hear that these requests are unknown, and newer fetches too."""
        ports = {int(server.rpartition(":")[2]) for server in cluster.bootstrap.split(",")}
        agree, send = Connection._agree_versions, Connection.send

        def agreed(connection: Connection) -> None:
            agree(connection)
            known = connection._versions
            if connection.peer[1] in ports:
                oldest, newest = known[FetchRequest.API_KEY]
                known[FetchRequest.API_KEY] = (oldest, min(newest, fetch))
                if not has_ids:
                    known[MetadataRequest.API_KEY] = (0, METADATA_2_6)
                for request in requests:
                    known.pop(request.API_KEY, None)

        def sent(connection: Connection, request: Any, **more: Any) -> int:
            length = send(connection, request, **more)
            if connection.peer[1] in ports:
                self.sent.add((request.name, request.API_VERSION))
            return length

        self._patch.setattr(Connection, "_agree_versions", agreed)
        self._patch.setattr(Connection, "send", sent)

    @property
    def asked(self) -> set[str]:
        """The names of the requests that were sent."""
        return {name for name, _ in self.sent}


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    return Brokers(monkeypatch)


def test_without_markers_gaps_are_filled_by_transactions(pair: Pair, brokers: Brokers) -> None:
    brokers.lack(pair.backup, *REDPANDA)
    topic = a_topic(pair.primary, pair.unique("gaps"))
    # Connections are kept by alias, and those of other tests know more.
    flow = pair.flow([topic], into=pair.unique("red"), offsets="preserved")

    assert failures(copy_now(flow)) == []

    assert_same_offsets(pair.primary, topic, pair.backup, remote(flow, topic))
    assert "EndTxnRequest" in brokers.asked
    assert "WriteTxnMarkersRequest" not in brokers.asked


def test_a_filling_that_needs_markers_is_refused_by_name(pair: Pair, brokers: Brokers) -> None:
    brokers.lack(pair.backup, *REDPANDA)
    topic = a_topic(pair.primary, pair.unique("gaps"))
    flow = pair.flow([topic], into=pair.unique("red"), offsets="preserved", fill="markers")
    told = failures(copy_now(flow))
    assert told
    assert all("accepts no control records from clients" in sentence for sentence in told)
    assert all("fill: transactions" in sentence for sentence in told)


def test_a_source_without_topic_ids_in_fetches_and_transactions_is_copied(
    pair: Pair, brokers: Brokers
) -> None:
    topic = a_topic(pair.primary, pair.unique("by-name"))
    brokers.lack(pair.primary, *REDPANDA, *URSA)
    flow = pair.flow([topic], into=pair.unique("there"))

    assert failures(copy_now(flow)) == []

    pair.assert_same(flow, topic)
    assert {version for name, version in brokers.sent if name == "FetchRequest"} == {BY_NAME}


def test_a_target_without_transactions_is_refused_by_name(pair: Pair, brokers: Brokers) -> None:
    brokers.lack(pair.backup, *URSA)
    topic = a_topic(pair.primary, pair.unique("untold"))
    flow = pair.flow([topic], into=pair.unique("ursa"))
    with pytest.raises(FerryError, match="does not know the request AddPartitionsToTxn"):
        copy_now(flow)


def test_users_that_a_broker_cannot_list_are_told_and_the_rest_is_planned(
    pair: Pair, brokers: Brokers
) -> None:
    brokers.lack(pair.primary, *REDPANDA)
    topic = a_topic(pair.primary, pair.unique("users"))
    flow = pair.flow([topic], into=pair.unique("there"), sync_scram_users_enabled=True)

    plan = plan_now(flow)
    assert {it.topic for it in plan.ranges} == {topic}
    (note,) = plan.remarks.notes
    assert "too old to be asked about SCRAM users, which are not synced" in note.message


@pytest.mark.parametrize(("has_ids", "records"), [(True, 400), (False, 100)], ids=["ids", "no ids"])
def test_a_topic_recreated_in_mid_copy_is_not_taken_for_the_old_one_where_fetch_goes_by_name(
    has_ids: bool, records: int, pair: Pair, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, other = (pair.topic(it) for it in ("recreated", "other"))
    for name in (topic, other):
        for number in range(20):
            pair.produce(name, named(f"old {number}", 10))
    brokers.lack(pair.primary, fetch=BY_NAME if has_ids else FETCH_2_6, has_ids=has_ids)
    flow = pair.flow(
        [topic, other],
        into=pair.unique("there"),
        writers=1,
        fetch_max_bytes=1,
        transaction_max_bytes=1,
        partition_wait_ms=10_000 if has_ids else 2_000,
    )
    plan = plan_now(flow)
    if not has_ids:
        plan = replace(plan, ranges=tuple(replace(it, topic_id="") for it in plan.ranges))
    commit = TransactionalWriter.commit

    def recreate_then_commit(writer: TransactionalWriter, waits: Waits) -> object:
        monkeypatch.setattr(TransactionalWriter, "commit", commit)
        recreate_topic(pair.primary, topic)
        pair.produce(topic, named("new", records))
        return commit(writer, waits)

    monkeypatch.setattr(TransactionalWriter, "commit", recreate_then_commit)

    (problem,) = failures(copy_planned(flow, plan))

    assert problem.startswith(f"{topic}-0 ")
    assert "deleted and recreated" in problem
    assert not [value for value in values(pair.backup, remote(flow, topic)) if "new" in value]
    pair.assert_same(flow, other)
