import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.config.options.verify import CHECKS, Severity
from kafka_ferry.errors import FerryError
from kafka_ferry.verify import ExpectationResult, PartitionRow, RangeRow, Terms, Verdict
from kafka_ferry.verify.checks import RANGES, WARNINGS, decisive
from kafka_ferry.verify.expectations import judge as judge_module
from kafka_ferry.verify.expectations.evaluation import MAX_LISTED
from kafka_ferry.verify.expectations.judge import SUITES
from kafka_ferry.verify.expectations.tables import Rows
from kafka_ferry.verify.topics import TopicRow
from tests.support.runs.reports import PARTITION, RANGE, changed

ACCOUNTED = "every source offset is a record on the target or has a reason"
AS_MANY = "the target holds as many records as were copied"
SAME_BYTES = "the target's bytes are those that were sent"
NO_OTHER_PRODUCER = "nothing lies between our records that the ledger does not have"
OFFSETS_KEPT = "records keep their source's offsets"
NO_GAP = "the ranges of a partition join without a gap"
NOT_TWICE = "no offset was copied twice"
AT_POSITION = "the ledger ends where the position is"
NOTHING_BEYOND = "nothing lies beyond what the ledger knows"
NOTHING_BEFORE = "nothing lies before the mirror's start"
FAR_ENOUGH = "the target's log goes as far as the ledger"
STARTS_THERE = "the target's log starts where the mirror does"
COVERED = "every planned offset is covered"
NOT_EXPIRED = "no copied record has expired on the target"
NOT_CLEANED = (
    "the target's cleaner has removed no record of a topic that the source does not compact"
)
NOT_LOST = "no record was lost before it could be copied"
NO_DEAD_LETTER = "no record went to the dead letter topic"
NOT_CUT_BACK = "the source's log was not truncated below what was copied"
MAPPED = "every copied record has its place in the offset map"
LOSSES_NAMED = "every lost offset is named"
REASONS = "every reason is one that this release knows"
SOURCE_COMPACTS = "compacted offsets lie where the source compacts"
PARTITIONS_THERE = "the remote topic has all partitions that it was planned with"
CONFIGS_THERE = "the remote topic's configs are as this flow has set them"
NOT_DRIFTED = "no other client has changed the remote topic's configs"
AS_RULES_GIVE = "the target has what the transform rules give for the source's records"
EVALUATED = "the rules of all chosen ranges could be evaluated again"
STILL_THERE = "the remote topic that was copied into is still there"

TOPIC = TopicRow("orders", "eu.orders", preserved=False, planned_partitions=4, partitions=4)


def judge(
    ranges: list[RangeRow],
    partitions: list[PartitionRow],
    docs: Path | None = None,
    topics: tuple[TopicRow, ...] = (TOPIC,),
    **severities: Severity,
) -> Verdict:
    rows: Rows = {"ranges": ranges, "partitions": partitions, "topics": topics}
    chosen = {name.replace("_", "-"): severity for name, severity in severities.items()}
    return judge_module.judge(rows, Terms("eu->us", "run 1", docs, chosen))


def not_true(verdict: Verdict) -> dict[str, ExpectationResult]:
    return {result.name: result for result in verdict.expectations if not result.success}


def test_a_complete_copy_is_a_success() -> None:
    verdict = judge([RANGE, changed(RANGE, start=200, end=300)], [PARTITION])
    assert verdict.success
    assert not verdict.failures
    assert not verdict.warnings
    assert (verdict.ranges, verdict.records, verdict.docs) == (2, 180, None)


def test_every_expectation_is_in_the_verdict_once() -> None:
    checks = [check.name for suite in SUITES for check in suite.checks]
    assert [result.name for result in judge([RANGE], [PARTITION]).expectations] == checks


def test_a_run_that_copied_nothing_is_a_success_with_no_ranges() -> None:
    verdict = judge([], [])
    assert verdict.success
    assert (verdict.ranges, verdict.records) == (0, 0)
    assert len(verdict.expectations) == len(CHECKS) - 2


