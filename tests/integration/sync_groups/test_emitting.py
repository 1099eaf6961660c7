"""What a run writes for MirrorMaker 2's clients, on real brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.groups.mirrormaker2.record_formats import Checkpoint, Heartbeat
from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.runs import Run
from kafka_ferry.runs.audit.audit import Audit
from kafka_ferry.runs.audit.request import AuditRequest
from kafka_ferry.runs.publish.lag import lag
from kafka_ferry.spark.session import no_spark
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.access import deny
from tests.support.brokers.kafka_tools import LATEST, get_offsets
from tests.support.brokers.own_brokers import own_pair
from tests.support.records.builders import (
    Record,
    create_topic,
    delete_topic,
    produce,
    recreate_topic,
)
from tests.support.records.mirror_topics import (
    checkpoints_in,
    emit_now,
    heartbeats_in,
    moves_of,
    offset_syncs_in,
    trust,
)
from tests.support.runs.flows import copy_now, failures, make_flow, plan_now, remote
from tests.support.runs.pair import Pair
from tests.support.runs.proof import NO_SPARK, recount_here

NOTHING = GroupMoves(0)
COPIED = {"heartbeats_replication_enabled": True}


@pytest.fixture(scope="module")
def _pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Brokers of this module's own, since topics of heartbeats have one name: rights count on them."""
    with own_pair(tmp_path_factory.mktemp("pair"), {"super.users": "User:nobody"}) as pair:
        yield pair


@pytest.fixture(scope="module")
def primary(_pair: tuple[KafkaCluster, KafkaCluster]) -> KafkaCluster:
    return _pair[0]


@pytest.fixture(scope="module")
def backup(_pair: tuple[KafkaCluster, KafkaCluster]) -> KafkaCluster:
    return _pair[1]


@pytest.fixture
def topic(primary: KafkaCluster, unique: Callable[[str], str]) -> str:
    """A topic with 100 records, of which the target will have a marker after the last one."""
    topic = unique("orders")
    create_topic(primary.bootstrap, topic)
    write(primary, topic, 100)
    return topic


def write(broker: KafkaCluster, topic: str, count: int) -> None:
    produce(broker.bootstrap, topic, [Record(value=b"%d" % i) for i in range(count)])


def a_flow(
    folder: Path, source: KafkaCluster, target: KafkaCluster, topics: list[str], **options: object
) -> Flow:
    """A flow that writes what flows write by default."""
    return make_flow(folder, source, target, topics, **{"emit_heartbeats_enabled": True, **options})


def copy(flow: Flow, run: str = "run-1") -> None:
    """Copies what there is, and has it count as verified."""
    assert not failures(copy_now(flow, run))
    trust(flow)


def topics_of(broker: KafkaCluster) -> dict[str, int]:
    """Topics of a cluster with their partitions."""
    found = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=10).topics
    return {name: len(topic.partitions) for name, topic in found.items()}


# Checkpoints


def test_a_checkpoint_says_where_a_group_goes_on(pair: Pair, topic: str) -> None:
    flow = a_flow(pair.folder, pair.primary, pair.backup, [topic])
    copy(flow)
    source, target = TopicPartition(topic, 0), TopicPartition(remote(flow, topic), 0)

    assert emit_now(flow, moves_of(flow, {"billing": {source: 40}}, "as of noon")) == []

    checkpoints = f"{pair.folder.name}.checkpoints.internal"
    assert checkpoints_in(pair.backup, checkpoints) == [
        Checkpoint("billing", target, 40, 40, "as of noon")
    ]
    assert topics_of(pair.backup)[checkpoints] == 1


def test_only_what_has_changed_is_written_and_the_newest_stands_last(
    pair: Pair, topic: str
) -> None:
    flow = a_flow(pair.folder, pair.primary, pair.backup, [topic])
    copy(flow)
    source = TopicPartition(topic, 0)

    for ahead, behind in ((40, 10), (40, 10), (60, 10), (60, 5)):
        moves = moves_of(flow, {"ahead": {source: ahead}, "behind": {source: behind}})
        assert emit_now(flow, moves) == []

    written = checkpoints_in(pair.backup, f"{pair.folder.name}.checkpoints.internal")
    assert [(it.group, it.upstream, it.downstream) for it in written] == [
        ("ahead", 40, 40),
        ("behind", 10, 10),
        ("ahead", 60, 60),
        # A group that was set back on the source goes back here too.
        ("behind", 5, 5),
    ]


