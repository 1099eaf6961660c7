"""What a run plans about schemas, makes of it, and keeps for its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_ferry.config import Cluster, Flow
from kafka_ferry.copy import Outcome, OutcomeFiles
from kafka_ferry.errors import FerryError, VerificationFailed
from kafka_ferry.ledger import LedgerRange
from kafka_ferry.model import Plan, Range
from kafka_ferry.runs.state.file_digests import schemas_of_run
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.runs.sync_topics import schemas
from kafka_ferry.runs.sync_topics.schemas import (
    keep_late_schemas,
    mirror_schemas,
    planned_schemas,
    require_same_schemas,
)
from kafka_ferry.schemas.ids import (
    FlowSchemas,
    MirroredSchema,
    forget_schemas,
    store_schemas,
    stored_schemas,
)
from tests.support.servers.registries import MemoryRegistry
from tests.unit.config.builders import a_cluster, a_flow
from tests.unit.ledger.entries import a_copied_range, a_transaction

RANGE = Range("orders", 0, 0, 9, "I", "p.orders", 3)
PLAN = Plan("primary->backup", "run-1", 1, "A", "B", ranges=(RANGE, replace(RANGE, topic="clicks")))
URL = {"schema__registry__url": "http://registry"}


class Registries:
    """Those of both clusters, in memory."""

    def __init__(self) -> None:
        self.source, self.target = MemoryRegistry(first_id=100), MemoryRegistry()
        self.source.add("orders-value", "one")

    @contextmanager
    def open(self, cluster: Cluster) -> Iterator[MemoryRegistry]:
        yield self.source if cluster.alias == "primary" else self.target


@pytest.fixture
def registries(monkeypatch: pytest.MonkeyPatch) -> Registries:
    both = Registries()
    monkeypatch.setattr(schemas, "open_registry", both.open)
    return both


def a_run(folder: Path, **options: object) -> RunContext:
    flow: Flow = a_flow(
        source=a_cluster("primary", **URL),
        target=a_cluster("backup", **URL),
        state_dir=str(folder),
        **{"sync_schemas": "translate-ids", **options},
    )
    return RunContext.of(flow, "run-1")


def test_a_plan_says_what_is_registered_and_which_records_get_other_ids(
    tmp_path: Path, registries: Registries
) -> None:
    plan = planned_schemas(a_run(tmp_path), PLAN)

    assert list(map(str, plan.schemas.schema_registrations)) == [
        "register orders-value version 1 as p.orders-value"
    ]
    (translated,) = plan.schemas.translated_ids
    assert str(translated).startswith("schema ids of orders: translated in its value (rule ")
    orders, clicks = plan.ranges
    assert orders.id_parts == ("value",)
    assert orders.schema_ids == translated.schema_ids
    assert (clicks.schema_ids, clicks.id_parts) == ("", ())
    assert not registries.target.requests
    assert stored_schemas(a_run(tmp_path).state) == FlowSchemas()


def test_the_fingerprint_changes_with_what_is_done_to_a_record(
    tmp_path: Path, registries: Registries
) -> None:
    del registries
    options: list[dict[str, object]] = [
        {},
        {},
        {"on_unknown_schema": "pass"},
        {"schemas_ids_in": "both"},
    ]
    found = [planned_schemas(a_run(tmp_path, **it), PLAN).ranges[0].schema_ids for it in options]
    assert found[0] == found[1]
    assert len({*found}) == 3


def test_the_step_registers_and_keeps_the_ids(tmp_path: Path, registries: Registries) -> None:
    run = a_run(tmp_path)

    assert mirror_schemas(run, PLAN)[1] == []

    assert registries.target.requests == ["register p.orders-value version 1"]
    found = stored_schemas(run.state)
    assert found.ids == {100: 1}
    assert found.remote_topics == {"orders": "p.orders", "clicks": "p.orders"}
    assert not planned_schemas(run, PLAN).changes


def test_what_cannot_be_registered_is_told(tmp_path: Path, registries: Registries) -> None:
    registries.target.refused.add("one")
    assert mirror_schemas(a_run(tmp_path), PLAN)[1] == ["p.orders-value version 1 is refused."]


def test_a_subject_that_the_plan_has_not_seen_counts_and_one_that_it_has_seen_too(
    tmp_path: Path, registries: Registries
) -> None:
    """A registry may answer with less for a moment; ids that are not translated would be verified as they are."""
    run = a_run(tmp_path)
    planned = planned_schemas(run, PLAN)
    registries.source.delete("orders-value")
    registries.source.add("clicks-value", "two")

    orders, clicks = mirror_schemas(run, planned)[0].ranges

    assert orders == planned.ranges[0] and orders.id_parts == ("value",)
    assert not planned.ranges[1].id_parts and clicks.id_parts == ("value",)


@pytest.mark.parametrize("side", ["source", "target", "both", "neither"])
def test_ids_whose_subject_is_gone_are_kept_as_long_as_both_registries_have_them(
    tmp_path: Path, registries: Registries, side: str
) -> None:
    run = a_run(tmp_path)
    mirror_schemas(run, PLAN)
    registries.source.delete("orders-value")
    if side in ("source", "both"):
        registries.source.forget(100)
    if side in ("target", "both"):
        registries.target.delete("p.orders-value")

    notes = planned_schemas(run, PLAN).remarks.notes
    mirror_schemas(run, PLAN)

    assert stored_schemas(run.state).ids == ({100: 1} if side == "neither" else {})
    lost = [note for note in map(str, notes) if "ids 100 were mirrored before" in note]
    assert len(lost) == (side != "neither")


@pytest.mark.parametrize("subject", ["com.acme.Order", "orders-value"])
def test_an_id_that_is_another_schemas_by_now_is_not_mapped_as_before(
    tmp_path: Path, registries: Registries, subject: str
) -> None:
    run = a_run(tmp_path)
    mirror_schemas(run, PLAN)
    registries.source = MemoryRegistry(first_id=100)
    registries.source.add(subject, "another")

    notes = list(map(str, planned_schemas(run, PLAN).remarks.notes))
    mirror_schemas(run, PLAN)

    is_mirrored = subject == "orders-value"
    assert stored_schemas(run.state).ids == ({100: 2} if is_mirrored else {})
    told = "ids 100 are of other schemas" if is_mirrored else "ids 100 were mirrored before"
    assert len([note for note in notes if told in note]) == 1
    assert not [note for note in notes if "target's registry recreated" in note]


def test_a_target_that_gives_the_id_to_another_schema_is_not_believed_either(
    tmp_path: Path, registries: Registries
) -> None:
    run = a_run(tmp_path)
    mirror_schemas(run, PLAN)
    registries.source.delete("orders-value")
    registries.target = MemoryRegistry()
    registries.target.add("p.orders-value", "another")

    mirror_schemas(run, PLAN)

    assert stored_schemas(run.state).ids == {}


def test_records_go_on_getting_their_ids_when_the_subject_of_their_topic_is_gone(
    tmp_path: Path, registries: Registries, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(tmp_path)
    (orders, _) = planned_schemas(run, PLAN).ranges
    copied = a_transaction(a_copied_range(schema_ids=orders.schema_ids))
    monkeypatch.setattr("kafka_ferry.ledger.projection.read_ledger", lambda *_: iter([(0, copied)]))
    run.project_ledger()
    registries.source.delete("orders-value")

    plan = planned_schemas(run, PLAN)

    assert [it.schema_ids for it in plan.ranges] == [orders.schema_ids, ""]
    (note,) = [str(it) for it in plan.remarks.notes if it.topic == "orders"]
    assert "has no subject orders-value any more" in note
    said_so = a_run(tmp_path, schemas_ids_in={"orders": "none"})
    assert [it.schema_ids for it in planned_schemas(said_so, PLAN).ranges] == ["", ""]


def test_an_id_that_has_moved_is_a_note(tmp_path: Path, registries: Registries) -> None:
    del registries
    run = a_run(tmp_path)
    mirror_schemas(run, PLAN)
    before = stored_schemas(run.state)
    (known,) = before.schemas
    store_schemas(run.state, replace(before, schemas=(replace(known, target_id=7),)))

    (note,) = planned_schemas(run, PLAN).remarks.notes

    assert "The schemas 100 of the source have other ids on the target than before" in str(note)


def test_a_target_that_was_recreated_empty_is_told_before_and_after_its_ids_have_changed(
    tmp_path: Path, registries: Registries
) -> None:
    run = a_run(tmp_path)
    mirror_schemas(run, PLAN)
    registries.target = MemoryRegistry(first_id=7)

    plan = planned_schemas(run, PLAN)
    gone, moved = mirror_schemas(run, plan)[0].remarks.notes

    assert plan.remarks.notes == (gone,)
    assert "no longer has the schemas 100 of the source" in str(gone)
    assert "The schemas 100 of the source have other ids on the target than before" in str(moved)
    assert not planned_schemas(run, PLAN).remarks.notes


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("now", ["none", "another", "softly deleted"])
def test_ids_that_are_not_the_targets_any_more_are_no_proof(
    tmp_path: Path, registries: Registries, now: str, is_late: bool
) -> None:
    run = a_run(tmp_path)
    plan = mirror_schemas(run, planned_schemas(run, PLAN))[0]
    if is_late:
        late = tuple(stored_schemas(run.folder.files).schemas)
        store_schemas(run.folder.files, FlowSchemas())
        OutcomeFiles(run.folder.files, "0").write(0, [Outcome(RANGE, 9, late_schemas=late)])
    require_same_schemas(run, plan)
    if now == "softly deleted":
        registries.target.delete("p.orders-value")
        require_same_schemas(run, plan)
        return
    registries.target = MemoryRegistry()
    if now == "another":
        registries.target.add("p.orders-value", "another")

    require_same_schemas(run, PLAN)
    with pytest.raises(VerificationFailed, match="under the ids 1, which"):
        require_same_schemas(run, plan)


def test_ids_that_an_earlier_run_gave_to_records_without_a_proof_are_no_proof_of_the_next(
    tmp_path: Path, registries: Registries
) -> None:
    """As where that run was killed before its verification, and the registry was recreated since."""
    run = a_run(tmp_path)
    plan = mirror_schemas(run, planned_schemas(run, PLAN))[0]
    copied = a_copied_range(schema_ids=plan.ranges[0].schema_ids)
    unproved, later = [LedgerRange(0, "run-1", copied)], run.with_id("run-2")
    require_same_schemas(later, PLAN, unproved)
    registries.target = MemoryRegistry(first_id=7)
    plan = mirror_schemas(later, planned_schemas(later, PLAN))[0]

    require_same_schemas(later, plan)
    with pytest.raises(VerificationFailed, match="under the ids 1, which") as raised:
        require_same_schemas(later, plan, unproved)
    assert f"delete {tmp_path}/primary_to_backup/runs/run-1/schemas." in raised.value.advice
    forget_schemas(run.folder.files)
    require_same_schemas(later, plan, unproved)


def test_kept_ids_need_no_change_of_records(tmp_path: Path, registries: Registries) -> None:
    run = a_run(tmp_path, sync_schemas="keep-ids")

    plan = planned_schemas(run, PLAN)
    mirror_schemas(run, plan)

    assert plan.ranges == PLAN.ranges
    assert registries.target.requests == [
        "mode p.orders-value IMPORT",
        "register p.orders-value version 1",
    ]
    assert stored_schemas(run.state).ids == {100: 100}
    assert not planned_schemas(run, PLAN).changes


def test_a_run_of_some_topics_knows_how_the_others_are_called(
    tmp_path: Path, registries: Registries
) -> None:
    run = a_run(tmp_path)
    mirror_schemas(
        run, replace(PLAN, ranges=(replace(RANGE, topic="city", remote_topic="primary.city"),))
    )
    known = stored_schemas(run.state)
    # What the folder says of their names is not believed.
    store_schemas(run.state, replace(known, remote_topics={"city": "another-teams"}))
    city = registries.source.add("city-value", "city")
    registries.source.add("orders-value", "two", ("city", city.at))

    mirror_schemas(run, replace(PLAN, ranges=(RANGE,)))

    assert "register primary.city-value version 1" in registries.target.requests


def test_ids_that_tasks_have_asked_for_are_stored_once_the_run_is_published(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    known, again, late = (MirroredSchema(it, it + 1, "com.acme.A", 1) for it in (1, 1, 5))
    before = FlowSchemas((known,), {"orders": "p.orders"})
    store_schemas(run.state, before)
    for shard, found in enumerate([(replace(again, target_id=9), late), (late,), ()]):
        OutcomeFiles(run.folder.files, f"{shard}").write(0, [Outcome(RANGE, 9, late_schemas=found)])

    keep_late_schemas(a_run(tmp_path, sync_schemas="keep-ids"))
    assert stored_schemas(run.state) == before
    keep_late_schemas(run)

    assert stored_schemas(run.state) == FlowSchemas((known, late), {"orders": "p.orders"})


def test_a_run_copies_by_the_ids_that_both_registries_gave_it_and_by_no_others(
    tmp_path: Path, registries: Registries
) -> None:
    """A user who writes in the state folder could give records the id of another schema, and the proof would hold."""
    run = a_run(tmp_path)
    made, _ = mirror_schemas(run, planned_schemas(run, PLAN))
    honest = stored_schemas(run.state)
    assert schemas_of_run(run, made) == honest
    # Another run of the flow, such as a backfill, may go on meanwhile.
    store_schemas(run.state, FlowSchemas())
    assert schemas_of_run(run, made) == honest

    store_schemas(
        run.folder.files, replace(honest, schemas=(replace(honest.schemas[0], target_id=7),))
    )
    with pytest.raises(FerryError, match="not those that both registries have given"):
        schemas_of_run(run, made)
    run.folder.files.folder("schemas").delete(["ids.json"])
    with pytest.raises(FerryError, match="not those that both registries have given"):
        schemas_of_run(run, made)
    assert schemas_of_run(a_run(tmp_path, sync_schemas="keep-ids"), made) is None


def test_a_plan_that_misses_no_schema_is_left_as_it_was_approved(
    tmp_path: Path, registries: Registries
) -> None:
    del registries
    run = a_run(tmp_path)
    mirror_schemas(run, PLAN)
    planned = planned_schemas(run, PLAN)
    assert planned.schemas.schema_ids_digest
    assert mirror_schemas(run, planned)[0].digest == planned.digest
