"""To restart the target's brokers one after the other costs a run some time, and no failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.copy import Outcome, copy_for_flow
from kafka_ferry.copy.rate_limit import RateLimit
from kafka_ferry.model import Plan
from kafka_ferry.model.rate import Rate
from kafka_sandbox.broker import QUICK_CLEANER
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.cluster import KafkaCluster, start_all
from tests.faults.sides import roll
from tests.support.builders import create_topic
from tests.support.flows import (
    assert_same,
    failures,
    ledger_rows,
    make_flow,
    plan_now,
    remote,
)
from tests.support.long_topic import fill
from tests.support.offsets import assert_same_offsets

KIB = 1024
RATE = 128 * KIB
"""Bytes a second: slow enough for the copy to outlast the restarts."""
SECONDS = 60


@pytest.fixture
def target(folder: Path) -> Iterator[Brokers]:
    target = Brokers(folder / "target", config=QUICK_CLEANER)
    try:
        start_all([target])
        target.assert_spread()
        yield target
    finally:
        target.wipe()


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_a_rolling_restart_of_the_target_in_mid_copy_costs_a_run_no_failure(
    folder: Path, primary: KafkaCluster, target: Brokers, unique: Callable[[str], str]
) -> None:
    topics = {unique("translated"): "translated", unique("preserved"): "preserved"}
    for topic in topics:
        create_topic(primary.bootstrap, topic, partitions=3)
        fill(primary, topic, SECONDS * RATE // len(topics))
    flow = make_flow(
        folder, primary, target, topics, offsets=topics, transaction_max_bytes=256 * KIB
    )
    plan = plan_now(flow)
    began = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        copy = pool.submit(copy_slowly, flow, plan)
        time.sleep(1)
        roll(target)
        rolled = time.monotonic()
        outlasted = not copy.done()
        assert failures(copy.result()) == []
    ended = time.monotonic()

    cost = ended - began - sum(int(str(row["bytes"])) for row in ledger_rows(flow)) / RATE
    print(
        f"three brokers restarted in {rolled - began - 1:.1f} s: the run took {cost:.1f} s longer"
    )
    assert outlasted, "the copy ended before all brokers were restarted"
    for topic, offsets in topics.items():
        if offsets == "preserved":
            assert_same_offsets(primary, topic, target, remote(flow, topic))
        else:
            assert_same(primary, topic, target, remote(flow, topic))


def copy_slowly(flow: Flow, plan: Plan) -> list[Outcome]:
    """Copy each writer's ranges in a thread, all of them together at the rate."""
    ranges = sorted(plan.ranges, key=attrgetter("owner"))
    writers = [list(group) for _, group in groupby(ranges, attrgetter("owner"))]
    rate = RateLimit(Rate(RATE))
    with ThreadPoolExecutor(len(writers)) as pool:
        copies = [pool.submit(copy_for_flow, flow, plan.run, ranges, rate) for ranges in writers]
    return [outcome for copy in copies for outcome in copy.result()]
