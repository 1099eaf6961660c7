"""What is asked again, and of whom, while coordinators load and move."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_ferry.config import Cluster
from kafka_ferry.config.client.cluster import ClientProperties
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import retry_for
from kafka_ferry.wire.groups.groups import IncompleteListing
from tests.unit.wire.group_answers import (
    COMMITTED,
    DESCRIBED,
    FETCHED,
    GROUP,
    LISTED,
    METADATA,
    PLACE,
    SPOKEN,
    failing,
    truth,
)
from tests.unit.wire.scripted import HOST, Asked, Kind, ScriptedBroker, framed, sample, speaking

OTHER = TopicPartition("orders", 2)


class Talk:
    """A broker that answers some requests with one thing after the other, the last one for ever."""

    def __init__(self, broker: ScriptedBroker, *said: tuple[Kind, list[bytes]]) -> None:
        self.asked: list[Kind] = []
        self._kinds = {(kind.request.API_KEY, kind.version): kind for kind in SPOKEN}
        self._said = {kind: [truth(broker, kind)] for kind in SPOKEN} | dict(said)
        broker.answer, broker.hang_up = self._answer, False

    def _answer(self, asked: Asked) -> bytes:
        kind = self._kinds[asked.api_key, asked.version]
        self.asked.append(kind)
        said = self._said[kind]
        body = said.pop(0) if len(said) > 1 else said[0]
        return framed(asked, body, flexible=kind.is_flexible)


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with speaking({kind.request.API_KEY: kind.version for kind in SPOKEN}) as broker:
        yield broker


@pytest.fixture
def control(broker: ScriptedBroker) -> Iterator[GroupControl]:
    properties = ClientProperties({"bootstrap.servers": f"{HOST}:{broker.port}"})
    with GroupControl(Cluster(alias="backup", properties=properties)) as control:
        yield control


def answer(kind: Kind, **given: Any) -> bytes:
    return bytes(sample(kind.response[None], kind.version, **given).encode(version=kind.version))


def committed(*codes: tuple[TopicPartition, int]) -> bytes:
    """An answer to a commit."""
    topic = COMMITTED.response[None].OffsetCommitResponseTopic
    partition = topic.OffsetCommitResponsePartition
    topics = [
        topic(
            version=COMMITTED.version,
            name=tp.topic,
            partitions=[partition(version=9, partition_index=tp.partition, error_code=code)],
        )
        for tp, code in codes
    ]
    return answer(COMMITTED, topics=topics)


def listed(*groups: Group) -> bytes:
    entry = LISTED.response[None].ListedGroup
    entries = [
        entry(
            version=LISTED.version,
            group_id=group.name,
            protocol_type=group.protocol,
            group_state=group.state,
            group_type=group.type,
        )
        for group in groups
    ]
    return answer(LISTED, groups=entries)


def offsets_led_by(broker: ScriptedBroker, nodes: list[int]) -> bytes:
    """Metadata of ``__consumer_offsets``, with a leader for each partition; this broker is number 1."""
    response = METADATA.response[None]
    part = response.MetadataResponseTopic.MetadataResponsePartition
    here = {"node_id": 1, "host": HOST, "port": broker.port}
    partitions = [
        sample(part, METADATA.version, error_code=0, partition_index=number, leader_id=node)
        for number, node in enumerate(nodes)
    ]
    topic = sample(
        response.MetadataResponseTopic,
        METADATA.version,
        error_code=0,
        name="__consumer_offsets",
        partitions=partitions,
    )
    brokers = [sample(response.MetadataResponseBroker, METADATA.version, **here)]
    return answer(METADATA, brokers=brokers, topics=[topic])


@pytest.mark.parametrize("code", [14, 15, 16])
def test_a_coordinator_that_loads_or_moves_is_asked_again(
    broker: ScriptedBroker, control: GroupControl, code: int
) -> None:
    talk = Talk(broker, (FETCHED, [failing(FETCHED, code)] * 3 + [truth(broker, FETCHED)]))

    assert control.committed_offsets([Group(GROUP)]) == {GROUP: {PLACE: Committed(1, 1, "orders")}}
    assert talk.asked.count(FETCHED) == 4


def test_only_what_was_refused_for_a_while_is_committed_again(
    broker: ScriptedBroker, control: GroupControl
) -> None:
    first, again = committed((PLACE, 16), (OTHER, 3)), committed((PLACE, 0))
    talk = Talk(broker, (COMMITTED, [first, again]))

    refused = control.commit({Group(GROUP): {PLACE: Committed(1), OTHER: Committed(1)}})

    assert talk.asked.count(COMMITTED) == 2
    assert refused.keys() == {GROUP}
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(refused[GROUP][OTHER])


def test_a_broker_that_loads_its_groups_is_not_one_without_groups(
    broker: ScriptedBroker, control: GroupControl
) -> None:
    modern = Group("modern", "consumer", "Empty", "consumer")
    loading = answer(LISTED, error_code=14, groups=[])
    Talk(broker, (LISTED, [loading, listed(modern)]))
    assert control.groups() == [modern]


@pytest.mark.parametrize(
    ("leaders", "why"),
    [
        ([[1, -1]], "backup lists its groups in part: __consumer_offsets-1 (1 of 2 partitions)"),
        ([[1, 7]], "backup lists its groups in part: __consumer_offsets-1 (1 of 2 partitions)"),
        # Three looks a listing: at the leaders, at the brokers, and again at the leaders.
        ([[1], [1, 1], [1, 1, 1]] * 40, "backup may have listed its groups in part"),
    ],
    ids=["no leader", "a leader that is down", "partitions that move"],
)
def test_groups_that_no_broker_could_list_are_not_taken_for_gone(
    broker: ScriptedBroker, control: GroupControl, leaders: list[list[int]], why: str
) -> None:
    modern = Group("modern", "consumer", "Empty", "consumer")
    entry = sample(DESCRIBED.response[None].DescribedGroup, 5, group_state="Dead", error_code=0)
    Talk(
        broker,
        (METADATA, [offsets_led_by(broker, it) for it in leaders]),
        (LISTED, [listed(modern)]),
        (DESCRIBED, [answer(DESCRIBED, groups=[entry])]),
    )
    with retry_for(0.1):
        groups, unlisted = control.known_groups()
        assert groups == [modern]
        assert why in str(unlisted)
        doubtful = control.describe([GROUP])[GROUP]
        assert isinstance(doubtful, IncompleteListing)
        with pytest.raises(IncompleteListing):
            control.groups()


def test_a_listing_during_an_election_is_asked_for_again(
    broker: ScriptedBroker, control: GroupControl
) -> None:
    before, between, after = (offsets_led_by(broker, it) for it in ([-1], [-1], [1]))
    talk = Talk(broker, (METADATA, [before, between, after]), (LISTED, [listed()]))
    assert control.groups() == []
    assert talk.asked.count(LISTED) == 2


def test_a_group_that_a_listing_missed_while_it_moved_is_not_dead(
    broker: ScriptedBroker, control: GroupControl
) -> None:
    modern = Group(GROUP, "consumer", "Stable", "consumer")
    entry = sample(DESCRIBED.response[None].DescribedGroup, 5, group_state="Dead", error_code=0)
    dead = answer(DESCRIBED, groups=[entry])
    Talk(broker, (LISTED, [listed(), listed(modern)]), (DESCRIBED, [dead]))
    assert control.describe([GROUP]) == {GROUP: modern}


def test_nothing_to_ask_is_not_asked(broker: ScriptedBroker, control: GroupControl) -> None:
    talk = Talk(broker)
    assert control.describe([]) == control.committed_offsets([]) == control.commit({}) == {}
    assert control.delete_offsets({}) == {}
    assert talk.asked == []