def test_checkpoints_are_written_again_to_a_topic_that_was_recreated(
    pair: Pair, topic: str
) -> None:
    flow = a_flow(pair.folder, pair.primary, pair.backup, [topic])
    copy(flow)
    checkpoints = f"{pair.folder.name}.checkpoints.internal"
    moves = moves_of(flow, {"billing": {TopicPartition(topic, 0): 40}})
    emit_now(flow, moves)
    before = checkpoints_in(pair.backup, checkpoints)
    delete_topic(pair.backup, checkpoints)

    assert emit_now(flow, moves) == []

    assert checkpoints_in(pair.backup, checkpoints) == before


def test_offsets_that_stay_the_same_have_checkpoints_of_the_same_number(
    pair: Pair, topic: str
) -> None:
    flow = a_flow(
        pair.folder,
        pair.primary,
        pair.backup,
        [topic],
        offsets="preserved",
        checkpoints_topic_replication_factor=-1,
    )
    copy(flow)

    emit_now(flow, moves_of(flow, {"billing": {TopicPartition(topic, 0): 77}}))

    (checkpoint,) = checkpoints_in(pair.backup, f"{pair.folder.name}.checkpoints.internal")
    assert (checkpoint.upstream, checkpoint.downstream) == (77, 77)


def test_what_has_no_right_answer_and_what_is_no_consumer_groups_has_no_checkpoint(
    pair: Pair, topic: str
) -> None:
    flow = a_flow(pair.folder, pair.primary, pair.backup, [topic])
    source, target = TopicPartition(topic, 0), TopicPartition(remote(flow, topic), 0)
    copy(flow)
    right = PartitionMove(source, Committed(1), target=target, offset=1, kind="exact")
    moves = GroupMoves(
        now_ms(),
        (
            GroupMove(Group("deleted"), (replace(right, committed=None, action="deleted"),)),
            GroupMove(Group("held"), (replace(right, action="held", reason="has members"),)),
            GroupMove(Group("nowhere"), (replace(right, target=None),)),
            GroupMove(Group("shared", type="share"), (right,)),
            GroupMove(Group("unknown"), (replace(right, offset=None),)),
        ),
    )

    assert emit_now(flow, moves) == []

    # What keeps an offset from being committed does not make its translation less right.
    (checkpoint,) = checkpoints_in(pair.backup, f"{pair.folder.name}.checkpoints.internal")
    assert checkpoint.group == "held"


# Heartbeats


def test_a_run_beats_once_in_both_topics_of_heartbeats(pair: Pair, topic: str) -> None:
    flow = a_flow(pair.folder, pair.primary, pair.backup, [topic])
    copy(flow)
    began = now_ms()
    for _ in range(2):
        assert emit_now(flow, NOTHING) == []
    for name in ("heartbeats", f"{pair.folder.name}.heartbeats"):
        beats = heartbeats_in(pair.backup, name, pair.folder.name)
        assert [replace(beat, timestamp=0) for beat in beats] == [
            Heartbeat(pair.folder.name, "backup", 0)
        ] * 2
        first, second = (beat.timestamp for beat in beats)
        assert began <= first <= second <= now_ms()


@pytest.fixture
def beat(primary: KafkaCluster) -> Iterator[Callable[[], Heartbeat]]:
    """Writes a heartbeat on the source, whose topic is made for the first one, and gone afterwards."""
    made: list[Heartbeat] = []

    def once() -> Heartbeat:
        if not made:
            create_topic(primary.bootstrap, "heartbeats", cleanup_policy="compact")
        made.append(Heartbeat("elsewhere", "here", len(made)))
        produce(primary.bootstrap, "heartbeats", [Record(made[-1].key(), made[-1].value())])
        return made[-1]

    yield once
    if made:
        delete_topic(primary, "heartbeats")


def test_heartbeats_of_the_source_are_copied_as_soon_as_it_has_any(
    pair: Pair, topic: str, beat: Callable[[], Heartbeat], monkeypatch: pytest.MonkeyPatch
) -> None:
    recount_here(monkeypatch)
    flow = a_flow(pair.folder, pair.primary, pair.backup, [topic], **COPIED)
    beats = remote(flow, "heartbeats")
    copy(flow)
    assert emit_now(flow, NOTHING) == []
    own = heartbeats_in(pair.backup, beats, pair.folder.name)

    theirs = [beat()]
    assert not failures(copy_now(flow, "run-2"))
    assert emit_now(flow, NOTHING) == []
    theirs.append(beat())
    assert not failures(copy_now(flow, "run-3"))

    verdict = Run(flow, "run-3").verify(NO_SPARK)
    assert verdict.success
    assert (verdict.records, verdict.heartbeats) == (2, 2)
    assert len(own) == 1
    assert heartbeats_in(pair.backup, beats, pair.folder.name) == own
    assert heartbeats_in(pair.backup, beats, "elsewhere") == theirs
    assert len(heartbeats_in(pair.backup, "heartbeats", pair.folder.name)) == 2


