from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.config import Flow, load_flows
from kafka_ferry.config.client.translate import KAFKA_PYTHON, LIBRDKAFKA
from kafka_ferry.config.files.mm2_properties import read_properties
from kafka_ferry.errors import ConfigError
from tests.unit.config.builders import PROPERTIES, properties_file


def the_flow(folder: Path, more: str) -> Flow:
    (flow,) = load_flows(properties_file(folder, more))
    return flow


def refused(file: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_flows(file)
    assert caught.value.file == str(file)
    return caught.value


# --- the format ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("a=b", "a", "b"),
        ("a = b ", "a", "b"),
        ("a:b", "a", "b"),
        ("a b", "a", "b"),
        ("a\tb=c", "a", "b=c"),
        ("  a=b", "a", "b"),
        ("a", "a", ""),
        ("a\\=b\\:c\\ d=e", "a=b:c d", "e"),
        ("a=b\\\n   c", "a", "bc"),
        ("a=b\\\\\nc=d", "a", "b\\"),
        ("a=\\u00e9\\t\\q", "a", "é\tq"),
        ("a=é", "a", "é"),
        ("a=b#c", "a", "b#c"),
        ("# a=x\n! a=y\na=b", "a", "b"),
        ("a=x\r\na=b\r\n", "a", "b"),  # Java lets the last one count
        ("A->B.enabled = true", "A->B.enabled", "true"),
    ],
)
def test_lines_are_read_as_java_reads_them(text: str, key: str, value: str) -> None:
    assert read_properties(text.encode("latin-1"), "f")[key] == value


def escaped(text: str, special: str) -> str:
    """As ``java.util.Properties.store`` writes it."""
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[i : i + 2]) for i in range(0, len(units), 2)]
    return "".join(
        f"\\{chr(c)}" if chr(c) in special else chr(c) if 32 < c < 127 else f"\\u{c:04x}"
        for c in codes
    )


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.dictionaries(WORDS, WORDS, min_size=1))
def test_what_java_writes_is_read_back(properties: dict[str, str]) -> None:
    lines = [
        f"{escaped(key, ' =:#!' + chr(92))}={escaped(value, chr(92) + '#!=:')}"
        for key, value in properties.items()
    ]
    read = read_properties("\n".join(lines).encode("latin-1"), "f")
    assert read == {key: value.strip() for key, value in properties.items()}


@pytest.mark.parametrize(
    ("content", "key", "reason"),
    [
        ("", "file", "is empty"),
        ("# nothing", "file", "is empty"),
        ("a=\\u12", "file", "four hex digits"),
        ("a=b", "clusters", "is required"),
        ("clusters = ", "clusters", "is required"),
        ("clusters = a b", "clusters", "'a b' is not a valid alias"),
    ],
)
def test_a_file_that_holds_no_clusters_is_refused(
    tmp_path: Path, content: str, key: str, reason: str
) -> None:
    error = refused(properties_file(tmp_path, start=content))
    assert error.key == key
    assert reason in str(error)


# --- which flows ---------------------------------------------------------------------------------


def test_only_enabled_flows_are_read_in_the_order_of_the_clusters(tmp_path: Path) -> None:
    file = properties_file(
        tmp_path,
        start="clusters=c, a, b\n"
        + "".join(f"{alias}.bootstrap.servers={alias}:1\n" for alias in "abc")
        + "a->b.enabled=true\nb->a.enabled=false\nc->a.enabled=TRUE\n",
    )
    assert [flow.name for flow in load_flows(file)] == ["c->a", "a->b"]


def test_enabled_for_all_flows_holds_where_a_flow_does_not_say_otherwise(tmp_path: Path) -> None:
    file = properties_file(tmp_path, "enabled=true\nprimary->backup.enabled=false")
    assert [flow.name for flow in load_flows(file)] == ["backup->primary"]


def test_a_cluster_of_no_enabled_flow_needs_no_brokers(tmp_path: Path) -> None:
    start = PROPERTIES.replace("clusters = ", "clusters = spare, ")
    assert len(load_flows(properties_file(tmp_path, start=start))) == 1


# --- precedence: MirrorMakerConfig, MirrorConnectorConfig ----------------------------------------


