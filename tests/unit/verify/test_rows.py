import json
from dataclasses import replace

from pydantic import TypeAdapter

from kafka_ferry.runs.state.run_folder import Reconciliation
from kafka_ferry.verify import RangeRow
from tests.support.runs.reports import RANGE, changed

ROW = changed(
    RANGE,
    **{
        "aborted": 5,
        "lost": 3,
        "lost_intervals": ((100, 103),),
        "topic_id": "a",
        "preserved": True,
    },
    **{"target_records": 60, "expired": 30, "digest_read": "d2", "digest_comparable": False},
)
STORED = {
    **{"topic": "orders", "partition": 3, "remote_topic": "eu.orders", "run": "r"},
    **{"ledger_offset": 7, "start": 100, "end": 200, "source_offsets": 100, "copied": 90},
    **{"aborted": 5, "control": 2, "compacted": 0, "other_reasons": 0, "accounted": 100},
    **{"target_records": 60, "expired": 30, "target_compacted": 0, "foreign": 0},
    **{"foreign_own": 0, "foreign_at": -1, "foreign_by": -1},
    **{"digest_sent": "d1", "digest_read": "d2", "digest_comparable": False},
    **{"topic_id": "a", "remote_topic_id": "", "lost": 3, "dead_lettered": 0},
    **{"lost_intervals": [[100, 103]], "rewound_from": -1, "gone": 0, "preserved": True},
    **{"adopted": 0, "misplaced": 0, "returned": 0, "backfill": False, "outside_window": 0},
    **{
        "copied_before": 0,
        "filtered": 0,
        "unmapped": 0,
        "displaced": 0,
        "compaction_expected": False,
    },
    **{"again": False, "accepted_missing": 0, "unread": "", "gone_before": 0},
    **{"evaluated": 0, "unevaluated": 0, "unlike_rule": 0, "evaluation": []},
    **{"witnessed": 0, "contradicted": 0, "contradiction": []},
    **{"letters_missing": 0, "letters_deleted": 0, "letters_unread": ""},
}


def test_a_range_is_stored_flat_as_programs_and_earlier_runs_know_it() -> None:
    stored = Reconciliation((ROW,)).to_json()
    assert json.loads(stored)["ranges"] == [STORED]
    assert Reconciliation.from_json(stored).ranges == (ROW,)


def test_a_range_that_an_earlier_release_has_stored_without_the_newer_values_is_read() -> None:
    older = {key: value for key, value in STORED.items() if key not in ("preserved", "expired")}
    read = TypeAdapter(RangeRow).validate_python(older)
    assert read == replace(ROW, preserved=False, recount=replace(ROW.recount, expired=0))
