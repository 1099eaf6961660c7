from time import process_time

import pytest

from kafka_ferry.config.files.mm2_scopes import sort_by_scope

ALIASES = ["a", "a.b", "dc", "dc.consumer", "x-1", "ssl", "primary"]


@pytest.mark.parametrize(
    ("key", "scope", "name"),
    [
        ("topics", "", "topics"),
        ("a.bootstrap.servers", "a.", "bootstrap.servers"),
        ("a.b.bootstrap.servers", "a.b.", "bootstrap.servers"),
        ("a.consumer.b", "a.", "consumer.b"),
        ("dc.consumer.bootstrap.servers", "dc.consumer.", "bootstrap.servers"),
        ("dc.consumer.fetch.min.bytes", "dc.", "consumer.fetch.min.bytes"),
        ("dc.consumer.admin.retries", "dc.consumer.", "admin.retries"),
        ("a->a.b.enabled", "a->a.b.", "enabled"),
        ("a.b->a.enabled", "a.b->a.", "enabled"),
        ("a.b->dc.consumer.topics", "a.b->dc.consumer.", "topics"),
        ("a.b->dc.consumer.retry", "a.b->dc.", "consumer.retry"),
        ("x-1->a.source.cluster.ssl.protocol", "x-1->a.", "source.cluster.ssl.protocol"),
        ("ssl.keystore.location", "", "ssl.keystore.location"),
        ("ssl.ssl.keystore.location", "ssl.", "ssl.keystore.location"),
    ],
)
def test_the_longest_alias_that_gives_a_known_name_is_meant(
    key: str, scope: str, name: str
) -> None:
    settings, problems = sort_by_scope({key: "v"}, ALIASES)
    assert problems == []
    assert settings.values == {scope: {name: "v"}}


@pytest.mark.parametrize(
    ("key", "reason", "advice"),
    [
        ("topcs", "is not an option of MirrorMaker 2 or Kafka Ferry", "'topics'"),
        ("emit.heartbeat.enabled", "is not an option of Mirror", "'emit.heartbeats.enabled'"),
        ("xyz", "is not an option of MirrorMaker 2 or Kafka Ferry", ""),
        ("a->dc.topic", "is not an option of MirrorMaker 2 or Kafka Ferry", "'a->dc.topics'"),
        ("a.bootstrap.server", "is not an option of a cluster", "'bootstrap.servers'"),
        ("a.b.bootstrap.server", "is not an option of a cluster", "'bootstrap.servers'"),
        ("a.linger.ms", "is not an option of a cluster", "a.consumer (producer, admin)"),
        ("a.dc.topics", "is not an option of a cluster", "'a->dc.topics'"),
        ("a.topics", "is an option of a flow, not of a cluster", "Write topics"),
        ("nope.bootstrap.servers", "alias 'nope' is not in clusters", "a, a.b, dc"),
        ("primry.consumer.y", "alias 'primry' is not in clusters", "'primary'"),
        ("a->no.pe.enabled", "alias 'no.pe' is not in clusters", "a, a.b, dc"),
        ("nope->a.topics.exclude", "alias 'nope' is not in clusters", "a, a.b, dc"),
        ("topics.blacklist", "since MirrorMaker 2 4.0", "Use topics.exclude"),
        ("a->dc.topics.blacklist", "since MirrorMaker 2 4.0", "Use a->dc.topics.exclude"),
    ],
)
def test_a_key_without_a_meaning_is_a_problem(key: str, reason: str, advice: str) -> None:
    _, problems = sort_by_scope({key: "v"}, ALIASES)
    (problem,) = problems
    assert problem.key == key
    assert reason in problem.reason
    assert advice in problem.advice


def test_a_flow_from_a_cluster_to_itself_is_no_flow() -> None:
    _, (problem,) = sort_by_scope({"a->a.enabled": "true"}, ALIASES)
    assert problem.key == "a->a.enabled"


def test_many_keys_of_many_clusters_take_no_longer_than_their_number_explains() -> None:
    aliases = [f"c{number}" for number in range(500)]
    known = {f"c0.consumer.x{number}": "1" for number in range(5_000)}
    unknown = {f"topix.{number}.one": "1" for number in range(5_000)}
    began = process_time()
    settings, problems = sort_by_scope(known | unknown, aliases)
    assert process_time() - began < 10
    assert len(settings.values["c0."]) == len(problems) == 5_000
