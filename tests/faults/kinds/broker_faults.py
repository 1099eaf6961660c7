"""Faults that hit one broker of three, or move what brokers lead and coordinate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kafka_ferry.ledger import ledger_topic
from tests.support.runs.flows import remote

if TYPE_CHECKING:
    from tests.faults.storm import Storm

Strike = Callable[["Storm"], bool]
# The session of a broker with the controller lasts 6 s: some are taken out, and find it out late.
_FROZEN_S = (1.0, 8.0)
_CUT_OFF_S = (2.0, 10.0)
# Where coordinators keep what they know: they move with the leaders of its partitions.
_COORDINATORS = ("__transaction_state", "__consumer_offsets")


def kill(side: str) -> Strike:
    """SIGKILL one broker; hits nothing while one is harmed anyway."""
    return _while_a_run_is_active(
        lambda storm: storm.sides[side].kill(storm.sides[side].choose(storm.chance))
    )


def kill_controller(side: str) -> Strike:
    return _while_a_run_is_active(lambda storm: storm.sides[side].kill_controller())


def freeze(side: str) -> Strike:
    def strike(storm: Storm) -> bool:
        cluster, seconds = storm.sides[side], storm.chance.uniform(*_FROZEN_S)
        return cluster.freeze(cluster.choose(storm.chance), seconds)

    return _while_a_run_is_active(strike)


def cut_off(side: str) -> Strike:
    def strike(storm: Storm) -> bool:
        cluster, seconds = storm.sides[side], storm.chance.uniform(*_CUT_OFF_S)
        return cluster.cut_off(cluster.choose(storm.chance), seconds)

    return _while_a_run_is_active(strike)


def roll(side: str) -> Strike:
    return _while_a_run_is_active(lambda storm: storm.sides[side].roll())


def elect(side: str) -> Strike:
    return _while_a_run_is_active(lambda storm: storm.sides[side].elect_preferred())


def reassign(side: str) -> Strike:
    """Move one topic: one that is copied, the ledger, or one of those that coordinators keep."""

    def strike(storm: Storm) -> bool:
        topics = [topic.name for topic in storm.topics]
        if side == "target":
            topics = [remote(storm.flow, name) for name in topics]
            topics += [ledger_topic(storm.flow.source.alias)]
        chosen = storm.chance.choice([topics, _COORDINATORS])
        return storm.sides[side].reassign(storm.chance.choice(chosen), storm.chance)

    return _while_a_run_is_active(strike)


def _while_a_run_is_active(strike: Strike) -> Strike:
    return lambda storm: bool(storm.runs.active) and strike(storm)


KINDS: Sequence[tuple[str, float, Callable[[str], Strike]]] = (
    ("kill a broker of the {}", 2, kill),
    ("kill the {}'s active controller", 1, kill_controller),
    ("freeze a broker of the {}", 3, freeze),
    ("cut a broker of the {} off from the others", 2, cut_off),
    ("restart the {}'s brokers in turn", 0.5, roll),
    ("elect the {}'s preferred leaders", 3, elect),
    ("reassign a topic of the {}", 4, reassign),
)
