"""Two runs of a flow in one checkpoint of Spark's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kafka_ferry.errors import CheckpointInUse, Fenced, OtherRunActive
from kafka_ferry.model import Plan
from kafka_ferry.runs.mirror.mirror import Copying
from kafka_ferry.runs.state.run_context import RunContext
from tests.unit.ledger.entries import a_run
from tests.unit.runs.copying import a_range

IN_USE = CheckpointInUse("Spark broke off the query.")


@pytest.fixture
def copied(
    run_with: Callable[..., RunContext], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., object]:
    """Copies as "run-2", whose queries end in turn as they are told, with the ledger's last runs."""

    def copy(queries: Iterator[object], *runs: str) -> object:
        def query(*_: object, **__: object) -> object:
            end = next(queries)
            if isinstance(end, Exception):
                raise end
            return end

        run = run_with(*map(a_run, runs))
        monkeypatch.setattr(RunContext, "project_ledger", lambda _: 0)
        monkeypatch.setattr(Copying, "begin", lambda *_: None)
        monkeypatch.setattr("kafka_ferry.spark.query.copy_with_spark", query)
        plan = Plan(run.flow.name, run.run_id, 1, "A", "B", ranges=(a_range("t", 0, 0, 9),))
        return Copying(run).copy(lambda: None, plan, None)

    return copy


def test_the_newest_run_goes_on_where_an_older_one_has_disturbed_its_query(
    copied: Callable[..., object],
) -> None:
    assert copied(iter([IN_USE, IN_USE, ["copied"]]), "run-1", "run-2") == ["copied"]


def test_a_run_whose_query_an_older_run_disturbs_for_good_names_it(
    copied: Callable[..., object],
) -> None:
    with pytest.raises(OtherRunActive, match=r"Another run of .* is active: run-1") as caught:
        copied(iter([IN_USE] * 3), "run-1", "run-2")

    assert (caught.value.exit_code, caught.value.transient) == (5, True)


def test_a_run_whose_query_a_newer_run_has_disturbed_ends_and_names_that(
    copied: Callable[..., object],
) -> None:
    with pytest.raises(Fenced, match=r"The run run-3 of .* took over") as caught:
        copied(iter([IN_USE, ["never"]]), "run-2", "run-3")

    assert (caught.value.exit_code, caught.value.transient) == (5, False)