def test_a_run_that_copied_nothing_needs_no_great_expectations(monkeypatch, tmp_path) -> None:
    judged = judge([], [], docs=tmp_path)
    assert (judged.docs, list(tmp_path.iterdir())) == (None, [])
    monkeypatch.setattr(judge_module, "_holds", lambda *_: False)
    assert judge([], [], docs=tmp_path).expectations == judged.expectations

    missing = replace(TOPIC, partitions=1, missing_partitions=3)
    monkeypatch.undo()
    assert judge([], [], topics=(missing,), docs=tmp_path).docs is not None


# What a row says, which check it violates, and the sentence.
Case = tuple[dict[str, Any], str, str]
BAD_RANGES: list[Case] = [
    ({"aborted": 7}, ACCOUNTED, "100 offsets, 99 accounted for"),
    ({"aborted": 9}, ACCOUNTED, "100 offsets, 101 accounted for"),
    (
        {"target_records": 89},
        AS_MANY,
        "90 records copied, 89 on the target, 0 expired, 0 compacted away",
    ),
    (
        {"target_records": 91},
        AS_MANY,
        "90 records copied, 91 on the target, 0 expired, 0 compacted away",
    ),
    ({"digest_read": "d2"}, SAME_BYTES, "digest d1 sent, d2 read back"),
    ({"foreign": 4}, NO_OTHER_PRODUCER, "4 records of another producer in eu.orders-3"),
    (
        {"foreign": 2, "foreign_at": 150, "foreign_by": 7},
        NO_OTHER_PRODUCER,
        "2 records of another producer in eu.orders-3, the first at offset 150 by producer 7",
    ),
    ({"misplaced": 30}, OFFSETS_KEPT, "30 records at other offsets in eu.orders-3"),
    ({"unmapped": 2}, MAPPED, "90 records copied, 2 without a place"),
    (
        {"evaluated": 90, "unlike_rule": 2, "evaluation": ("rule 1: this", "rule 1: that")},
        AS_RULES_GIVE,
        "2 offsets unlike the rule; rule 1: this; rule 1: that",
    ),
]
BAD_PARTITIONS: list[Case] = [
    ({"gap_offsets": 20}, NO_GAP, "20 offsets in between in no range"),
    ({"overlap_offsets": 1}, NOT_TWICE, "1 offset in more than one range"),
    (
        {"position": 180, "beyond_position": 20},
        AT_POSITION,
        "the ledger ends at 200, the position is 180",
    ),
    (
        {"position": -1, "beyond_position": 200},
        AT_POSITION,
        "the ledger ends at 200, no position",
    ),
    (
        {"target_beyond": 5},
        NOTHING_BEYOND,
        "5 records on the target after the ledger's last one",
    ),
    (
        {"target_beyond": 1, "beyond_at": 212, "beyond_by": 4001},
        NOTHING_BEYOND,
        "1 record on the target after the ledger's last one, the first at offset 212 by producer 4001",
    ),
    (
        {"target_beyond": 1, "beyond_at": 212},
        NOTHING_BEYOND,
        "1 record on the target after the ledger's last one, the first at offset 212 by a producer without an id",
    ),
    (
        {"target_before": 1_000},
        NOTHING_BEFORE,
        "1,000 records on the target before the ledger's first one",
    ),
    (
        {"unreached": 7},
        FAR_ENOUGH,
        "read_committed consumers of eu.orders do not get to its last 7 offsets",
    ),
    ({"exposed": 60}, STARTS_THERE, "eu.orders still shows 60 offsets before its start"),
    ({"planned_end": 250}, COVERED, "planned [100, 250), covered [100, 200)"),
    (
        {"planned_start": 90},
        COVERED,
        "planned [90, 200), covered [100, 200), and the position is 200 already",
    ),
]
LET_PASS: list[Case] = [
    (
        {"lost": 8, "aborted": 0, "lost_intervals": ((100, 107), (170, 171))},
        NOT_LOST,
        "8 offsets deleted on the source before they were copied: [100, 107), [170, 171)",
    ),
    ({"other_reasons": 3, "aborted": 5}, REASONS, "3 offsets for reasons of another release"),
    (
        {"compacted": 3, "aborted": 5},
        SOURCE_COMPACTS,
        "3 offsets without a record between others of the source's log, and by the run's plan the source does "
        "not compact the topic",
    ),
    ({"dead_lettered": 1, "aborted": 7}, NO_DEAD_LETTER, "1 record that eu.orders-3 rejected"),
    (
        {"rewound_from": 140},
        NOT_CUT_BACK,
        "truncated to 100: 40 offsets [100, 140) had been copied from a branch that is lost",
    ),
    (
        {"rewound_from": 140, "compaction_expected": True},
        NOT_CUT_BACK,
        "truncated to 100: 40 offsets [100, 140) had been copied from a branch that is lost; of keys that the "
        "source does not write again, its records stay the newest ones on the target",
    ),
    (
        {"gone": 90, "target_records": 0, "digest_read": "", "digest_comparable": False},
        STILL_THERE,
        "90 records went into eu.orders, which was deleted since",
    ),
    (
        {"unevaluated": 5, "evaluation": ("rule 1: the source ends before",)},
        EVALUATED,
        "5 offsets could not be evaluated again; rule 1: the source ends before",
    ),
]


