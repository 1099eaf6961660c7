"""What became of offsets that are not on the target: seen in the ledger, judged, and in the report."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.errors import VerificationFailed
from kafka_ferry.runs import Run
from kafka_ferry.runs.verify import verify as verify_module
from kafka_ferry.runs.verify.read_back import read_back
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import (
    Record,
    delete_before,
    delete_topic,
    produce,
    read_all,
    recreate_topic,
    set_config,
)
from tests.support.runs.flows import copy_now, copy_planned, failures, plan_now, remote
from tests.support.runs.pair import Pair
from tests.support.runs.proof import NO_SPARK, prove, verified

pytestmark = pytest.mark.usefixtures("without_spark")


def write(broker: KafkaCluster, topic: str, *values: bytes) -> None:
    produce(broker.bootstrap, topic, [Record(value=value) for value in values])


def values(broker: KafkaCluster, topic: str) -> list[bytes | None]:
    return [record.value for record in read_all(broker.bootstrap, topic)[0]]


def test_offsets_that_retention_took_are_named_in_the_report_of_a_verified_run(pair: Pair) -> None:
    topic = pair.topic("truncated")
    flow = pair.flow([topic], on_source_truncation="continue")
    write(pair.primary, topic, b"0", b"1")
    assert not failures(copy_now(flow, "run-1"))
    write(pair.primary, topic, b"2", b"3", b"4")
    delete_before(pair.primary, topic, 4)

    report = prove(flow, "run-2")

    assert (report.state, report.counts.lost) == ("verified", 2)
    sentence = "2 offsets were deleted on the source before they were copied."
    assert report.counts.losses == (f"{topic}-0 [2, 4): {sentence}",)
    assert report.proof.verdict
    assert "2 offsets deleted on the source" in report.proof.verdict.warnings[0]
    assert report.topics.notes
    assert values(pair.backup, remote(flow, topic)) == [b"0", b"1", b"4"]


def test_times_that_the_target_replaced_for_a_while_are_noticed(pair: Pair) -> None:
    topic = pair.topic("restamped")
    flow = pair.flow([topic])
    write(pair.primary, topic, b"0")
    assert not failures(copy_now(flow, "run-1"))
    write(pair.primary, topic, b"1")
    plan = plan_now(flow, "run-2")

    set_config(pair.backup, remote(flow, topic), "message.timestamp.type", "LogAppendTime")
    assert not failures(copy_planned(flow, plan))
    set_config(pair.backup, remote(flow, topic), "message.timestamp.type", "CreateTime")

    with pytest.raises(VerificationFailed, match=r"digest[^\0]*\n  What to do: "):
        verified(flow, "run-2")


def test_both_incarnations_of_a_topic_that_was_recreated_are_proved_in_one_remote_topic(
    pair: Pair,
) -> None:
    topic = pair.topic("appended")
    flow = pair.flow([topic], on_source_topic_recreated="append")
    write(pair.primary, topic, b"old 0", b"old 1", b"old 2")
    # This run is not verified: the next one has to.
    assert not failures(copy_now(flow, "run-1"))
    recreate_topic(pair.primary, topic)
    write(pair.primary, topic, b"new 0", b"new 1")

    report = prove(flow, "run-2")

    assert report.state == "verified"
    assert [
        (row.coverage.covered_start, row.coverage.covered_end) for row in report.proof.partitions
    ] == [(0, 3), (0, 2)]
    assert report.proof.verdict and not report.proof.verdict.warnings
    assert values(pair.backup, remote(flow, topic)) == [
        b"old 0",
        b"old 1",
        b"old 2",
        b"new 0",
        b"new 1",
    ]


def test_what_went_into_a_remote_topic_that_was_deleted_is_a_warning_once_it_is_copied_again(
    pair: Pair,
) -> None:
    topic = pair.topic("recopied")
    flow = pair.flow([topic], on_target_topic_lost="recopy")
    write(pair.primary, topic, b"0", b"1", b"2")
    assert not failures(copy_now(flow, "run-1"))
    delete_topic(pair.backup, remote(flow, topic))
    write(pair.primary, topic, b"3")

    second = prove(flow, "run-2")
    write(pair.primary, topic, b"4")
    third = prove(flow, "run-3")

    assert (second.state, third.state) == ("verified", "verified")
    assert second.proof.verdict and third.proof.verdict
    assert f"3 records went into {remote(flow, topic)}, which was deleted" in " ".join(
        second.proof.verdict.warnings
    )
    assert third.proof.verdict.warnings == (), "it is said once"
    assert values(pair.backup, remote(flow, topic)) == [b"0", b"1", b"2", b"3", b"4"]


# Between the reading and the verdict


def read_back_now(flow: Flow, run: str) -> None:
    """What the step ``mirror`` reads back while its Spark still runs."""
    read_back(NO_SPARK, Run(flow, run)._context, None)


def test_records_that_expire_after_they_were_read_back_are_told_with_the_verdict(
    pair: Pair,
) -> None:
    topic = pair.topic("expiring")
    flow = pair.flow([topic])
    write(pair.primary, topic, *(b"%d" % number for number in range(15)))
    assert not failures(copy_now(flow))
    read_back_now(flow, "run-1")
    delete_before(pair.backup, remote(flow, topic), 11)

    report = verified(flow, "run-1")

    (row,) = report.proof.ranges
    assert (row.recount.target_records, row.recount.expired) == (4, 11)
    assert report.proof.verdict
    assert "11 of 15 records below the log start" in " ".join(report.proof.verdict.warnings)


@pytest.mark.parametrize("when", ["after mirror", "while it is read back"])
@pytest.mark.parametrize("fate", ["deleted", "recreated"])
def test_a_remote_topic_that_is_lost_before_the_verdict_is_named_as_what_it_is(
    fate: str, when: str, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, other = pair.topic("lost"), pair.topic("other")
    flow = pair.flow([topic, other])
    for name in (topic, other):
        write(pair.primary, name, b"0", b"1", b"2")
    assert not failures(copy_now(flow))
    read_back_now(flow, "run-1")

    def lose() -> None:
        (delete_topic if fate == "deleted" else recreate_topic)(pair.backup, remote(flow, topic))

    if when == "after mirror":
        lose()
    else:
        read = verify_module._read_due

        def read_then_lose(*given: Any) -> Any:
            found = read(*given)
            lose()
            return found

        monkeypatch.setattr(verify_module, "_read_due", read_then_lose)

    with pytest.raises(VerificationFailed) as caught:
        verified(flow, "run-1")

    said = str(caught.value)
    assert f"{remote(flow, topic)}: another client has deleted it" in said
    assert ("created it again" in said) is (fate == "recreated")
    assert "in no range" not in said
    assert "missing" not in said
    assert other not in said
