"""About how much there is to copy."""

from __future__ import annotations

import pytest

from kafka_ferry.model import Estimate, TopicPartition
from tests.unit.plan.builders import a_flow, a_remote, a_source, a_state, at, changed, planned

TP, TARGET = TopicPartition("orders", 0), TopicPartition("primary.orders", 0)


@pytest.mark.parametrize(
    ("position", "size", "density", "estimate"),
    [
        (None, 4000, None, (40, 4000)),
        (20, 4000, None, (30, 3000)),
        (20, 4000, 0.5, (15, 3000)),
        (20, None, 0.5, (15, None)),
        (49, 4000, 0.0, (0, 100)),
        # The position is after the log's start: no more is copied than there is.
        (10, 0, None, (40, 0)),
    ],
)
def test_records_follow_from_a_sample_and_bytes_from_the_share_of_the_log(
    position: int | None, size: int | None, density: float | None, estimate: tuple[int, int | None]
) -> None:
    state = a_state(
        a_source(),
        target=[a_remote()],
        bounds=(10, 50),
        positions={} if position is None else {TARGET: at(position)},
        sizes={} if size is None else {TP: size},
        densities={} if density is None else {TP: density},
    )
    assert planned(state).estimates == (Estimate("orders", 0, *estimate),)


def test_what_the_source_has_deleted_is_not_estimated() -> None:
    flow, positions = a_flow(on_source_truncation="continue"), {TARGET: at(4)}
    state = a_state(a_source(), target=[a_remote()], bounds=(10, 50), positions=positions)
    plan = planned(changed(state, sizes={TP: 4000}), flow)
    assert [len(range_) for range_ in plan.ranges] == [46]
    assert plan.estimates == (Estimate("orders", 0, 40, 4000),)


def test_what_is_copied_already_has_no_estimate() -> None:
    state = a_state(a_source(), target=[a_remote()], positions={TARGET: at(50, at=0)})
    assert [len(range_) for range_ in planned(state).ranges] == [0]
    assert planned(state).estimates == ()


def test_what_could_not_be_found_out_is_a_note() -> None:
    state = a_state(a_source(), unknown=("The sizes are not known.",))
    assert [str(note) for note in planned(state).remarks.notes] == ["The sizes are not known."]
