from pathlib import Path

import pytest

from kafka_ferry.config import NameFilter
from kafka_ferry.config.files.mm1_keys import CARRIED, RENAMED, WITHOUT_MEANING
from kafka_ferry.config.files.mm1_properties import (
    MirrorSource,
    mirrored_topics,
    read_source,
    read_target,
)
from kafka_ferry.errors import ConfigError


def source(folder: Path, *lines: str, brokers: str = "bootstrap.servers=a:1") -> MirrorSource:
    return read_source(written(folder, brokers, *lines))


def written(folder: Path, *lines: str) -> Path:
    file = folder / "consumer.properties"
    file.write_text("\n".join(lines))
    return file


# --- clusters ------------------------------------------------------------------------------------


def test_what_clients_share_is_the_clusters_and_the_rest_its_consumers(tmp_path: Path) -> None:
    found = source(
        tmp_path,
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=PLAIN",
        'sasl.jaas.config=PlainLoginModule required username="u" password="hunter2";',
        "request.timeout.ms=5000",
        "client.id=mirror",
    )
    assert dict(found.properties) == {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'PlainLoginModule required username="u" password="hunter2";',
        "consumer.request.timeout.ms": "5000",
        "consumer.client.id": "mirror",
    }
    assert found.remarks == ()
    assert "hunter2" not in repr(found)
    cluster = found.cluster("eu")
    assert cluster.client_properties("consumer")["client.id"] == "mirror"
    assert "client.id" not in cluster.client_properties("producer")


def test_a_producers_file_is_the_targets(tmp_path: Path) -> None:
    file = written(tmp_path, "metadata.broker.list=t:1,t:2", "retry.backoff.ms=7", "acks=1")
    found = read_target(file)
    assert dict(found.properties) == {
        "bootstrap.servers": "t:1,t:2",
        "producer.retry.backoff.ms": "7",
    }
    assert [remark.key for remark in found.remarks] == ["acks"]


@pytest.mark.parametrize(
    ("lines", "brokers"),
    [
        ("bootstrap.servers=a:1, b:2", "a:1, b:2"),
        ("metadata.broker.list=a:1,b:2", "a:1,b:2"),
        ("broker.list=0:a:1,1:b:2", "a:1,b:2"),
        ("broker.list=0:a:1, 1:b:2", "a:1,b:2"),
        ("broker.list=a:1", "a:1"),
        ("broker.list=0:x:1\nbootstrap.servers=a:1", "a:1"),
        ("bootstrap.servers=[::1]:9092", "[::1]:9092"),
        ("zookeeper.connect=z:2181\nbootstrap.servers=a:1", "a:1"),
    ],
)
def test_brokers_are_found_by_their_names_of_all_releases(
    tmp_path: Path, lines: str, brokers: str
) -> None:
    assert source(tmp_path, brokers=lines).properties["bootstrap.servers"] == brokers


@pytest.mark.parametrize(("old", "name"), RENAMED.items())
def test_old_names_become_todays_which_win(tmp_path: Path, old: str, name: str) -> None:
    assert source(tmp_path, f"{old}=1").properties[f"consumer.{name}"] == "1"
    both = source(tmp_path, f"{old}=1", f"{name}=2").properties
    assert both[f"consumer.{name}"] == "2"


@pytest.mark.parametrize(
    ("lines", "key", "reason"),
    [
        ("zookeeper.connect=z:2181", "zookeeper.connect", "Add bootstrap.servers = host:port"),
        ("zk.connect=z:2181\ngroupid=x", "zk.connect", "Add bootstrap.servers = host:port"),
        ("group.id=x", "bootstrap.servers", "is required"),
        ("bootstrap.server=a:1", "bootstrap.servers", "'bootstrap.server' is not such a property"),
        ("bootstrap.servers=a", "bootstrap.servers", "host:port"),
        ("metadata.broker.list=a", "metadata.broker.list", "host:port"),
        ("bootstrap.servers=a:1\nsecurity.protocol=TLS", "security.protocol", "must be one of"),
        ("bootstrap.servers=a:1\nisolation.level=x", "isolation.level", "read_uncommitted"),
        ("bootstrap.servers=a:1\nauto.offset.reset=none", "auto.offset.reset", "one of earliest"),
        ("bootstrap.servers=a:1\nexclude.internal.topics=x", "exclude.internal.topics", "true or"),
        (
            "bootstrap.servers=a:1\nmirror.consumer.numthreads=0",
            "mirror.consumer.numthreads",
            "at least 1",
        ),
        ("", "file", "is empty"),
    ],
)
def test_a_file_that_cannot_be_used_says_why_and_what_to_write(
    tmp_path: Path, lines: str, key: str, reason: str
) -> None:
    file = written(tmp_path, lines)
    with pytest.raises(ConfigError) as caught:
        read_source(file)
    assert (caught.value.file, caught.value.key) == (str(file), key)
    assert reason in str(caught.value)


def test_values_may_stand_elsewhere_as_for_the_java_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRY_TEST", "hunter2")
    declared = (
        "config.providers=env",
        "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    )
    found = source(tmp_path, *declared, "ssl.key.password=${env:FERRY_TEST}")
    assert found.properties["ssl.key.password"] == "hunter2"
    assert found.remarks == ()
    with pytest.raises(ConfigError, match="FERRY_MISSING"):
        source(tmp_path, *declared, "ssl.key.password=${env:FERRY_MISSING}")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no\.properties: file: cannot be read"):
        read_target(tmp_path / "no.properties")


def test_zookeeper_is_no_way_to_a_target_either(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"zk\.connect: clients no longer find brokers"):
        read_target(written(tmp_path, "zk.connect=z:2181"))


# --- what else it says ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reset"),
    [
        ("", None),
        ("auto.offset.reset=smallest", "earliest"),
        ("auto.offset.reset=largest", "latest"),
        ("auto.offset.reset=earliest", "earliest"),
        ("autooffset.reset=largest", "latest"),
    ],
)
def test_where_reading_begins_is_said_in_todays_words(
    tmp_path: Path, line: str, reset: str | None
) -> None:
    assert source(tmp_path, line).auto_offset_reset == reset