@pytest.mark.parametrize(
    ("more", "topics"),
    [
        ("", (".*",)),
        ("topics=a", ("a",)),
        ("topics=a\nprimary->backup.topics=b, c", ("b", "c")),
        ("primary->backup.topics=b\ntopics=a", ("b",)),
        ("backup->primary.topics=b", (".*",)),
    ],
)
def test_what_a_flow_says_overrides_what_holds_for_all(
    tmp_path: Path, more: str, topics: tuple[str, ...]
) -> None:
    assert the_flow(tmp_path, more).topics == topics


def test_every_option_of_a_flow_can_be_set_for_all_or_for_one(tmp_path: Path) -> None:
    flow = the_flow(
        tmp_path,
        """
replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
replication.policy.separator = _
replication.factor = 3
writers = 4
transaction.max.bytes = 1MiB
primary->backup.writers = 5
primary->backup.topics.exclude = x
schedule =
""",
    )
    assert flow.replication_policy_class == "IdentityReplicationPolicy"
    assert flow.replication_policy_separator == "_"
    assert (flow.replication_factor, flow.writers) == (3, 5)
    assert flow.transaction_max_bytes == 1024 * 1024
    assert flow.topics_exclude == ("x",)
    assert flow.schedule is None


SSL = "security.protocol"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        # shared by the clusters < the cluster's < the role's in that cluster
        (f"{SSL}=SSL", "SSL"),
        (f"{SSL}=SSL\nprimary.{SSL}=PLAINTEXT", "PLAINTEXT"),
        (f"backup.{SSL}=SSL", None),
        (f"primary.{SSL}=SSL\nprimary.consumer.{SSL}=PLAINTEXT", "PLAINTEXT"),
        # the flow's consumer.x < the cluster's, shared too < the flow's source.consumer.x
        (f"primary->backup.consumer.{SSL}=SSL", "SSL"),
        (f"primary->backup.consumer.{SSL}=SSL\nprimary.{SSL}=PLAINTEXT", "PLAINTEXT"),
        (f"primary->backup.consumer.{SSL}=SSL\n{SSL}=PLAINTEXT", "PLAINTEXT"),
        (f"primary->backup.source.consumer.{SSL}=SSL\nprimary.consumer.{SSL}=PLAINTEXT", "SSL"),
        (f"primary->backup.target.consumer.{SSL}=SSL", None),
        # source.cluster.x replaces the cluster's own, except where that was handed to its clients
        (f"primary->backup.source.cluster.{SSL}=SSL", "SSL"),
        (f"primary->backup.source.cluster.{SSL}=SSL\nprimary.{SSL}=PLAINTEXT", "PLAINTEXT"),
        (f"primary->backup.target.cluster.{SSL}=SSL", None),
        # dropped by MirrorMaker 2
        (f"consumer.{SSL}=SSL", None),
        (f"primary->backup.{SSL}=SSL", None),
    ],
)
def test_the_sources_consumer_is_configured_in_mirrormaker_2s_order(
    tmp_path: Path, more: str, expected: str | None
) -> None:
    source = the_flow(tmp_path, more).source
    assert source.client_properties("consumer").get(SSL) == expected


@pytest.mark.parametrize(
    ("more", "level"),
    [
        ("", "read_committed"),
        ("primary.consumer.isolation.level = read_uncommitted", "read_uncommitted"),
        ("primary->backup.consumer.isolation.level = read_uncommitted", "read_uncommitted"),
        ("primary->backup.source.consumer.isolation.level = read_uncommitted", "read_uncommitted"),
        ("backup.consumer.isolation.level = read_uncommitted", "read_committed"),
        ("isolation.level = read_uncommitted", "read_uncommitted"),
        (
            "isolation.level = read_committed\nprimary.consumer.isolation.level = read_uncommitted",
            "read_committed",
        ),
    ],
)
def test_the_isolation_level_of_the_sources_consumer_is_the_flows(
    tmp_path: Path, more: str, level: str
) -> None:
    flow = the_flow(tmp_path, more)
    assert flow.isolation_level == level
    assert "isolation.level" not in flow.source.client_properties("consumer")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("backup.producer.linger.ms=1", "1"),
        ("primary.producer.linger.ms=1", None),
        ("primary->backup.producer.linger.ms=1", "1"),
        ("primary->backup.producer.linger.ms=1\nbackup.producer.linger.ms=2", "2"),
        ("backup.producer.linger.ms=2\nprimary->backup.target.producer.linger.ms=3", "3"),
        ("backup.producer.linger.ms=2\nprimary->backup.producer.override.linger.ms=4", "4"),
    ],
)
def test_the_targets_producer_is_configured_in_mirrormaker_2s_order(
    tmp_path: Path, more: str, expected: str | None
) -> None:
    target = the_flow(tmp_path, more).target
    assert target.client_properties("producer").get("linger.ms") == expected