def judged_at_once(cases: list[Case], row: Any) -> Verdict:
    """On a row for each case, of a topic with the case's number, beside rows that are as they should be."""
    rows = [changed(row, topic=f"t{at}", **fields) for at, (fields, _, _) in enumerate(cases)]
    return (
        judge([RANGE, *rows], [PARTITION]) if row is RANGE else judge([RANGE], [PARTITION, *rows])
    )


def sentences(verdict: Verdict) -> list[tuple[str, str, str, str]]:
    """All that is said of rows: the sentence, the check, its table and its severity."""
    return sorted(
        (sentence, result.name, result.table, result.severity)
        for result in verdict.expectations
        for sentence in result.unexpected
    )


@pytest.mark.parametrize(
    ("table", "row", "cases"),
    [("ranges", RANGE, BAD_RANGES), ("partitions", PARTITION, BAD_PARTITIONS)],
    ids=["ranges", "partitions"],
)
def test_a_row_fails_just_the_expectation_that_it_violates(
    table: str, row: Any, cases: list[Case]
) -> None:
    verdict = judged_at_once(cases, row)
    said = {f"t{at}-3 [100, 200): {it[2]}": it[1] for at, it in enumerate(cases)}
    assert sentences(verdict) == sorted((*it, table, "critical") for it in said.items())
    assert {*verdict.failures} == {f"{it} (expected: {name})" for it, name in said.items()}
    assert (verdict.success, verdict.warnings) == (False, ())


def test_leftovers_of_an_attempt_that_broke_off_are_no_failure() -> None:
    adopted = changed(RANGE, preserved=True, adopted=90, digest_comparable=False)
    verdict = judge([adopted], [changed(PARTITION, preserved=True, uncommitted=40)])
    assert verdict.success
    assert not verdict.warnings


def test_a_copy_that_is_compacted_as_its_source_is_needs_no_warning() -> None:
    removed = changed(
        RANGE,
        compacted=8,
        aborted=0,
        target_records=60,
        target_compacted=30,
        compaction_expected=True,
        digest_read="of the rest",
        digest_comparable=False,
    )
    verdict = judge([removed], [PARTITION])
    assert verdict.success
    assert not verdict.warnings


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"target_records": 60, "expired": 30}, NOT_EXPIRED),
        ({"target_records": 60, "target_compacted": 30}, NOT_CLEANED),
    ],
)
def test_what_the_target_has_removed_since_is_a_warning_and_no_failure(changes, name) -> None:
    removed = changed(RANGE, **changes, digest_read="of the rest", digest_comparable=False)
    verdict = judge([RANGE, removed], [PARTITION])
    assert verdict.success
    assert not verdict.failures
    assert list(not_true(verdict)) == [name]
    assert len(verdict.warnings) == 1
    assert verdict.warnings[0].startswith("orders-3 [100, 200): 30 of 90 records")


def test_what_a_policy_let_pass_is_a_warning_that_names_it_and_no_failure() -> None:
    verdict = judged_at_once(LET_PASS, RANGE)
    said = {f"t{at}-3 [100, 200): {it[2]}": it[1] for at, it in enumerate(LET_PASS)}
    assert sentences(verdict) == sorted((*it, "ranges", "warning") for it in said.items())
    assert {*verdict.warnings} == {f"{it} (expected: {name})" for it, name in said.items()}
    assert (verdict.success, verdict.failures) == (True, ())


