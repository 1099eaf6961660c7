"""A flow's name stands in one file: a second one would go on where the first one has come to."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.errors import ConfigError
from kafka_ferry.runs import Run
from tests.support.records.builders import Record
from tests.support.runs.flows import remote
from tests.support.runs.pair import Pair
from tests.support.runs.proof import NO_SPARK, prove


def in_folder(flow: Flow, folder: Path, *topics: str) -> Flow:
    """The same flow from a file in another folder, perhaps with other topics."""
    folder.mkdir(exist_ok=True)
    file = folder / Path(flow.file).name
    file.write_bytes(Path(flow.file).read_bytes())
    found = load_flow(file)
    return found.model_copy(update={"topics": topics}) if topics else found


def begun(flow: Flow, run: str) -> None:
    this = Run(flow, run)
    this.plan()
    this._copying().begin(this.sync_topics())


def test_a_second_file_with_other_topics_is_refused_and_one_that_was_moved_is_not(
    pair: Pair,
) -> None:
    orders, payments = (pair.topic(it, [Record(b"k", b"v")]) for it in ("orders", "payments"))
    first = pair.flow([orders], writers=1)
    begun(first, "run-1")

    second = in_folder(first, pair.folder / "team-b", orders, payments)
    with pytest.raises(ConfigError, match=r"was run from .+flow\.yaml with other topics") as caught:
        Run(second, "run-2").plan()
    assert "another alias" in caught.value.advice

    moved = in_folder(first, pair.folder / "moved")
    begun(moved, "run-3")
    begun(moved.model_copy(update={"topics": (orders, payments)}), "run-4")
    with pytest.raises(ConfigError, match=r"moved/flow\.yaml"):
        Run(first, "run-5").plan()


@pytest.mark.usefixtures("without_spark")
def test_a_file_that_was_moved_is_the_flows_after_a_run_with_nothing_new(pair: Pair) -> None:
    orders, payments = (pair.topic(it, [Record(b"k", b"v")]) for it in ("orders", "payments"))
    first = pair.flow([orders], writers=1)
    prove(first)
    moved = in_folder(first, pair.folder / "moved")
    this = Run(moved, "run-2")
    this.plan()
    this.sync_topics()
    assert this.mirror(NO_SPARK) == ()
    more = moved.model_copy(update={"topics": (orders, payments)})
    assert Run(more, "run-3").plan().ranges


def test_a_repeated_run_copies_no_topic_that_the_file_leaves_out_or_renames_by_now(
    pair: Pair,
) -> None:
    orders, payments = (pair.topic(it, [Record(b"k", b"v")]) for it in ("orders", "payments"))
    flow = pair.flow([orders, payments], writers=1)
    Run(flow, "run-1").plan()
    plan = Run(flow, "run-1").sync_topics()

    changed = flow.model_copy(update={"topics": (orders,)})
    # Groups would follow what is copied to a name that the file has no more.
    renamed = flow.model_copy(update={"topics_rename": {orders: f"new.{orders}"}})

    leaves_out = f"topics: leaves out {payments} .* which the run run-1 was to copy"
    goes_to = (
        f"topics.rename: says that {orders} goes to new.{orders}, .* to {remote(flow, orders)}"
    )
    refused = ((changed, leaves_out), (renamed, goes_to))
    for other, why in refused:
        with pytest.raises(ConfigError, match=why) as caught:
            Run(other, "run-1").mirror(NO_SPARK, expected=plan.digest)
        assert "clear plan" in caught.value.advice
    for other, why in refused:
        with pytest.raises(ConfigError, match=why):
            Run(other, "run-1").sync_topics()