def test_client_properties_of_a_role_pass_unchecked(tmp_path: Path) -> None:
    flow = the_flow(tmp_path, "primary.admin.any.thing=1\nprimary->backup.source.admin.x=2")
    assert flow.source.client_properties("admin")["any.thing"] == "1"
    assert flow.source.client_properties("admin")["x"] == "2"


# --- what is ignored, what is refused ------------------------------------------------------------


@pytest.mark.parametrize("said", ["", "true", "false"])
def test_heartbeats_are_copied_as_mirrormaker_2_does(tmp_path: Path, said: str) -> None:
    flow = the_flow(tmp_path, f"heartbeats.replication.enabled = {said}" if said else "")
    assert flow.heartbeats_replication_enabled is (said != "false")


@pytest.mark.parametrize(
    ("more", "begins"),
    [
        ("", "earliest"),
        ("primary.consumer.auto.offset.reset = latest", "latest"),
        ("primary->backup.source.consumer.auto.offset.reset = latest", "latest"),
        ("backup.consumer.auto.offset.reset = latest", "earliest"),
        ("auto.offset.reset = earliest\nprimary.consumer.auto.offset.reset = latest", "earliest"),
    ],
)
def test_where_the_sources_consumer_begins_is_where_the_flow_does(
    tmp_path: Path, more: str, begins: str
) -> None:
    flow = the_flow(tmp_path, more)
    assert flow.auto_offset_reset == begins
    assert "auto.offset.reset" not in flow.source.client_properties("consumer")


def test_options_of_mirrormaker_2_without_effect_are_listed_with_the_reason(tmp_path: Path) -> None:
    flow = the_flow(
        tmp_path,
        """
tasks.max = 4
emit.heartbeats.interval.seconds = 5
offset.storage.replication.factor = 1
consumer.poll.timeout.ms = 1
consumer.client.id = x
source.consumer.client.id = x
primary.client.id = x
backup.exactly.once.source.support = enabled
primary->backup.sync.group.offsets.interval.seconds = 30
primary->backup.source.cluster.client.id = x
primary->backup.ssl.protocol = TLS
primary->backup.config.providers = file
backup->primary.groups = x
backup.producer.compression.type = zstd
primary->backup.producer.override.batch.size = 1
primary.consumer.max.poll.records = 1
primary.ssl.provider = x
primary.consumer.sasl.login.class = x
sasl.kerberos.kinit.cmd = kinit
primary->backup.source.cluster.ssl.provider = x
""",
    )
    ignored = dict(flow.ignored)
    reasons = {
        "tasks.max": "writers says",
        "emit.heartbeats.interval.seconds": "each run writes them",
        "offset.storage.replication.factor": "together with the records",
        "consumer.poll.timeout.ms": "waits for nothing",
        "consumer.client.id": "only after a cluster's alias",
        "source.consumer.client.id": "only after source->target",
        "primary.client.id": "only MirrorMaker 2's workers",
        "backup.exactly.once.source.support": "exactly once",
        "primary->backup.sync.group.offsets.interval.seconds": "each run syncs",
        "primary->backup.source.cluster.client.id": "only how to connect",
        "primary->backup.ssl.protocol": "only after a cluster's alias",
        "primary->backup.config.providers": "only without a cluster or a flow",
        "backup.producer.compression.type": "keep the compression",
        "primary->backup.producer.override.batch.size": "join.batches.below",
        "primary.consumer.max.poll.records": "fetch.max.bytes",
        "primary.ssl.provider": "Java",
        "primary.consumer.sasl.login.class": "Java",
        "sasl.kerberos.kinit.cmd": "half of their life",
        "primary->backup.source.cluster.ssl.provider": "Java",
    }
    assert ignored.keys() == reasons.keys()
    for key, reason in reasons.items():
        assert reason in ignored[key]


