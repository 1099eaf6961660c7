"""State folders in an object store: all of a flow's life against a server that speaks S3."""

from __future__ import annotations

import multiprocessing
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from kafka_ferry.config import load_flow
from kafka_ferry.errors import FerryError
from kafka_ferry.runs import Run
from kafka_ferry.state import StateFolder
from tests.support.records.histories import named
from tests.support.runs.flows import plan_now
from tests.support.runs.pair import Pair, Unique
from tests.support.runs.proof import prove
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("without_spark")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedMotoServer]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "of-a-test")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield server
    server.stop()


def bucket(store: ThreadedMotoServer, name: str) -> str:
    """The address of a new bucket's folder, without a region."""
    host, port = store.get_host_and_port()
    made = urllib.request.Request(f"http://{host}:{port}/{name}", method="PUT")
    urllib.request.urlopen(made).close()
    return f"s3://{name}/ferry?scheme=http&endpoint_override={host}:{port}"


def begin(file: Path) -> None:
    """The first steps of a run, in a process that is going to be killed."""
    flow = load_flow(file)
    plan_now(flow, "run-2")
    StateFolder(flow.state_path).write("begun", b"")
    while True:
        plan_now(flow, "run-2")


def test_two_flows_keep_their_state_in_one_bucket_through_kills(
    pair: Pair, store: ThreadedMotoServer, unique: Unique
) -> None:
    where = bucket(store, unique("state"))
    topics = [pair.topic(name, named("first", 10)) for name in ("one", "other")]
    flows = [
        pair.flow([topic], into=into, state_dir=where + region)
        for topic, into, region in zip(
            topics, ("backup", "backup-too"), ("", "&region=us-east-1"), strict=True
        )
    ]
    for flow in flows:
        prove(flow, "run-1")
    assert StateFolder(where).folders() == sorted(flow.slug for flow in flows)
    for topic in topics:
        pair.produce(topic, named("second", 10))
    # The file is the last flow's.
    process = multiprocessing.get_context("spawn").Process(target=begin, args=(flows[1].file,))
    process.start()
    wait_until(lambda: StateFolder(where).read("begun") is not None, seconds=120)
    process.kill()
    process.join()
    StateFolder(where).delete(["begun"])

    for flow, topic in zip(flows, topics, strict=True):
        prove(flow, "run-2")
        pair.assert_same(flow, topic)
        report = Run(flow, "run-2").report()
        assert report is None or report.run == "run-2"
    # The state may be deleted at any time, here of one flow.
    StateFolder(where).delete_folder(flows[0].slug)
    for flow in flows:
        prove(flow, "run-3")


@pytest.mark.long
def test_a_store_that_is_gone_is_named_and_costs_nothing_once_it_is_back(
    pair: Pair, store: ThreadedMotoServer, unique: Unique
) -> None:
    where = bucket(store, unique("state"))
    topic = pair.topic("orders", named("first", 10))
    flow = pair.flow([topic], state_dir=where)
    prove(flow, "run-1")
    pair.produce(topic, named("second", 10))
    _, port = store.get_host_and_port()
    store.stop()

    with pytest.raises(FerryError, match=r"s3://.* cannot be read"):
        plan_now(flow, "run-2")

    again = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    again.start()
    try:
        prove(flow, "run-2")
        pair.assert_same(flow, topic)
    finally:
        again.stop()
