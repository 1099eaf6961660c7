"""Answers about groups: each group and partition has its own, and silence is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin.groups import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from kafka_ferry.errors import AccessDenied, BrokerError, ClusterUnreachable, FerryError
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.any_broker import TooOld
from kafka_ferry.wire.groups.coordinators import ask_coordinators, pipeline
from kafka_ferry.wire.groups.groups import describe_groups, list_groups
from kafka_ferry.wire.groups.offsets import commit_offsets, delete_offsets, fetch_offsets
from kafka_ferry.wire.groups.share_groups import (
    alter_start_offsets,
    delete_start_offsets,
    fetch_start_offsets,
)
from tests.unit.wire.group_answers import (
    ALTERED,
    COMMITTED,
    COORDINATOR,
    DESCRIBED,
    FETCHED,
    FORGOTTEN,
    GROUP,
    LISTED,
    OFFSETS,
    PLACE,
    SPOKEN,
    STARTS,
    STARTS_DELETED,
    failing,
    truth,
)
from tests.unit.wire.scripted import (
    HOST,
    Kind,
    ScriptedBroker,
    mutated,
    mutations,
    named,
    reach_only,
    sample,
    speaking,
)

Call = Callable[[WireCluster], Any]
READING: list[tuple[Kind, Call]] = [
    (DESCRIBED, lambda cluster: describe_groups(cluster, [GROUP])),
    (FETCHED, lambda cluster: fetch_offsets(cluster, [GROUP])),
    (STARTS, lambda cluster: fetch_start_offsets(cluster, [GROUP])),
]
CHANGING: list[tuple[Kind, Call]] = [
    (COMMITTED, lambda cluster: commit_offsets(cluster, OFFSETS)),
    (FORGOTTEN, lambda cluster: delete_offsets(cluster, OFFSETS)),
    (ALTERED, lambda cluster: alter_start_offsets(cluster, OFFSETS)),
    (STARTS_DELETED, lambda cluster: delete_start_offsets(cluster, OFFSETS)),
]
# Where the brokers of these tests are.
PLACES: set[tuple[str, int]] = set()
CALLS = [(LISTED, list_groups), *READING, *CHANGING]


@pytest.fixture(scope="module")
def broker() -> Iterator[ScriptedBroker]:
    newest = {kind.request.API_KEY: kind.version for kind in SPOKEN}
    with speaking(newest) as broker, pytest.MonkeyPatch.context() as patch:
        PLACES.add((HOST, broker.port))
        reach_only(PLACES, patch)
        yield broker


def calling(broker: ScriptedBroker, call: Call, said: Mapping[Kind, bytes]) -> Any:
    """What ``call`` gives while the broker says the truth but for ``said``."""
    broker.drop()
    broker.speak({kind: truth(broker, kind) for kind in SPOKEN} | dict(said))
    with cluster_of(broker) as cluster:
        return call(cluster)


def cluster_of(broker: ScriptedBroker) -> WireCluster:
    settings = {"bootstrap_servers": [f"{HOST}:{broker.port}"], "request_timeout_ms": 2000}
    return WireCluster("backup", settings)


def test_the_truth_is_understood(broker: ScriptedBroker) -> None:
    found = [calling(broker, call, {}) for _, call in CALLS]

    offsets = {GROUP: {PLACE: Committed(1, 1, "orders")}}
    starts = {GROUP: {PLACE: Committed(1, 1)}}
    described = {GROUP: Group(GROUP, "classic", "orders", "orders")}
    listed = [Group(GROUP, "share", "orders", "orders")]
    assert found == [listed, described, offsets, starts, {}, {}, {}, {}]


@given(st.sampled_from([*CALLS, (COORDINATOR, CALLS[2][1])]), mutations())
def test_no_answer_is_another_error_or_a_hang(
    broker: ScriptedBroker, asked: tuple[Kind, Call], changes: list[tuple[str, float, bytes]]
) -> None:
    kind, call = asked
    began = time.monotonic()
    try:
        calling(broker, call, {kind: mutated(truth(broker, kind), changes)})
    except FerryError as error:
        assert error.message
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(("kind", "call"), READING, ids=named)
def test_a_group_that_is_not_spoken_of_has_no_answer(
    broker: ScriptedBroker, kind: Kind, call: Call
) -> None:
    silent = sample(kind.response[None], kind.version, groups=[])
    answers = calling(broker, call, {kind: silent.encode(version=kind.version)})
    assert isinstance(answers[GROUP], ClusterUnreachable)
    assert "did not answer for the group orders" in answers[GROUP].message


@pytest.mark.parametrize(("kind", "call"), [*READING, *CHANGING], ids=named)
def test_a_broker_that_finds_other_groups_has_them_neither_read_nor_changed(
    broker: ScriptedBroker, kind: Kind, call: Call
) -> None:
    here = {"node_id": 1, "host": HOST, "port": broker.port}
    entry = COORDINATOR.response[None].Coordinator
    found = [sample(entry, 4, key=key, **here) for key in (GROUP, "payments")]
    said = sample(COORDINATOR.response[None], 4, coordinators=found).encode(version=4)
    assert calling(broker, call, {COORDINATOR: said}) == calling(broker, call, {})


def test_a_coordinator_has_no_say_about_the_groups_of_another_one(broker: ScriptedBroker) -> None:
    groups = [GROUP, "payments"]
    entry = COORDINATOR.response[None].Coordinator
    found = [
        sample(entry, 4, key=key, node_id=node, host=HOST, port=broker.port)
        for node, key in enumerate(groups, 1)
    ]
    said = sample(COORDINATOR.response[None], 4, coordinators=found).encode(version=4)

    def all_of_them(_: object, asked: list[str]) -> list[tuple[str, bool]]:
        return [(group, group in asked) for group in groups]

    answers = calling(
        broker, lambda it: ask_coordinators(it, groups, all_of_them), {COORDINATOR: said}
    )
    assert answers == dict.fromkeys(groups, True)


@pytest.mark.parametrize(("kind", "call"), CHANGING, ids=named)
def test_a_partition_that_is_not_spoken_of_is_not_done(
    broker: ScriptedBroker, kind: Kind, call: Call
) -> None:
    field = "topics" if kind in (COMMITTED, FORGOTTEN) else "responses"
    silent = sample(kind.response[None], kind.version, **{field: []})
    refused = calling(broker, call, {kind: silent.encode(version=kind.version)})
    assert isinstance(refused[GROUP][PLACE], ClusterUnreachable)
    assert "did not answer for orders-1 of the group orders" in refused[GROUP][PLACE].message


@pytest.mark.parametrize(("kind", "call"), READING, ids=named)
@pytest.mark.parametrize(("code", "transient"), [(16, True), (15, True), (24, False)])
def test_an_error_stands_in_the_place_of_a_groups_answer(
    broker: ScriptedBroker, kind: Kind, call: Call, code: int, transient: bool
) -> None:
    error = calling(broker, call, {kind: failing(kind, code)})[GROUP]
    assert isinstance(error, BrokerError)
    assert (error.code, error.transient) == (code, transient)
    assert "orders" in error.message


@pytest.mark.parametrize(("kind", "call"), CHANGING, ids=named)
@pytest.mark.parametrize(
    ("code", "transient", "advice"),
    [
        (14, True, ""),
        (16, True, ""),
        # Otherwise each run would wait a minute for a topic that was deleted.
        (3, False, "The topic does not exist"),
        (25, False, "members"),
        (12, False, "offset.metadata.max.bytes"),
    ],
)
def test_an_error_stands_in_the_place_of_a_partitions_answer(
    broker: ScriptedBroker, kind: Kind, call: Call, code: int, transient: bool, advice: str
) -> None:
    error = calling(broker, call, {kind: failing(kind, code)})[GROUP][PLACE]
    assert isinstance(error, BrokerError)
    assert (error.code, error.transient) == (code, transient)
    assert advice in error.advice


def test_a_group_whose_coordinator_may_not_be_asked_for_is_denied(broker: ScriptedBroker) -> None:
    denied = failing(COORDINATOR, 30)
    for _, call in READING:
        error = calling(broker, call, {COORDINATOR: denied})[GROUP]
        assert isinstance(error, AccessDenied)
        assert "DESCRIBE on the group" in error.advice
    for _, call in CHANGING:
        assert isinstance(calling(broker, call, {COORDINATOR: denied})[GROUP][PLACE], AccessDenied)


def test_a_refused_listing_is_not_that_there_are_no_groups(broker: ScriptedBroker) -> None:
    with pytest.raises(AccessDenied, match="Grant DESCRIBE on the cluster: "):
        calling(broker, list_groups, {LISTED: failing(LISTED, 31)})


def test_types_of_groups_that_are_not_known_are_unknown(broker: ScriptedBroker) -> None:
    def listed(told: str) -> Any:
        response = LISTED.response[None]
        groups = [sample(response.ListedGroup, 5, group_type=told)]
        (group,) = calling(
            broker, list_groups, {LISTED: sample(response, 5, groups=groups).encode(version=5)}
        )
        return group.type

    assert [listed(told) for told in ("Classic", "", "consumer", "Streams", "quantum")] == [
        *("classic", "classic", "consumer", "streams", "unknown")
    ]


def test_offsets_of_a_group_that_is_gone_are_deleted(broker: ScriptedBroker) -> None:
    assert calling(broker, CHANGING[1][1], {FORGOTTEN: _whole(FORGOTTEN, 69)}) == {}


def _whole(kind: Kind, code: int) -> bytes:
    """The sample answer with an error above all entries."""
    return bytes(
        sample(kind.response[None], kind.version, error_code=code).encode(version=kind.version)
    )


@pytest.mark.parametrize("kind_and_call", CHANGING[1:], ids=lambda it: str(it[0]))
def test_an_error_of_a_whole_group_is_one_of_each_partition(
    broker: ScriptedBroker, kind_and_call: tuple[Kind, Call]
) -> None:
    kind, call = kind_and_call
    error = calling(broker, call, {kind: _whole(kind, 68)})[GROUP][PLACE]
    assert "NON_EMPTY_GROUP" in error.message


OLD = {
    request.API_KEY: newest
    for request, newest in (
        (MetadataRequest, 5),
        (FindCoordinatorRequest, 1),
        (OffsetFetchRequest, 3),
    )
}


@pytest.mark.parametrize(
    ("call", "since"),
    [
        (CHANGING[1][1], "2.4"),
        (READING[2][1], "4.1"),
        (CHANGING[2][1], "4.1"),
        (CHANGING[3][1], "4.1"),
    ],
)
def test_a_broker_that_is_too_old_is_said_to_be(call: Call, since: str) -> None:
    with speaking(OLD) as broker:
        PLACES.add((HOST, broker.port))
        here = {"node_id": 1, "host": HOST, "port": broker.port}
        kind = Kind(FindCoordinatorRequest, 1)
        found = sample(kind.response[None], kind.version, **here).encode(version=kind.version)
        broker.speak({kind: found})
        with cluster_of(broker) as cluster:
            answer = call(cluster)[GROUP]
    error = answer[PLACE] if isinstance(answer, dict) else answer
    assert isinstance(error, TooOld)
    assert since in error.message


def test_answers_come_in_the_order_of_the_requests_over_any_number_of_connections(
    broker: ScriptedBroker,
) -> None:
    broker.drop()
    broker.speak({kind: truth(broker, kind) for kind in SPOKEN})
    with cluster_of(broker) as cluster:
        cluster.nodes()
        connections = [cluster.connection(1, number) for number in range(3)]
        names = [type(answer).__name__ for answer in pipeline(connections, _alternating(100))]
        assert len(set(map(id, connections))) == 3
        assert not any(connection.closed for connection in connections)
    expected = ["DescribeGroupsResponse", "ListGroupsResponse"] * 50
    assert names == expected


def _alternating(count: int) -> Iterator[Any]:
    for number in range(count):
        if number % 2:
            yield ListGroupsRequest(states_filter=[], types_filter=[])
        else:
            yield DescribeGroupsRequest(groups=["g"], include_authorized_operations=False)


def test_answers_that_no_request_waits_for_are_never_taken_for_others(
    broker: ScriptedBroker,
) -> None:
    broker.drop()
    broker.speak({kind: truth(broker, kind) for kind in SPOKEN})
    with cluster_of(broker) as cluster:
        cluster.nodes()
        connection = cluster.connection(1)
        answers = pipeline([connection], _alternating(10))
        next(answers)
        answers.close()
        assert connection.closed
        assert cluster.connection(1) is not connection
        assert list_groups(cluster) == [Group(GROUP, "share", "orders", "orders")]


def test_each_group_is_asked_for_where_it_is_and_a_broker_that_is_down_has_only_its_own(
    broker: ScriptedBroker,
) -> None:
    broker.drop()
    response = COORDINATOR.response[None]
    places = {"orders": (1, broker.port), "away": (2, 1)}
    keys = [
        sample(response.Coordinator, 4, key=group, node_id=node, host=HOST, port=port)
        for group, (node, port) in places.items()
    ]
    found = sample(response, 4, coordinators=keys).encode(version=4)

    answers = calling(broker, lambda it: fetch_offsets(it, list(places)), {COORDINATOR: found})

    assert answers["orders"] == {PLACE: Committed(1, 1, "orders")}
    assert isinstance(answers["away"], ClusterUnreachable)
    assert answers["away"].transient


def test_a_coordinator_that_hangs_up_leaves_the_answers_that_it_gave(
    broker: ScriptedBroker,
) -> None:
    broker.drop()
    broker.speak({kind: truth(broker, kind) for kind in SPOKEN})

    def ask(connections: Any, some: list[str]) -> Iterator[tuple[str, int]]:
        yield some[0], 7
        connections[0].close()
        raise ClusterUnreachable("It hung up.")

    response = COORDINATOR.response[None]
    here = {"node_id": 1, "host": HOST, "port": broker.port}
    keys = [sample(response.Coordinator, 4, key=key, **here) for key in ("a", "b")]
    found = sample(response, 4, coordinators=keys).encode(version=4)
    answers = calling(
        broker, lambda cluster: ask_coordinators(cluster, ["a", "b"], ask), {COORDINATOR: found}
    )
    assert answers["a"] == 7
    assert isinstance(answers["b"], ClusterUnreachable)