def test_transforms_after_a_flow_become_its_rule_and_above_it_are_refused(tmp_path: Path) -> None:
    lines = (
        "transforms = drop, mark",
        "transforms.drop.type = org.apache.kafka.connect.transforms.Filter",
        "transforms.drop.predicate = test",
        "transforms.mark.type = InsertHeader",
        "transforms.mark.header = from",
        "transforms.mark.value.literal = primary",
        "predicates = test",
        "predicates.test.type = TopicNameMatches",
        "predicates.test.pattern = primary\\\\.test.*",
    )
    of_flow = [f"primary->backup.{line}" for line in lines]
    for policy, name in (("Default", "concat('primary-', topic)"), ("Identity", "topic")):
        policies = (
            "replication.policy.separator = -",
            f"replication.policy.class = {policy}ReplicationPolicy",
        )
        (rule,) = the_flow(tmp_path, "\n".join((*policies, *of_flow))).transform
        assert rule.where == rf"not ({name} rlike '\\A(?:primary\\.test.*)\\z')"
        assert rule.set == (("headers['from']", "'primary'"),)
        assert rule.applies_to("anything")

    # MirrorMaker 2 keeps the lists for all flows, and nothing else of it.
    shared = "transforms = drop, mark\npredicates = test"
    assert the_flow(tmp_path, "\n".join((shared, *of_flow[1:6], *of_flow[7:]))).transform
    error = refused(properties_file(tmp_path, "\n".join(lines)))
    assert error.key == "primary->backup.transforms.drop.type"
    wrong = [*of_flow, "primary->backup.transforms.mark.headers = x"]
    error = refused(properties_file(tmp_path, "\n".join(wrong)))
    assert error.key == "primary->backup.transforms.mark.headers"
    assert "Did you mean 'transforms.mark.header'?" in str(error)


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("topic.filter.class", "org.apache.kafka.connect.mirror.DefaultTopicFilter"),
        ("topic.filter.class", "DefaultTopicFilter"),
        ("config.property.filter.class", "DefaultConfigPropertyFilter"),
        ("group.filter.class", "DefaultGroupFilter"),
        ("forwarding.admin.class", "org.apache.kafka.clients.admin.ForwardingAdmin"),
    ],
)
def test_mirrormaker_2s_own_classes_may_be_named_and_no_others(
    tmp_path: Path, key: str, default: str
) -> None:
    flow = the_flow(tmp_path, f"{key}={default}\nprimary->backup.{key}={default}")
    assert flow.ignored == ()
    for scope in ("", "primary->backup."):
        error = refused(properties_file(tmp_path, f"{scope}{key} = company.Other"))
        assert error.key == f"{scope}{key}"
        assert "'company.Other' cannot run here" in str(error)


@pytest.mark.parametrize(
    ("more", "key", "reason"),
    [
        ("primary->backup.enabled=yes", "primary->backup.enabled", "must be true or false"),
        ("writers=many", "writers", "whole number"),
        ("writers=1_0", "writers", "whole number"),
        ("topics=foo.*, bar.* # override", "topics", "'bar.* # override' holds a blank or '#'"),
        ("primary->backup.topics=.* # all", "primary->backup.topics", "needs a line of its own"),
        ("topics.exclude=a #", "topics.exclude", "'a #' holds a blank or '#'"),
        ("topics.optional=a#b", "topics.optional", "'a#b' holds a blank or '#'"),
        ("groups=mine, yours too", "groups", "put a comma between names, 'yours, too'"),
        ("groups.exclude=connect-.* # others", "groups.exclude", "is '#'"),
        ("config.properties.exclude=segment.ms # no", "config.properties.exclude", "blank or '#'"),
        ("offsets=a b:preserved", "offsets", "'a b' holds a blank"),
        ("topics.start=orders:latest # later", "topics.start", "must be earliest, latest"),
        ("topics.rename=a:b # c", "topics.rename", "must be a topic's name"),
        ("writers=3.0", "writers", "whole number"),
        ("deadline=30", "deadline", "must be a span of time"),
        ("start.date=20260101", "start.date", "must be a day or a moment"),
        ("emit.heartbeats.enabled=true # each second", "emit.heartbeats.enabled", "true or false"),
        ("primary->backup.topics=[", "primary->backup.topics", "not a valid regular expression"),
        ("primary.security.protocol=x", "primary.security.protocol", "must be one of"),
        (
            "primary.consumer.isolation.level=x",
            "primary.consumer.isolation.level",
            "read_committed",
        ),
        (
            "primary.consumer.auto.offset.reset=none",
            "primary.consumer.auto.offset.reset",
            "every partition begins somewhere",
        ),
        (
            "primary.consumer.auto.offset.reset=by_duration:P3D",
            "primary.consumer.auto.offset.reset",
            "by_duration (KIP-1106) says is topics.start here",
        ),
        (
            "replication.policy.separatr=_",
            "replication.policy.separatr",
            "Did you mean 'replication.policy.separator'?",
        ),
        ("backup.bootstrap.servers=x", "backup.bootstrap.servers", "must list brokers"),
        ("backup.bootstrap.servers=", "backup.bootstrap.servers", "is required"),
        ("enabled=true\nbackup.bootstrap.servers=", "backup.bootstrap.servers", "is required"),
    ],
)
def test_a_wrong_value_is_reported_under_the_key_that_holds_it(
    tmp_path: Path, more: str, key: str, reason: str
) -> None:
    error = refused(properties_file(tmp_path, more))
    assert error.key == key
    assert reason in str(error)
    assert str(error).count(reason) == 1


