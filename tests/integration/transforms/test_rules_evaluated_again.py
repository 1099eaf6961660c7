"""The verification evaluates rules again: what the target holds is what they give for the source's records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import google_crc32c
import pytest

from kafka_ferry.config import Flow
from kafka_ferry.errors import VerificationFailed
from kafka_ferry.report import RunReport
from kafka_ferry.runs import Run
from kafka_ferry.runs.certificates import find_certificates
from kafka_ferry.spark.session import SparkSource, no_spark, terminal_spark
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.segments import rewrite
from tests.support.records.builders import Record, create_topic, delete_before, produce
from tests.support.runs.flows import make_flow, remote
from tests.support.runs.pair import Pair, Unique
from tests.support.runs.proof import report_of

SECRETS = {"config_providers": ["env"], "transform_secrets": {"salt": "${env:FERRY_SALT}"}}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSource]:
    with terminal_spark("rules again", 2) as spark:
        yield spark


def copied(flow: Flow, spark: SparkSource) -> Run:
    this = Run(flow, "run-1")
    this.plan()
    this.sync_topics()
    assert not [it.failure for it in this.mirror(spark) if it.failure]
    return this


def sentences(report: RunReport, check: str) -> list[str]:
    """What a check has found."""
    assert report.proof.verdict
    (found,) = (it for it in report.proof.verdict.expectations if it.key == check)
    return list(found.unexpected)


@pytest.mark.usefixtures("without_docs")
def test_a_record_that_was_changed_on_the_target_is_named_with_its_rule(
    folder: Path, primary: KafkaCluster, target: Broker, unique: Unique, spark: SparkSource
) -> None:
    topic = unique("people")
    create_topic(primary.bootstrap, topic)
    records = [Record(key=b"%d" % i, value=b'{"name":"ann%d","n":%d}' % (i, i)) for i in range(9)]
    produce(primary.bootstrap, topic, records)
    rule = {
        "topics": ["people.*"],
        "format": {"value": "json"},
        "where": "cast(value.n as int) % 2 = 0",
        "set": {"value.name": "upper(value.name)"},
    }
    flow = make_flow(folder, primary, target, [topic], transform=[rule])
    this = copied(flow, spark)
    rewrite(
        target,
        [remote(flow, topic)],
        lambda batch: with_crc(batch.replace(b"ANN4", b"ann4")) if b"ANN4" in batch else batch,
    )

    with pytest.raises(VerificationFailed) as raised:
        this.verify(spark)

    (sentence,) = sentences(report_of(flow, "run-1"), "transforms")
    assert sentence == (
        f"{topic}-0 [0, 9): 1 offset unlike the rule; rule 1 (people.*) for {topic}-0: offset 4 has another "
        "value than the rule gives"
    )
    assert sentence in str(raised.value)


def with_crc(batch: bytes) -> bytes:
    """A batch in format v2 that was changed, with the checksum of what it is now."""
    return batch[:17] + google_crc32c.value(batch[21:]).to_bytes(4, "big") + batch[21:]


@pytest.mark.long
def test_what_a_rule_gives_no_more_is_found_though_the_target_has_what_was_sent(
    pair: Pair, spark: SparkSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    filtered, masked = pair.unique("filtered"), pair.unique("masked")
    for topic in (filtered, masked):
        create_topic(pair.primary.bootstrap, topic)
        pair.produce(topic, [Record(key=b"ab"[i % 2 :][:1]) for i in range(10)])
    rules = [
        {"topics": [filtered], "where": "cast(key as string) = secret('salt')"},
        {"topics": [masked], "set": {"headers['salt']": "secret('salt')"}},
    ]
    flow = pair.flow([filtered, masked], transform=rules, **SECRETS)
    monkeypatch.setenv("FERRY_SALT", "a")
    this = copied(flow, spark)
    monkeypatch.setenv("FERRY_SALT", "b")

    with pytest.raises(VerificationFailed):
        this.verify(spark)

    report = report_of(flow, "run-1")
    assert report.proof.verdict
    assert [it.key for it in report.proof.verdict.expectations if it.failed] == ["transforms"]
    by_filter, by_mask = sorted(sentences(report, "transforms"))
    assert by_filter.startswith(f"{filtered}-0 [0, 10): 10 offsets unlike the rule; rule 1 ")
    assert "offset 0 is on the target, but the rule leaves it out" in by_filter
    assert "5 records that the rule keeps not on the target, from offsets 1 to 9" in by_filter
    assert "offset 0 has another headers than the rule gives" in by_mask


@pytest.mark.long
def test_a_range_that_the_source_has_no_more_is_never_counted_as_evaluated(
    pair: Pair, spark: SparkSource
) -> None:
    there, gone, off = pair.unique("there"), pair.unique("gone"), pair.unique("off")
    for topic in (there, gone, off):
        create_topic(pair.primary.bootstrap, topic)
        pair.produce(topic, [Record(key=b"%d" % i) for i in range(10)])
    rule = {"topics": ["there.*", "gone.*"], "set": {"value": "key"}}
    flow = make_flow(
        pair.folder,
        *(pair.primary, pair.backup, [there, gone, off]),
        transform=[rule],
        certificates_enabled=True,
    )
    this = copied(flow, spark)
    delete_before(pair.primary, gone, 10)

    # The step mirror does it while its Spark runs, so that verify needs none.
    this.read_back(spark)
    assert not this.needs_spark("verify")
    this.verify(no_spark)
    this.sync_groups()
    report = this.publish()

    assert report.state == "verified"
    found = {row.topic: (row.rule.evaluated, row.rule.unevaluated) for row in report.proof.ranges}
    assert found == {there: (10, 0), gone: (0, 10), off: (0, 0)}
    assert report.found == "30 records in 3 ranges; rules evaluated again for 10 offsets in 1 range"
    (sentence,) = sentences(report, "evaluated-again")
    assert f"{gone}-0 [0, 10): 10 offsets could not be evaluated again; rule 1 " in sentence
    (certificate,) = find_certificates(flow).all
    lines = {it["topic"]: it.get("evaluated_again") for it in certificate.ranges()}
    assert lines == {there: 10, gone: None, off: None}