@pytest.mark.parametrize(
    ("line", "default"),
    [
        ("group.id=x", "latest"),
        ("groupid=x", "latest"),
        ("groupid=x\nzk.connect=z:1", "earliest"),
        ("zk.connect=z:1", "earliest"),
        ("mirror.topics.whitelist=x", "latest"),
        ("exclude.internal.topics=true\nclient.id=m\nmirror.topics.whitelist=app_log", "latest"),
        ("zk.connect=z:1\nmirror.topics.whitelist=x", "earliest"),
        ("autooffset.reset=largest\nmirror.topics.whitelist=x", "earliest"),
    ],
)
def test_without_it_a_mirror_of_0_7_began_at_the_start_and_later_ones_at_the_end(
    tmp_path: Path, line: str, default: str
) -> None:
    assert source(tmp_path, line).default_auto_offset_reset == default


def test_an_embedded_mirror_has_its_topics_and_threads_in_the_file(tmp_path: Path) -> None:
    found = source(
        tmp_path, "mirror.topics.whitelist=a,b", "mirror.consumer.numthreads=3", "groupid=x"
    )
    assert (found.whitelist, found.blacklist, found.streams) == ("a,b", None, 3)
    assert [remark.key for remark in found.remarks] == ["groupid"]
    found = source(tmp_path, "mirror.topics.blacklist=a", "isolation.level=read_uncommitted")
    assert (found.whitelist, found.blacklist, found.streams) == (None, "a", None)
    assert found.isolation_level == "read_uncommitted"


def test_kafkas_own_topics_are_never_copied_and_the_file_that_wants_them_is_told(
    tmp_path: Path,
) -> None:
    assert source(tmp_path, "exclude.internal.topics=true").remarks == ()
    found = source(tmp_path, "exclude.internal.topics=false")
    assert "never copied" in str(found.remarks[0])


def test_a_property_that_does_nothing_is_remarked_on_with_the_reason(tmp_path: Path) -> None:
    found = source(tmp_path, "\n".join(f"{key}=1" for key in WITHOUT_MEANING))
    remarks = {str(remark) for remark in found.remarks}
    assert remarks == {f"{key}: {why}" for key, why in WITHOUT_MEANING.items()}
    assert dict(found.properties) == {"bootstrap.servers": "a:1"}


def test_an_unknown_property_is_remarked_on_with_the_one_that_may_be_meant(tmp_path: Path) -> None:
    (remark,) = source(tmp_path, "ssl.trustore.location=/x").remarks
    assert remark.key == "ssl.trustore.location"
    assert "Did you mean 'ssl.truststore.location'?" in remark.why


def test_no_property_has_two_meanings() -> None:
    assert not CARRIED & WITHOUT_MEANING.keys()
    assert not RENAMED.keys() & WITHOUT_MEANING.keys()
    assert set(RENAMED.values()) <= CARRIED


# --- topics --------------------------------------------------------------------------------------


def copied(whitelist: str | None, blacklist: str | None, *topics: str) -> set[str]:
    chosen = NameFilter(*mirrored_topics(whitelist, blacklist))
    return {topic for topic in topics if chosen.matches(topic)}


TOPICS = ("orders", "orders2", "pay.eu", "a", "b", "__consumer_offsets", "__transaction_state")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders", {"orders"}),
        ("orders,a", {"orders", "a"}),
        (" orders , a ", {"orders", "a"}),
        ("orders|a", {"orders", "a"}),
        ('"orders,a"', {"orders", "a"}),
        ("'orders.*'", {"orders", "orders2"}),
        ("o.*,(a|b)", {"orders", "orders2", "a", "b"}),
        ("[ab]", {"a", "b"}),
        (".*", {"orders", "orders2", "pay.eu", "a", "b"}),
    ],
)
def test_a_list_is_a_java_expression_in_which_a_comma_is_an_alternative(
    text: str, expected: set[str]
) -> None:
    assert copied(text, None, *TOPICS) == expected
    assert (
        copied(None, text, *TOPICS)
        == {topic for topic in TOPICS if not topic.startswith("__")} - expected
    )


def test_kafka_ferrys_own_topics_are_left_out() -> None:
    ours = ("ferry-ledger.eu.internal", "ferry-dead-letter.eu.internal")
    assert copied(".*", None, *ours) == set()
    assert copied(None, "x", *ours) == set()


@pytest.mark.parametrize(
    ("whitelist", "blacklist", "key", "reason"),
    [
        (None, None, "whitelist", "exactly one of the two"),
        ("a", "b", "blacklist", "exactly one of the two"),
        ("[", None, "whitelist", "not a valid regular expression"),
        (None, "*", "blacklist", "any text is '.*'"),
        ("a{1,2}", None, "whitelist", "illegal repetition"),  # as there: a comma is never just one
        ("", None, "whitelist", "names no topic"),
        (None, " ", "blacklist", "names no topic"),
    ],
)
def test_lists_that_cannot_be_are_refused(
    whitelist: str | None, blacklist: str | None, key: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        mirrored_topics(whitelist, blacklist)
    assert (caught.value.file, caught.value.key) == ("command line", key)
    assert reason in str(caught.value)