@pytest.mark.parametrize(
    ("start", "key", "reason"),
    [
        ("enabled = true", "file", "enables 870 flows, and a file may have 500"),
        (f"clusters = {','.join(f'c{n}' for n in range(501))}", "clusters", "lists 501 clusters"),
        (
            "\n".join(f"x{n} = 1" for n in range(10_000)),
            "file",
            "has 10,031 keys, and may have 10,000",
        ),
        # Each of a cluster's flows has them.
        (
            "\n".join(f"c3.consumer.x{n} = 1" for n in range(1_000)),
            "c3",
            "has 1,001 keys, and may have 1,000",
        ),
        (
            "\n".join(f"c{n}->c0.enabled = true" for n in range(1, 30))
            + f"\nschedule.assets = {','.join(f'a{n}' for n in range(60))}",
            "schedule.assets",
            "names 1,740 in all flows, and a file may name 1,000",
        ),
        # Each flow checks the topics that all of them have, and is read again for its opposite flow.
        (
            "\n".join(f"c{n}->c0.enabled = true" for n in range(1, 30))
            + f"\ntopics = {','.join(f'topic-{n:06}' for n in range(100_000))}",
            "file",
            "characters for its 29 flows, those that they share for each, and may have 8,388,608",
        ),
    ],
)
def test_a_file_of_too_much_is_refused(tmp_path: Path, start: str, key: str, reason: str) -> None:
    aliases = [f"c{number}" for number in range(30)]
    brokers = "\n".join(f"{alias}.bootstrap.servers = {alias}:9092" for alias in aliases)
    text = f"clusters = {','.join(aliases)}\n{brokers}\n{start}\n"

    error = refused(properties_file(tmp_path, start=text))

    assert error.key == key
    assert reason in str(error)


def test_what_may_enable_any_of_many_flows_is_read_once(tmp_path: Path) -> None:
    clusters = ",".join(f"c{number}" for number in range(100))
    text = f"config.providers = a\nclusters = {clusters}\nemit.heartbeats.enabled = {'${a:b},' * 9_000}"
    began = process_time()
    assert refused(properties_file(tmp_path, start=text)).key == "emit.heartbeats.enabled"
    assert process_time() - began < 5


def test_all_problems_of_a_file_are_listed(tmp_path: Path) -> None:
    error = refused(properties_file(tmp_path, "nonsense=1\nwriters=0\nprimry.consumer.x=1"))
    assert error.key == "nonsense"
    for line, key in ((5, "nonsense"), (6, "writers"), (7, "primry.consumer.x")):
        assert f"{error.file}:{line}: {key}: " in str(error)


def test_secrets_never_stand_in_an_error(tmp_path: Path) -> None:
    error = refused(
        properties_file(
            tmp_path, "primary.ssl.key.passwords=hunter2\nnotify=hunter2\nwriters=u:hunter2@a"
        )
    )
    assert "hunter2" not in str(error)


