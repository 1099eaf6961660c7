"""The faults of a storm: each does its harm and says whether it hit anything."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient

from kafka_ferry.plan.positions import position_group

if TYPE_CHECKING:
    from tests.faults.storm import Storm


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


def kill_broker(side: str) -> Callable[[Storm], bool]:
    """SIGKILL, and a restart in the background; hits nothing while it is down anyway."""
    return lambda storm: bool(storm.runs.active) and storm.brokers[side].kill()


def cut(side: str) -> Callable[[Storm], bool]:
    return lambda storm: storm.brokers[side].broker.proxy.cut() > 0


def stall(side: str, longest: float) -> Callable[[Storm], bool]:
    def strike(storm: Storm) -> bool:
        return storm.brokers[side].broker.proxy.stall(storm.chance.uniform(0.1, longest)) > 0

    return strike


def refuse(side: str, longest: float) -> Callable[[Storm], bool]:
    def strike(storm: Storm) -> bool:
        return storm.brokers[side].broker.proxy.refuse(storm.chance.uniform(0.1, longest)) > 0

    return strike


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
    storm.brokers["target"].wait_ready()
    admin = AdminClient({"bootstrap.servers": storm.brokers["target"].broker.bootstrap})
    group = position_group(storm.flow.name)
    error = admin.delete_consumer_groups([group])[group].exception()
    return error is None


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
    Fault(f"kill the {side} broker", 2, kill_broker(side)) for side in ("source", "target")
)
EVERYWHERE: Sequence[Fault] = (
    *NETWORK,
    *BROKERS,
    Fault("two runs at once", 3, second_run),
    Fault("delete the ledger's projection", 2, delete_state("ledger")),
    Fault("delete the state folder", 0.5, delete_state("")),
    Fault("delete the group's offsets", 1, forget_positions),
)
COPIER: Sequence[Fault] = (*EVERYWHERE, Fault("kill the driver", 8, kill_driver))
SPARK: Sequence[Fault] = (
    *EVERYWHERE,
    Fault("kill the driver", 3, kill_driver),
    Fault("kill an executor", 6, kill_executor),
    Fault("kill a Python worker", 8, kill_python_worker),
    Fault("delete the checkpoint", 3, delete_state("checkpoint")),
)
