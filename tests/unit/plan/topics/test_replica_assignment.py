"""Which brokers get the replicas of a topic's partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.plan.topics.replica_assignment import assign_replicas

Assignment = tuple[tuple[int, ...], ...]


@pytest.mark.parametrize(
    ("racks", "placement", "assigned"),
    [
        # A broker a rack: as AdminUtils does it, the followers change places with each turn.
        (
            {1: "a", 2: "b", 3: "c"},
            {"a": 1, "b": 1, "c": 1},
            ((1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2), (2, 1, 3), (3, 2, 1)),
        ),
        # Leaders alternate between racks, and so do replicas.
        ({1: "a", 2: "a", 3: "b", 4: "b"}, {"a": 1, "b": 1}, ((4, 2), (1, 3), (3, 2), (2, 4))),
        # What the option does not name has no replica.
        ({1: "a", 2: "b", 3: ""}, {"b": 1}, ((2,), (2,))),
        # Racks of unequal size: each broker of the larger one has a third of its replicas.
        ({1: "a", 2: "a", 3: "a", 4: "b"}, {"a": 1, "b": 1}, ((3, 4), (1, 4), (4, 2), (2, 4))),
        # Both of a rack, and the one of the other.
        ({1: "a", 2: "a", 3: "b"}, {"a": 2, "b": 1}, ((1, 3, 2), (3, 2, 1), (2, 3, 1))),
    ],
)
def test_leaders_and_replicas_alternate_between_racks(
    racks: dict[int, str], placement: dict[str, int], assigned: Assignment
) -> None:
    assert assign_replicas("x", racks, placement, len(assigned)) == assigned


class Case(NamedTuple):
    """Brokers, of which a topic uses some racks or all."""

    topic: str
    racks: Mapping[int, str]
    placement: Mapping[str, int]
    partitions: int

    @property
    def assigned(self) -> Assignment:
        return assign_replicas(self.topic, self.racks, self.placement, self.partitions)

    def brokers(self, rack: str) -> list[int]:
        return [node for node, of_node in self.racks.items() if of_node == rack]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    sizes = draw(st.dictionaries(st.sampled_from("abcde"), st.integers(1, 5), min_size=1))
    named = draw(st.sets(st.sampled_from(sorted(sizes)), min_size=1))
    nodes = draw(st.permutations(range(sum(sizes.values()))))
    racks = dict(zip(nodes, chain.from_iterable(r * sizes[r] for r in sizes), strict=True))
    placement = {rack: draw(st.integers(1, sizes[rack])) for rack in sorted(named)}
    return Case(draw(st.text("xyz", max_size=3)), racks, placement, draw(st.integers(1, 60)))


@given(cases())
def test_each_partition_has_the_replicas_that_were_asked_for_on_distinct_brokers(
    case: Case,
) -> None:
    assert len(case.assigned) == case.partitions
    for replicas in case.assigned:
        assert len({*replicas}) == len(replicas)
        assert Counter(case.racks[node] for node in replicas) == Counter(case.placement)
        # The first follower, which leads when the leader's rack is gone, is elsewhere.
        of_first_two = {case.racks[node] for node in replicas[:2]}
        assert len(of_first_two) == min(2, len(case.placement))


@given(cases())
def test_leaders_are_even_over_all_brokers_and_replicas_over_those_of_a_rack(case: Case) -> None:
    leads = Counter(replicas[0] for replicas in case.assigned)
    holds = Counter(chain.from_iterable(case.assigned))
    counts = [leads[node] for rack in case.placement for node in case.brokers(rack)]
    assert max(counts) - min(counts) <= 1
    for rack in case.placement:
        counts = [holds[node] for node in case.brokers(rack)]
        # Followers are chosen after the leader, which may be the broker with the most replicas.
        assert max(counts) - min(counts) <= 2


@given(cases(), st.integers(0, 60))
def test_a_topic_that_grows_is_as_if_it_had_been_created_so(case: Case, before: int) -> None:
    existing = case.assigned[:before]
    grown = assign_replicas(case.topic, case.racks, case.placement, case.partitions, existing)
    assert existing + grown == case.assigned


def test_partitions_that_are_added_make_up_for_those_that_exist() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    grown = assign_replicas("x", racks, {"a": 1, "b": 1}, 6, [(1, 3), (1, 3), (1, 3)])
    assert sorted(leader for leader, _ in grown) == [2, 3, 4]
    assert Counter(chain.from_iterable(grown)) == {2: 3, 4: 2, 3: 1}


def test_topics_do_not_all_begin_with_the_same_broker() -> None:
    racks = {1: "a", 2: "b", 3: "c"}
    placement = dict.fromkeys("abc", 1)
    firsts = {assign_replicas(f"t{n}", racks, placement, 1)[0][0] for n in range(20)}
    assert firsts == {1, 2, 3}


def test_a_leader_does_not_always_have_the_same_followers() -> None:
    racks = {node: "abc"[node % 3] for node in range(9)}
    assigned = assign_replicas("x", racks, dict.fromkeys("abc", 1), 90)
    for node in racks:
        next_ones = {replicas[1] for replicas in assigned if replicas[0] == node}
        assert len(next_ones) >= 4