def test_a_copy_of_heartbeats_that_another_mirror_has_filled_is_refused_as_others_are(
    pair: Pair, topic: str
) -> None:
    flow = a_flow(pair.folder, pair.primary, pair.backup, [topic], **COPIED)
    create_topic(pair.primary.bootstrap, "heartbeats", cleanup_policy="compact")
    mine = Heartbeat(pair.folder.name, "backup", 1)
    beats = remote(flow, "heartbeats")
    create_topic(pair.backup.bootstrap, beats, cleanup_policy="compact")
    for broker, name in ((pair.primary, "heartbeats"), (pair.backup, beats)):
        produce(broker.bootstrap, name, [Record(mine.key(), mine.value())])

    refused = plan_now(flow).remarks.refused
    delete_topic(pair.primary, "heartbeats")

    assert [it.topic for it in refused] == ["heartbeats"]


def test_neither_a_pattern_nor_an_audit_asks_for_the_heartbeats_of_other_flows(
    pair: Pair, topic: str, beat: Callable[[], Heartbeat]
) -> None:
    create_topic(pair.primary.bootstrap, empty := f"b.{pair.folder.name}.heartbeats")
    options = {"topics_optional": [".*heartbeats"]}
    flow = a_flow(pair.folder, pair.primary, pair.backup, [topic, ".*heartbeats"], **options)
    copy(flow)
    assert emit_now(flow, NOTHING) == []
    beat()
    copy(flow, "run-2")

    assert topics_of(pair.backup).keys() & {remote(flow, empty), remote(flow, topic)} == {
        remote(flow, topic)
    }
    assert heartbeats_in(pair.backup, remote(flow, "heartbeats"), "elsewhere") == []
    audit = Audit(flow, AuditRequest())
    assert audit.compare(audit.plan(), no_spark, lambda *_: None).state == "same"
    assert any("heartbeats of other flows" in note for note in audit.notes)
    # The run's own heartbeat lies where the copy of the source's would.
    audit = Audit(flow, AuditRequest(topics=("heartbeats",)))
    assert audit.compare(audit.plan(), no_spark, lambda *_: None).state == "differs"


def test_heartbeats_whose_offsets_will_be_preserved_have_an_empty_topic_until_they_come(
    pair: Pair, topic: str, beat: Callable[[], Heartbeat]
) -> None:
    flow = a_flow(pair.folder, pair.primary, pair.backup, [topic], offsets="preserved", **COPIED)
    beats = remote(flow, "heartbeats")
    copy(flow)
    assert emit_now(flow, NOTHING) == []
    assert get_offsets(pair.backup, beats, LATEST) == {0: 0}

    there = beat()
    copy(flow, "run-2")

    assert emit_now(flow, NOTHING) == []
    assert heartbeats_in(pair.backup, beats, "elsewhere") == [there]
    assert heartbeats_in(pair.backup, beats, pair.folder.name) == []


def test_an_applications_own_topic_of_heartbeats_is_none_of_mirrormakers(
    pair: Pair, topic: str
) -> None:
    """Neither one that no pattern selects, nor one whose copy would begin with the flow's own heartbeats."""
    beats = remote(make_flow(pair.folder, pair.primary, pair.backup, [topic]), "heartbeats")
    flow = a_flow(pair.folder, pair.primary, pair.backup, [topic], **COPIED)
    copy(flow)
    assert emit_now(flow, NOTHING) == []
    try:
        create_topic(pair.primary.bootstrap, "heartbeats")
        write(pair.primary, "heartbeats", 3)
        plan = plan_now(flow, "run-2")
        (skipped,) = [it for it in plan.remarks.skipped if it.topic == "heartbeats"]
        assert "topics does not select it" in skipped.reason
        assert {it.topic for it in plan.choices} == {topic}
        assert {it.topic for it in lag(flow)} == {topic}

        flow = a_flow(pair.folder, pair.primary, pair.backup, [topic, "heart.*"], **COPIED)
        (refused,) = plan_now(flow, "run-3").remarks.refused
        assert refused.topic == "heartbeats"
        assert f"{beats} on backup holds records" in refused.reason
    finally:
        delete_topic(pair.primary, "heartbeats")


# Offset syncs


