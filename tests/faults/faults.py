"""The faults of a storm: each does its harm and says whether it hit anything."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_ferry.model.positions import position_group
from tests.faults.evidence import uncommitted
from tests.faults.kinds import broker_faults, log_faults, run_faults
from tests.support.records.offsets import bounds

if TYPE_CHECKING:
    from kafka_sandbox.network.proxy import Proxy
    from tests.faults.storm import Storm


# How often the source writes down where its logs start. By default it begins half a minute after its
# own start, and whatever was deleted until then is there again after a SIGKILL.
CHECKPOINT_S = 0.05
CHECKPOINTS = {
    "log.flush.start.offset.checkpoint.interval.ms": str(round(1000 * CHECKPOINT_S)),
    "log.initial.task.delay.ms": str(round(1000 * CHECKPOINT_S)),
}


@dataclass(frozen=True)
class Fault:
    """One kind of fault.

    Attributes:
        name: for the log and the table.
        weight: how often it is chosen, beside the others.
        strike: does it; whether it hit something, or else it does not count.
    """

    name: str
    weight: float
    strike: Callable[[Storm], bool]


def kill_driver(storm: Storm) -> bool:
    copying = storm.runs.copying
    if copying:
        storm.chance.choice(copying).kill()
    return bool(copying)


def cut(side: str) -> Callable[[Storm], bool]:
    """Reset the connections to one broker, or to all."""
    return lambda storm: _hit(storm, side, lambda proxy: proxy.cut())


def stall(side: str, longest: float) -> Callable[[Storm], bool]:
    def strike(storm: Storm) -> bool:
        seconds = storm.chance.uniform(0.1, longest)
        return _hit(storm, side, lambda proxy: proxy.stall(seconds))

    return strike


def refuse(side: str, longest: float) -> Callable[[Storm], bool]:
    def strike(storm: Storm) -> bool:
        seconds = storm.chance.uniform(0.1, longest)
        return _hit(storm, side, lambda proxy: proxy.refuse(seconds))

    return strike


def _hit(storm: Storm, side: str, strike: Callable[[Proxy], int]) -> bool:
    proxies = [broker.proxy for broker in storm.sides[side].proxies_of(storm.chance)]
    return sum(map(strike, proxies)) > 0


def delete_state(part: str) -> Callable[[Storm], bool]:
    """Delete a folder of the flow's state while a run copies; "" for all of it."""

    def strike(storm: Storm) -> bool:
        folder = Path(storm.flow.state_path) / storm.flow.slug / part
        if not storm.runs.copying or not any(path.is_file() for path in folder.rglob("*")):
            return False
        # A run may be writing into it at this moment.
        shutil.rmtree(folder, ignore_errors=True)
        return True

    return strike


def forget_positions(storm: Storm) -> bool:
    """Delete the offsets of the flow's group, as brokers do after a while, between two runs."""
    if not storm.runs.copying:
        return False
    storm.runs.finish(seconds=180)
    storm.sides["target"].wait_ready()
    target = storm.sides["target"].cluster
    if uncommitted(storm.flow, target, storm.topics):
        # Nothing but the group knows whose their records are: the flow refuses them from then on.
        return False
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    group = position_group(storm.flow.name)
    error = admin.delete_consumer_groups([group])[group].exception()
    return error is None


def delete_records(storm: Storm) -> bool:
    """Delete the oldest records of a partition of the source, copied or not."""
    if not storm.runs.copying or storm.sides["source"].is_harmed:
        return False
    source = storm.sides["source"].cluster
    topic = storm.chance.choice([topic for topic in storm.topics if topic.truncated])
    number = storm.chance.randrange(topic.partitions)
    log = bounds(source, topic.name, [number], "read_committed")[number]
    # Sometimes much that was not copied, or not committed, and mostly what was.
    before = storm.chance.randint(log.start, log.end)
    if before == log.start:
        return False
    oldest = TopicPartition(topic.name, number, before)
    # No process would answer for a client that is gone.
    admin = AdminClient({"bootstrap.servers": source.bootstrap})
    admin.delete_records([oldest])[oldest].result(timeout=30)
    # A source that takes its deletion back is none that a copy could equal.
    time.sleep(3 * CHECKPOINT_S)
    return True


def second_run(storm: Storm) -> bool:
    """Start a run beside the one that is active."""
    hit = len(storm.runs.active) == 1
    if hit:
        storm.runs.start()
    return hit


def kill_executor(storm: Storm) -> bool:
    assert storm.spark
    return bool(storm.runs.copying) and storm.spark.kill_executor(storm.chance)


def kill_python_worker(storm: Storm) -> bool:
    assert storm.spark
    return bool(storm.runs.copying) and storm.spark.kill_python_worker(storm.chance)


NETWORK: Sequence[Fault] = tuple(
    Fault(f"{name} {side}", weight, strike(side, *arguments))
    for side in ("source", "target")
    for name, weight, strike, arguments in (
        ("cut connections to", 5, cut, ()),
        ("stall connections to", 4, stall, (2.0,)),
        ("refuse connections to", 3, refuse, (1.5,)),
    )
)
BROKERS: Sequence[Fault] = tuple(
    Fault(name.format(side), weight, strike(side))
    for side in ("source", "target")
    for name, weight, strike in broker_faults.KINDS
)
DATA: Sequence[Fault] = (Fault("delete the source's oldest records", 5, delete_records),)
EVERYWHERE: Sequence[Fault] = (
    *NETWORK,
    *BROKERS,
    *DATA,
    Fault("two runs at once", 3, second_run),
    Fault("delete the ledger's projection", 2, delete_state("ledger")),
    Fault("delete the state folder", 0.5, delete_state("")),
    Fault("delete the group's offsets", 1, forget_positions),
)
LOGS: Sequence[Fault] = tuple(Fault(*kind) for kind in log_faults.KINDS)
COPIER: Sequence[Fault] = (
    *EVERYWHERE,
    *LOGS,
    Fault("kill the driver", 8, kill_driver),
    Fault("start a task of an old plan", 3, run_faults.late_task),
    Fault("change the number of writers", 1.5, run_faults.change_writers),
    Fault("set a run's clock", 2, run_faults.jump_clock),
    Fault("answer without records", 3, run_faults.silence),
)
SPARK: Sequence[Fault] = (
    *EVERYWHERE,
    Fault("kill the driver", 3, kill_driver),
    Fault("kill an executor", 6, kill_executor),
    Fault("kill a Python worker", 8, kill_python_worker),
    Fault("delete the checkpoint", 3, delete_state("checkpoint")),
)