def test_a_loss_that_no_interval_names_fails() -> None:
    verdict = judge([changed(RANGE, lost=5, aborted=3, lost_intervals=((100, 103),))], [PARTITION])
    assert verdict.failures == (
        "orders-3 [100, 200): 5 offsets lost, of which [100, 103) by name "
        f"(expected: {LOSSES_NAMED})",
    )
    assert len(verdict.warnings) == 1


def test_a_remote_topic_that_has_lost_partitions_fails() -> None:
    verdict = judge(
        [RANGE], [PARTITION], topics=(replace(TOPIC, partitions=1, missing_partitions=3),)
    )
    assert verdict.failures == (
        f"eu.orders: 4 partitions planned, 1 present (expected: {PARTITIONS_THERE})",
    )


def test_a_config_that_another_client_changed_meanwhile_is_a_warning() -> None:
    changed = replace(TOPIC, unlike_configs=1, unlike=("retention.ms is 1, and ... 2",))
    verdict = judge([RANGE], [PARTITION], topics=(changed,))
    assert verdict.success
    assert verdict.warnings == (
        f"eu.orders: retention.ms is 1, and ... 2 (expected: {CONFIGS_THERE})",
    )


def test_a_drift_is_written_down_and_not_notified() -> None:
    drifted = replace(TOPIC, drifted_configs=1, drifted=("retention.ms is 1",))
    verdict = judge([RANGE], [PARTITION], topics=(drifted,))
    assert verdict.success
    assert not verdict.warnings
    (result,) = not_true(verdict).values()
    assert (result.key, result.severity) == ("drift", "info")
    assert result.unexpected == ("eu.orders: retention.ms is 1",)


def test_replicas_on_other_racks_are_written_down_and_named_as_drift_alone() -> None:
    said = ("partition 0 is on r2", "partition 3 is on r2")
    elsewhere = replace(TOPIC, misplaced_partitions=2, misplaced=said)
    verdict = judge([RANGE], [PARTITION], topics=(elsewhere,))
    assert verdict.success
    assert not verdict.warnings
    (result,) = not_true(verdict).values()
    assert (result.key, result.severity) == ("placement", "info")
    assert result.unexpected == ("eu.orders: partition 0 is on r2; partition 3 is on r2",)
    strict = judge([RANGE], [PARTITION], topics=(elsewhere,), placement="critical")
    assert "kafka-reassign-partitions.sh" in str(strict.expectations)
    assert len(strict.failures) == 1


def test_the_flow_says_how_much_a_check_weighs() -> None:
    drifted = replace(TOPIC, drifted_configs=1, drifted=("retention.ms is 1",))
    strict = judge([RANGE], [PARTITION], topics=(drifted,), drift="critical")
    assert strict.failures == (f"eu.orders: retention.ms is 1 (expected: {NOT_DRIFTED})",)

    foreign = [changed(RANGE, foreign=2)]
    mild = judge(foreign, [PARTITION], foreign="warning")
    assert mild.success
    assert len(mild.warnings) == 1
    silent = judge(foreign, [PARTITION], foreign="info")
    assert (silent.success, silent.failures, silent.warnings) == (True, (), ())
    assert list(not_true(silent)) == [NO_OTHER_PRODUCER]


def test_what_decides_is_what_was_critical_when_the_run_was_judged() -> None:
    row = changed(RANGE, foreign=2)
    mild = judge([row], [PARTITION], foreign="warning", lost="critical")
    assert all(check.holds(row) for check in decisive("ranges", mild))
    assert not all(check.holds(changed(RANGE, lost=1)) for check in decisive("ranges", mild))
    assert not all(check.holds(row) for check in decisive("ranges", None))


def test_the_advice_names_the_option_that_let_it_pass() -> None:
    advice = {check.name: check.advice for check in WARNINGS.checks}
    assert "on.source.truncation" in advice[NOT_LOST]
    assert "on.rejected.record" in advice[NO_DEAD_LETTER]
    assert "on.source.divergence" in advice[NOT_CUT_BACK]
    assert "on.target.topic.lost" in advice[STILL_THERE]