@pytest.mark.parametrize(
    ("location", "separator", "name"),
    [
        ("source", ".", "mm2-offset-syncs.{target}.internal"),
        ("target", ".", "mm2-offset-syncs.{source}.internal"),
        ("target", "__", "mm2-offset-syncs__{source}__internal"),
    ],
)
def test_offset_syncs_name_records_ever_closer_to_the_last_one(
    pair: Pair, topic: str, location: str, separator: str, name: str
) -> None:
    options = {
        "emit.offset-syncs.enabled": True,
        "offset-syncs.topic.location": location,
        "replication.policy.separator": separator,
    }
    flow = pair.flow([topic], into=pair.unique("backup"), **options)
    where = pair.primary if location == "source" else pair.backup
    there = name.format(source=pair.folder.name, target=flow.target.alias)
    copy(flow)

    for _ in range(2):
        assert emit_now(flow, NOTHING) == []

    syncs = offset_syncs_in(where, there)
    assert [sync.upstream for sync in syncs] == [0, 36, 68, 84, 92, 96, 98, 99]
    assert {sync.source for sync in syncs} == {TopicPartition(topic, 0)}
    assert all(sync.upstream == sync.downstream for sync in syncs)

    write(pair.primary, topic, 10)
    copy(flow, "run-2")
    assert emit_now(flow, NOTHING) == []
    later = offset_syncs_in(where, there)[len(syncs) :]
    # A transaction's marker stands between.
    assert (later[-1].upstream, later[-1].downstream) == (109, 110)
    assert later[0].upstream == 0


def test_a_topic_that_was_recreated_begins_its_offset_syncs_again(pair: Pair, topic: str) -> None:
    options = {
        "emit.offset-syncs.enabled": True,
        "offset-syncs.topic.location": "target",
        "on.source.topic.recreated": "append",
    }
    flow = a_flow(pair.folder, pair.primary, pair.backup, [topic], **options)
    copy(flow)
    emit_now(flow, NOTHING)
    recreate_topic(pair.primary, topic)
    write(pair.primary, topic, 2)
    copy(flow, "run-2")

    assert emit_now(flow, NOTHING) == []

    syncs = offset_syncs_in(pair.backup, f"mm2-offset-syncs.{pair.folder.name}.internal")
    # After the first hundred and their marker.
    assert [(sync.upstream, sync.downstream) for sync in syncs[-2:]] == [(0, 101), (1, 102)]


# Options and rights


def test_what_is_switched_off_is_not_there(pair: Pair, topic: str) -> None:
    flow = a_flow(
        pair.folder,
        pair.primary,
        pair.backup,
        [topic],
        emit_checkpoints_enabled=False,
        emit_heartbeats_enabled=False,
    )
    copy(flow)
    assert emit_now(flow, moves_of(flow, {"billing": {TopicPartition(topic, 0): 40}})) == []
    of_flow = {name for name in topics_of(pair.backup) if pair.folder.name in name}
    assert of_flow == {remote(flow, topic), f"ferry-ledger.{pair.folder.name}.internal"}


def test_a_missing_right_is_named_with_what_switches_the_topic_off_and_others_are_written(
    pair: Pair, topic: str
) -> None:
    flow = a_flow(pair.folder, pair.primary, pair.backup, [topic], sync_topic_acls_enabled=False)
    copy(flow)
    checkpoints = f"{pair.folder.name}.checkpoints.internal"
    deny(pair.backup, f"topic {checkpoints}", "WRITE")

    (said,) = emit_now(flow, moves_of(flow, {"billing": {TopicPartition(topic, 0): 2}}))

    assert said.startswith(f"{checkpoints} on backup was not written: ")
    assert "TOPIC_AUTHORIZATION_FAILED" in said
    assert f"Grant WRITE on the topic {checkpoints}: " in said
    assert "emit.checkpoints.enabled: false" in said
    assert len(heartbeats_in(pair.backup, "heartbeats", pair.folder.name)) == 1


def test_without_the_right_to_read_checkpoints_all_are_written_again(
    pair: Pair, topic: str
) -> None:
    flow = a_flow(pair.folder, pair.primary, pair.backup, [topic], sync_topic_acls_enabled=False)
    copy(flow)
    moves = moves_of(flow, {"billing": {TopicPartition(topic, 0): 2}})
    checkpoints = f"{pair.folder.name}.checkpoints.internal"
    assert emit_now(flow, moves) == []
    deny(pair.backup, f"topic {checkpoints}", "READ")

    assert emit_now(flow, moves) == []

    ends = get_offsets(pair.backup, checkpoints, LATEST)
    assert ends == {0: 2}
