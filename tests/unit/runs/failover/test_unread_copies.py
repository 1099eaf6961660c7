"""A group is stuck where the target has lost the records that it would read next."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_ferry.groups.outlook import FirstRecord, GroupOutlook, PartitionOutlook, State
from kafka_ferry.groups.routes import Route
from kafka_ferry.groups.translation import OffsetMap
from kafka_ferry.model import Topic, TopicPartition
from kafka_ferry.runs.failover import unread_copies as module
from kafka_ferry.runs.failover.unread_copies import UnreadCopies
from tests.support.records.model_log import a_range

HERE, THERE = TopicPartition("orders", 0), TopicPartition("a.orders", 0)
COMPACTED = {"cleanup.policy": "compact"}
LEDGER: Any = SimpleNamespace(topics=lambda: {"a.orders": "orders"}, topic_ids=dict)


def a_group(
    offset: int | None = 4,
    first: int | None = 8,
    *,
    target: TopicPartition = THERE,
    state: State = "ready",
    not_copied: int = 1,
) -> GroupOutlook:
    record = None if first is None else FirstRecord(first, 0, None)
    one = PartitionOutlook(HERE, target, 4, 6, not_copied, offset, "exact", record)
    return GroupOutlook("billing", state, partitions=(one,))


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``stuck`` of one group, where orders-0 [0, 10) is copied to the same offsets."""

    def look(
        group: GroupOutlook,
        *,
        remote: Mapping[str, str] = {},
        source: Mapping[str, str] = {},
        configs: Mapping[str, str] = {},
        follows: bool = True,
        asks_source: bool = True,
        source_start: int = 0,
        accepted: list[tuple[int, int]] | None = None,
    ) -> GroupOutlook:
        losses = [SimpleNamespace(entry=SimpleNamespace(target=THERE), targets=accepted or [])]
        route = Route(HERE, THERE, "id", False, OffsetMap.of([a_range(0, 10, [(0, 0, 10)])]))
        topics = {"orders": Topic("orders", "id", 1, dict(source))}
        control = SimpleNamespace(readable_topics=lambda _: (topics, {}))
        monkeypatch.setattr(module, "routes", lambda *_: {HERE: route})
        monkeypatch.setattr(module, "accepted_losses", lambda _: losses)
        monkeypatch.setattr(module, "ClusterControl", lambda _: control)
        flow: Any = SimpleNamespace(
            source=None,
            target=SimpleNamespace(alias="b"),
            sync_topic_configs_enabled=follows,
            config_properties_exclude=(),
            configs_of=lambda _: configs,
        )
        remotes = [Topic("a.orders", "id", 1, dict(remote))]
        starts = {HERE: source_start}
        (found,) = UnreadCopies(flow, LEDGER, remotes, starts, asks_source=asks_source).stuck(
            [group]
        )
        return found

    return look


def test_a_group_whose_next_records_are_gone_is_stuck(lost: Any) -> None:
    found = lost(a_group())
    assert (found.state, found.not_copied) == ("stuck", 5)
    assert found.reason == (
        "4 records of orders-0 that it has not read are gone from a.orders-0 on b, where they were copied: from 4 on "
        "it would get the record at 8 first, and miss them."
    )
    assert lost(a_group(not_copied=-1)).not_copied == -1


@pytest.mark.parametrize(
    "group",
    [
        a_group(first=4),
        a_group(first=None),
        a_group(None),
        # After the end of the copy, other producers' records follow.
        a_group(10, 14),
        a_group(target=TopicPartition("orders", 0)),
        a_group(state="in use"),
        a_group(state="stuck"),
    ],
)
def test_a_group_that_misses_nothing_stays_as_it_is(lost: Any, group: GroupOutlook) -> None:
    assert lost(group) == group


def test_what_the_source_has_deleted_or_a_person_has_accepted_is_not_missed(lost: Any) -> None:
    assert lost(a_group(), source_start=8).state == "ready"
    assert lost(a_group(), source_start=7).not_copied == 2
    assert lost(a_group(), accepted=[(2, 8)]).state == "ready"
    assert lost(a_group(), accepted=[(2, 5)]).not_copied == 4


@pytest.mark.parametrize(
    ("look", "state"),
    [
        ({"source": COMPACTED}, "ready"),
        ({"source": {"cleanup.policy": "delete"}}, "stuck"),
        ({"asks_source": False}, "ready"),
        ({"configs": COMPACTED}, "ready"),
        ({"follows": False}, "ready"),
    ],
)
def test_a_cleaner_may_remove_records_where_the_source_or_the_flow_says_so(
    lost: Any, look: dict[str, Any], state: str
) -> None:
    assert lost(a_group(), remote=COMPACTED, **look).state == state