def test_a_digest_that_is_missing_is_not_taken_for_equal() -> None:
    verdict = judge([changed(RANGE, digest_read="")], [PARTITION])
    assert list(not_true(verdict)) == [SAME_BYTES]


def test_large_offsets_are_compared_to_the_last_digit() -> None:
    huge = changed(RANGE, start=0, end=2**62 + 1, aborted=2**62 - 92)
    assert list(not_true(judge([huge], [PARTITION]))) == [ACCOUNTED]


def test_great_expectations_and_the_checks_themselves_agree_on_every_row() -> None:
    ranges = [
        changed(RANGE, start=n, end=n + 100, aborted=8 - (n % 3 == 0), foreign=n % 4 // 3)
        for n in range(12)
    ]
    found = not_true(judge(ranges, []))
    for check in RANGES.checks:
        wanted = tuple(f"{r}: {check.explain(r)}" for r in ranges if not check.holds(r))
        assert (found[check.name].unexpected if check.name in found else ()) == wanted


def test_only_the_first_rows_are_listed_with_a_count_of_the_rest() -> None:
    bad = [changed(RANGE, start=n, end=n + 100, foreign=1) for n in range(1_000 + MAX_LISTED)]
    verdict = judge(bad, [])
    (result,) = not_true(verdict).values()
    assert len(result.unexpected) == MAX_LISTED + 1
    assert result.unexpected[-1] == "and 1,000 more"
    assert len(verdict.failures) == MAX_LISTED + 1


@pytest.mark.parametrize(
    ("column", "name"), [("foreign", NO_OTHER_PRODUCER), ("expired", NOT_EXPIRED)]
)
def test_an_expectation_that_raises_is_a_failure_with_its_name(monkeypatch, column, name) -> None:
    whole = judge_module.frame
    monkeypatch.setattr(
        judge_module, "frame", lambda *args: whole(*args).drop(columns=column, errors="ignore")
    )
    verdict = judge([RANGE], [PARTITION])
    assert not verdict.success
    (result,) = not_true(verdict).values()
    assert result.name == name
    assert f'"{column}"' in (result.raised or "")
    assert verdict.failures == (f'The check "{name}" could not be evaluated: {result.raised}',)


def test_an_expectation_without_a_result_is_a_failure() -> None:
    result = judge_module._result(RANGES.checks[0], RANGES, [RANGE], None, "critical")
    assert result.failed
    assert result.sentences[0].startswith(f'The check "{ACCOUNTED}" could not be evaluated')


def test_a_verdict_comes_back_from_json_as_it_was(tmp_path: Path) -> None:
    verdict = judge([changed(RANGE, foreign=2)], [PARTITION], docs=tmp_path)
    assert Verdict.from_json(verdict.to_json()) == verdict
    with pytest.raises(FerryError, match="Not a verdict"):
        Verdict.from_json("{}")


def test_data_docs_that_cannot_be_written_are_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    taken = tmp_path / "a-file"
    taken.write_text("")
    verdict = judge([RANGE], [PARTITION], docs=taken)
    assert verdict.success
    assert verdict.docs is None
    assert verdict.warnings[0].startswith(f"The Data Docs could not be written to {taken}: ")
    # The reason is the folder, and a trace would hide it.
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.exc_info for record in errors] == [False]


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    tried: list[object] = []

    def refuse(*args: object, **_: object) -> None:
        tried.append(args)
        raise OSError("no network in this test")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return tried


def test_nothing_is_sent_anywhere(connections: list[object], tmp_path: Path) -> None:
    assert judge([RANGE], [PARTITION], docs=tmp_path).success
    assert connections == []
    assert os.environ["GX_ANALYTICS_ENABLED"] == "false"


def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, monkeypatch) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    judge([RANGE], [PARTITION], docs=tmp_path / "docs")
    assert list(temporary.iterdir()) == []


def test_no_progress_bar_and_nothing_else_is_printed(capfd) -> None:
    judge([RANGE], [PARTITION])
    assert capfd.readouterr() == ("", "")


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = "import sys, kafka_ferry.verify, kafka_ferry.report; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"great_expectations", "pandas", "pyspark", "airflow"} & set(loaded)
