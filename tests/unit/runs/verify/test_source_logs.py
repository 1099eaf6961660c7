"""Whether the source still has what was copied, by the ends of its leader epochs."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from kafka_ferry.batches.epochs import EpochEnd
from kafka_ferry.config import Flow
from kafka_ferry.errors import ClusterUnreachable
from kafka_ferry.ledger import LedgerRange
from kafka_ferry.model import Position, TopicPartition, Window
from kafka_ferry.runs.verify import source_logs
from kafka_ferry.runs.verify.source_logs import compare_with_source
from kafka_ferry.verify.rows import Coverage, PartitionRow
from tests.unit.ledger.entries import a_copied_range

NO_LEDGER: Any = None
"""Of what has no range, nothing is looked up."""
SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("eu.orders", 0)


def replaced(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, ends: Any, *, epoch: int = 3, position: int = 100
) -> int:
    """What is replaced before offset 100, where the copy ends, by what the source answers."""

    def answer(_: object, epochs: object) -> dict[TopicPartition, EpochEnd]:
        assert epochs == {SOURCE: epoch}
        if isinstance(ends, Exception):
            raise ends
        return {SOURCE: EpochEnd(*ends)} if ends else {}

    monkeypatch.setattr(source_logs, "connect", lambda _: nullcontext())
    monkeypatch.setattr(source_logs, "epoch_ends", answer)
    row = PartitionRow("orders", 0, TARGET.topic, 0, 100, Coverage(0, 100), position)
    positions = {TARGET: Position(100, "id", "remote", leader_epoch=epoch)}
    (found,) = compare_with_source(flow, NO_LEDGER, [row], positions)
    return found.replaced


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        pytest.param((3, 100), 0, id="ends there"),
        pytest.param((3, 140), 0, id="goes on"),
        pytest.param((3, 90), 10, id="cut back"),
        pytest.param((2, 90), 10, id="another branch"),
        pytest.param((2, 120), 1, id="an older epoch goes further now"),
        pytest.param(None, 0, id="no leader"),
        pytest.param(ClusterUnreachable("eu does not answer."), 0, id="gone"),
    ],
)
def test_what_the_source_has_lost_or_replaced_is_counted(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, ends: Any, expected: int
) -> None:
    assert replaced(flow, monkeypatch, ends) == expected


@pytest.mark.parametrize(("epoch", "position"), [(-1, 100), (3, 60)])
def test_what_has_no_epoch_or_belongs_to_a_branch_before_is_not_asked_for(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, epoch: int, position: int
) -> None:
    never = AssertionError("was asked")
    assert replaced(flow, monkeypatch, never, epoch=epoch, position=position) == 0


def copied(*, window: Window | None = None, run: str = "run", **more: Any) -> LedgerRange:
    return LedgerRange(1, run, a_copied_range(0, 10, **more), 0, window)


WINDOW = Window(0, 10)
LEFT_OUT: dict[str, Any] = {"segments": (), "records": 0, "reasons": {"aborted": 9, "control": 1}}
FILTERED: dict[str, Any] = {"segments": (), "records": 0, "reasons": {"aborted": 1, "filtered": 9}}


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        pytest.param([], None, id="the flow began after it"),
        pytest.param([copied()], False, id="copied"),
        pytest.param([copied(**LEFT_OUT)], True, id="left out"),
        pytest.param([copied(), copied(**LEFT_OUT)], True, id="copied anew"),
        pytest.param([copied(**FILTERED)], None, id="perhaps by a rule"),
        pytest.param([copied(window=WINDOW)], False, id="backfilled"),
        pytest.param([copied(**LEFT_OUT), copied(window=WINDOW)], True, id="an ordinary one first"),
        pytest.param([copied(adopted=10)], None, id="by another mirror"),
        pytest.param([copied(run="uncommitted")], None, id="by another isolation.level"),
        pytest.param([copied(remote_topic_id="before")], None, id="of a former copy"),
    ],
)
def test_what_the_ledger_says_of_a_record_that_a_transaction_may_have_ended_otherwise(
    monkeypatch: pytest.MonkeyPatch, ranges: list[LedgerRange], expected: bool | None
) -> None:
    def levels(_: object, runs: set[str]) -> set[str]:
        return {"read_uncommitted" if "uncommitted" in runs else "read_committed"}

    monkeypatch.setattr(source_logs, "ranges_with", lambda *_: ranges)
    monkeypatch.setattr(source_logs, "isolation_levels", levels)
    ids = a_copied_range()
    position = Position(10, ids.topic_id, ids.remote_topic_id)
    assert source_logs._was_aborted(NO_LEDGER, SOURCE, position, 3) is expected