@pytest.mark.parametrize(
    ("lines", "flows"),
    [
        # What clusterPairs and connectorBaseConfig of MirrorMaker 2 4.3.1 come to.
        ("enabled=true", ["primary->backup", "backup->primary"]),
        ("enabled=true\nemit.heartbeats.enabled=false", []),
        ("enabled=true\nbackup->primary.emit.heartbeats.enabled=false", ["primary->backup"]),
        (
            "enabled=true\nemit.heartbeats.enabled=false\nbackup->primary.emit.heartbeats.enabled=true",
            ["backup->primary"],
        ),
        ("enabled=true\nprimary->backup.enabled=false", ["backup->primary"]),
        ("emit.heartbeats.enabled=false\nprimary->backup.enabled=true", ["primary->backup"]),
        ("primary->backup.emit.heartbeats.enabled=true", []),
    ],
)
def test_the_flows_are_those_that_mirrormaker_2_starts(
    tmp_path: Path, lines: str, flows: list[str]
) -> None:
    start = PROPERTIES.replace("primary->backup.enabled = true\n", "")
    found = load_flows(properties_file(tmp_path, lines, start=start))
    assert [flow.name for flow in found] == flows


def test_heartbeats_without_a_flow_are_named(tmp_path: Path) -> None:
    flow = the_flow(tmp_path, "backup->primary.emit.heartbeats.enabled = true")
    ((key, why),) = flow.ignored
    assert key == "backup->primary.emit.heartbeats.enabled"
    assert "only a flow does" in why


def test_a_reporter_of_3_9_has_no_meaning_and_is_named(tmp_path: Path) -> None:
    flow = the_flow(tmp_path, "auto.include.jmx.reporter = true")
    assert [key for key, _ in flow.ignored] == ["auto.include.jmx.reporter"]


def test_settings_of_a_policy_of_ones_own_reach_it(tmp_path: Path) -> None:
    flow = the_flow(
        tmp_path,
        "replication.policy.class=company.naming.ByTeam\nreplication.policy.my.setting=a\n"
        "replication.policy.other=b\nprimary->backup.replication.policy.my.setting=c",
    )
    assert flow.policy_settings == (
        ("replication.policy.my.setting", "c"),
        ("replication.policy.other", "b"),
    )


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("consumer.fetch.max.byte", "no Kafka client knows it. Did you mean 'fetch.max.bytes'?"),
        ("producer.lingerms", "no Kafka client knows it. Did you mean 'linger.ms'?"),
        ("admin.company.setting", "no Kafka client knows it."),
        ("consumer.metadata.max.age.ms", "read again in each run"),
        ("consumer.default.api.timeout.ms", "no client here has such a setting"),
    ],
)
def test_a_clients_property_that_does_nothing_is_named(tmp_path: Path, key: str, why: str) -> None:
    ((told, reason),) = the_flow(tmp_path, f"primary.{key} = 1").ignored
    assert told == f"primary.{key}"
    assert why in reason
    yaml = tmp_path / "flow.yaml"
    yaml.write_text(
        f"source: {{alias: a, bootstrap.servers: 'a:1', {key}: 1}}\n"
        "target: {alias: b, bootstrap.servers: 'b:1'}\n"
    )
    (flow,) = load_flows(yaml)
    assert flow.ignored == ((f"source.{key}", reason),)


@pytest.mark.parametrize(
    "key",
    [
        "receive.buffer.bytes",
        "send.buffer.bytes",
        "reconnect.backoff.ms",
        "connections.max.idle.ms",
        "socket.connection.setup.timeout.ms",
        "client.dns.lookup",
        "request.timeout.ms",
    ],
)
def test_what_binds_both_planes_is_passed_on(tmp_path: Path, key: str) -> None:
    flow = the_flow(tmp_path, f"primary.consumer.{key} = 1000")
    assert flow.ignored == ()
    assert key in KAFKA_PYTHON and key in LIBRDKAFKA


def test_a_comment_after_the_clusters_makes_no_alias(tmp_path: Path) -> None:
    start = PROPERTIES.replace("clusters = primary, backup", "clusters = primary, backup # two")
    error = refused(properties_file(tmp_path, start=start))
    assert (error.key, error.reason) == ("clusters", "'backup # two' is not a valid alias.")


def test_a_group_may_have_a_blank_in_its_id(tmp_path: Path) -> None:
    flow = the_flow(tmp_path, r"groups = my\\x20group, number\\x23one")
    assert flow.group_filter.matches("my group")
    assert flow.group_filter.matches("number#one")
