import pytest

from kafka_ferry.config.types.topic_configs import canonical, read_topic_configs, topic_configs_text
from tests.unit.plan.builders import a_flow

DAY = 86_400_000


@pytest.mark.parametrize(
    ("value", "configs"),
    [
        ({"retention.ms": "30d"}, {"retention.ms": str(30 * DAY)}),
        ({"retention.ms": "2 weeks"}, {"retention.ms": str(14 * DAY)}),
        ({"retention.ms": -1}, {"retention.ms": "-1"}),
        ({"retention.bytes": "1GiB"}, {"retention.bytes": str(2**30)}),
        ({"cleanup.policy": "compact,delete"}, {"cleanup.policy": "compact,delete"}),
        ({"cleanup.policy": "delete, compact"}, {"cleanup.policy": "compact,delete"}),
        ({"cleanup.policy": ["delete", "compact"]}, {"cleanup.policy": "compact,delete"}),
        ({"preallocate": True}, {"preallocate": "true"}),
        ({"preallocate": "FALSE"}, {"preallocate": "false"}),
        ({"min.cleanable.dirty.ratio": "0.50"}, {"min.cleanable.dirty.ratio": "0.5"}),
        ({"retention.ms": "007"}, {"retention.ms": "7"}),
        ({"confluent.tier.enable": True}, {"confluent.tier.enable": "true"}),
        (
            {"vendors.hot.bytes": "1GiB", "vendors.hot.ms": "1h"},
            {"vendors.hot.bytes": str(2**30), "vendors.hot.ms": "3600000"},
        ),
        ({"unclean.leader.election.enable": True}, {"unclean.leader.election.enable": "true"}),
        ({"min.cleanable.dirty.ratio": 0.1}, {"min.cleanable.dirty.ratio": "0.1"}),
        (
            "segment.ms=1h; min.insync.replicas=2",
            {"segment.ms": "3600000", "min.insync.replicas": "2"},
        ),
    ],
)
def test_times_and_sizes_become_kafkas_numbers(value: object, configs: dict[str, str]) -> None:
    text = topic_configs_text(value)
    assert read_topic_configs(text) == configs
    assert topic_configs_text(text) == text


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("30d", "must be topic configs"),
        ({}, "must be topic configs"),
        (7, "must be topic configs"),
        ({"retention.hours": 7}, "no config of a topic. Write retention.ms: 7h"),
        ({"log.retention.days": "3"}, "no config of a topic. Write retention.ms: 3d"),
        ({"log.segment.bytes": "1GiB"}, "no config of a topic. Write segment.bytes: 1GiB"),
        ({"retention": 1}, "Did you mean 'retention.ms'"),
        ({"anything": 1}, "must be topic configs"),
        (
            {"retenton.ms": 1},
            "retenton.ms, which is no config of a topic. Did you mean 'retention.ms'",
        ),
        (
            {"retention.ms": "1e3"},
            "gives retention.ms '1e3': must be a whole number .* a time such as 30d",
        ),
        ({"retention.ms": "1_000"}, "must be a whole number"),
        ({"segment.bytes": 2**31}, "must be a whole number of at most 2147483647"),
        ({"min.insync.replicas": 1.5}, "must be a whole number"),
        ({"min.cleanable.dirty.ratio": "half"}, "must be a number"),
        ({"min.cleanable.dirty.ratio": "1_0"}, "must be a number"),
        ({"preallocate": "yes"}, "must be true or false"),
        ({"cleanup.policy": ["compact", "purge"]}, "must be compact, delete, or both"),
        ({"cleanup.policy": {"compact": 1}}, "must be topic configs"),
        ({"retention.ms": None}, "must be topic configs"),
        ({"retention.ms": ""}, "must be topic configs"),
        ({"retention.bytes": "1 TB"}, "must be a number of bytes"),
        ({"compression.type": "zstd"}, "must not have compression.type"),
        ({"message.timestamp.type": "CreateTime"}, "must not have message.timestamp.type"),
    ],
)
def test_anything_else_is_refused(value: object, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        topic_configs_text(value)


@pytest.mark.parametrize(
    ("name", "value", "same"),
    [
        ("cleanup.policy", "delete,compact", "compact,delete"),
        ("cleanup.policy", "", ""),
        ("min.cleanable.dirty.ratio", "1.0E-5", "1e-05"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "soon", "soon"),
        ("no.such.config", "b,a", "b,a"),
    ],
)
def test_equal_values_of_brokers_become_equal_texts(name: str, value: str, same: str) -> None:
    assert canonical(name, value) == same


def test_in_properties_a_value_may_be_a_list() -> None:
    text = "orders:cleanup.policy=compact,delete;retention.ms=1d, clicks.*:segment.ms=5"
    flow = a_flow(topics_configs=text)
    assert flow.configs_of("orders") == {
        "cleanup.policy": "compact,delete",
        "retention.ms": str(DAY),
    }
    assert flow.configs_of("clicks-eu") == {"segment.ms": "5"}


def test_the_first_pattern_that_matches_counts() -> None:
    flow = a_flow(
        topics_configs={"orders": {"retention.ms": "1d"}, "o.*": {"segment.ms": 5}},
        topics_replication_factor={"orders": 3, "clicks": -1},
        replication_factor=1,
    )
    assert flow.configs_of("orders") == {"retention.ms": str(DAY)}
    assert flow.configs_of("others") == {"segment.ms": "5"}
    assert flow.configs_of("clicks") == {}
    assert [flow.replicas_of(name) for name in ("orders", "clicks", "x")] == [3, -1, 1]


def test_a_remote_topic_never_has_fewer_partitions_than_its_source() -> None:
    flow = a_flow(topics_partitions={"orders": 6, "c.*": "24"})
    assert [flow.partitions_of(name, 8) for name in ("orders", "clicks", "x")] == [8, 24, 8]


@pytest.mark.parametrize("number", [0, -1, 1_000_001, "many", True])
def test_a_number_of_partitions_that_is_none_is_refused(number: object) -> None:
    with pytest.raises(ValueError, match="must be a number of partitions"):
        a_flow(topics_partitions=number)


@pytest.mark.parametrize("factor", [0, -2, 40_000, "two", True])
def test_a_factor_that_is_none_is_refused(factor: object) -> None:
    with pytest.raises(ValueError, match="must be a number of replicas"):
        a_flow(topics_replication_factor=factor)
