"""What was committed goes into ledger entries that brokers take."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.groups.ledger_entries import Synced, entries_of, synced_key
from kafka_ferry.ledger import GroupsEntry, SyncedOffset, decode, encode
from kafka_ferry.model import TopicPartition

FAR = 2**63 - 1


def split(synced: list[Synced]) -> list[GroupsEntry]:
    return list(entries_of(synced, flow="eu->us", run="r", at=1, source_cluster_id="S"))


def joined(entries: list[GroupsEntry]) -> list[Synced]:
    return [
        (group, topic_id, partition, offset)
        for entry in entries
        for group, topics in entry.synced.items()
        for topic_id, partitions in topics.items()
        for partition, offset in partitions.items()
    ]


def test_nothing_committed_makes_no_entry() -> None:
    assert split([]) == []


def test_a_few_offsets_are_one_entry() -> None:
    one = SyncedOffset(source=5, target=4, source_topic_id="s1")
    gone = SyncedOffset(source=-1, target=-1)
    (entry,) = split([("a", "t1", 0, one), ("a", "t1", 1, gone), ("a", "t2", 0, gone)])
    assert entry.synced == {"a": {"t1": {0: one, 1: gone}, "t2": {0: gone}}}
    assert entry.source_topic_ids == {"t1": "s1", "t2": ""}
    assert (entry.flow, entry.run, entry.at, entry.source_cluster_id) == ("eu->us", "r", 1, "S")


def test_many_offsets_are_several_entries_of_half_a_megabyte() -> None:
    far = SyncedOffset(source=FAR, target=FAR)
    synced: list[Synced] = [
        (f"group-{number}", "AAAAAAAAAAAAAAAAAAAAAA", partition, far)
        for number in range(3_000)
        for partition in range(10)
    ]
    entries = split(synced)
    sizes = [len(encode(entry)[1]) for entry in entries]
    assert max(sizes) < 510_000
    assert min(sizes[:-1]) > 350_000
    assert joined(entries) == synced


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8"), min_size=1, max_size=255),
            st.sampled_from(["A" * 22, "B" * 22, "a topic's name" * 17]),
            st.integers(0, 2**31 - 1),
        ),
        max_size=20,
        unique=True,
    )
)
def test_whatever_groups_are_called_an_entry_comes_back_and_is_small(
    keys: list[tuple[str, str, int]],
) -> None:
    far = SyncedOffset(source=FAR, target=FAR)
    synced = sorted((*key, far) for key in keys)
    # As in a cluster of thousands of groups: the names matter, as many as there are offsets.
    entries = split(synced)
    assert sorted(joined(entries)) == synced
    for entry in entries:
        value = encode(entry)[1]
        assert len(value) < 510_000
        assert decode(value, at="here") == entry


def test_a_topic_without_an_id_is_known_by_its_name() -> None:
    assert synced_key("id", TopicPartition("eu.orders", 3)) == ("id", 3)
    assert synced_key("", TopicPartition("eu.orders", 3)) == ("eu.orders", 3)
