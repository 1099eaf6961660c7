"""Which values of a quota are the flow's own, whenever a run is killed."""

from __future__ import annotations

from kafka_ferry.ledger import AppliedEntry
from kafka_ferry.ledger.applied import fold_applied
from kafka_ferry.model.changes import Entity, QuotaChange
from tests.unit.ledger.entries import FLOW, NOW

ANNA = (("user", "anna"),)
RATE = "producer_byte_rate"


def test_the_ledger_knows_a_quota_that_was_about_to_be_set_and_one_that_was() -> None:
    def after(*changes: QuotaChange) -> dict[tuple[Entity, str], frozenset[float | None]]:
        entries = (
            AppliedEntry(flow=FLOW, run="run-1", at=NOW, quotas=(it,)).model_dump_json()
            for it in changes
        )
        return dict(fold_applied(entries).quotas)

    about = QuotaChange(ANNA, RATE, 5.0, before=None)
    is_set = QuotaChange(ANNA, RATE, 5.0, before=5.0)
    over_somebodys = QuotaChange(ANNA, RATE, 5.0, before=9.0)
    about_to_go = QuotaChange(ANNA, RATE, None, before=5.0)
    is_gone = QuotaChange(ANNA, RATE, None, before=None)
    what = (ANNA, RATE)
    assert after(about) == {what: {None, 5.0}}
    assert after(about, is_set) == {what: {5.0}}
    assert after(over_somebodys) == {what: {5.0}}
    assert after(about, is_set, about_to_go) == {what: {5.0, None}}
    assert after(about, is_set, about_to_go, is_gone) == {}
