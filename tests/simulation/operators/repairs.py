"""What an operator does about a flow that has stopped: what ``ferry repair`` offers, one way or the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from kafka_ferry.errors import FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.runs.repair.append_missing import AppendMissing
from kafka_ferry.runs.repair.findings import Findings, RangeFinding
from kafka_ferry.runs.repair.give_up import Repair
from kafka_ferry.runs.state.newest_verification import newest_verification
from tests.simulation.oracles.runs import Oracles
from tests.simulation.world import Killed, Process

# The share of findings for which the first of what is offered is done.
_MOSTLY: Final = 0.7
_REASON: Final = "the operator has looked at it"
# What the product's messages offer; who has written to a topic, only a person can tell.
_OFFERS: Final = re.compile(
    r"`ferry repair [^`]*--topic (?P<copy>[\w.,-]+)"
    r"|[Ss]et (?P<option>on\.(?!foreign)[a-z.]+): (?P<value>\w+)"
    r"|: delete (?P<topic>[\w.-]+),"
    r"|: (?P<of_others>[\w.-]+) on \w+ holds records that this flow has not copied"
)


def repair(way: Oracles, said: str) -> dict[str, str]:
    """Decide about all that the newest verification found, or do what the message says.

    Args:
        way: the flow, as it is known.
        said: why its last run stopped.

    Returns:
        The options to set.
    """
    options: dict[str, str] = {}
    names = {*_from_findings(way)} if "not proved complete" in said else set[str]()
    for line in said.splitlines():
        offers = [*_OFFERS.finditer(line)]
        if offers:
            offer = way.random.choice(offers)
            names |= {it for it in (offer["copy"] or "").split(",") if it}
            if offer["option"]:
                options[offer["option"]] = offer["value"]
            if (topic := offer["topic"] or offer["of_others"]) in way.target.topics:
                way.forget_topic(way.target, topic)
                way.target.delete(topic)
                way.note(f"the operator deletes {topic}")
    do = Repair(way.flow)
    states = _done(way, lambda: do.look(sorted(names))) or () if names else ()
    if states:
        _give_up(way, do, states)
    if options:
        way.note(f"the operator sets {options}")
    return options


def _from_findings(way: Oracles) -> Iterator[str]:
    """Append what is missing of ranges, or leave it so; gives the remote topics for which neither is possible."""
    found = _done(way, lambda: Findings(way.flow))
    for it in (_done(way, found.of_ranges) or ()) if found else ():
        offers = [do for do, offer in ((_append, it.append), (_leave, it.leave)) if offer]
        if offers:
            offers[0 if way.random.random() < _MOSTLY else -1](way, it)
        else:
            yield it.remote_topic
    verification = _done(way, lambda: newest_verification(way.flow))
    if verification and any(verification.failed_checks()):
        yield from {tp.topic for tp in verification.failed_partitions()}


def _append(way: Oracles, finding: RangeFinding) -> None:
    source, offset = _place(finding)

    def do() -> str:
        appending = AppendMissing(way.flow)
        proposal = appending.proposal(source, offset)
        if not proposal.refusal:
            way.appended.add(source)
            appending.append(proposal, _REASON)
        return proposal.refusal or "done"

    way.note(f"the operator appends what is missing of {finding.name}: {_done(way, do)}")


def _leave(way: Oracles, finding: RangeFinding) -> None:
    # Killed or not, the ledger may have it.
    way.accepted |= way.missing(*_place(finding))
    way.removed |= way.accepted
    done = _done(way, lambda: Findings(way.flow).leave([finding.name], _REASON))
    way.note(f"the operator leaves {finding.name} as it is: {'done' if done else 'failed'}")


def _place(finding: RangeFinding) -> tuple[TopicPartition, int]:
    name, _, offset = finding.name.rpartition(":")
    topic, _, partition = name.rpartition("-")
    return TopicPartition(topic, int(partition)), int(offset)


def _give_up(way: Oracles, do: Repair, states: list[Any]) -> None:
    way.sends_again = True
    done = _done(way, lambda: do.give_up(states))
    names = [it.remote_topic for it in states]
    way.note(f"the operator gives up {', '.join(names)}: {'done' if done else 'failed'}")


def _done(way: Oracles, do: Callable[[], Any]) -> Any:
    """What it gives; None where it is an error."""
    try:
        return way.world.run(Process("operator"), do)
    except FerryError as error:
        way.note(f"the operator is told: {error}")
    except Killed:
        way.note("the operator's command is killed")
    return None
