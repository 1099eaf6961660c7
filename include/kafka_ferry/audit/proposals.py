"""What can be done about the findings of an audit, for each kind and topic: a person decides. Pure.

Kafka only appends: what is wrong inside of a log stays there. And a mirror of another tool is never written to,
since its offset maps and checkpoints would not know of it; a flow of Kafka Ferry can copy the topic next to it.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_ferry.audit.comparison.findings import KINDS, Finding, FindingKind
from kafka_ferry.audit.result import AuditReport

REBUILT: Final = "rebuilt"
"""The source's alias in a flow that copies a topic next to another tool's copy: ``rebuilt.orders``."""

_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing that can be done.

    Attributes:
        name: ``append``, ``rebuild``, ``leave``, or ``none`` where nothing is wrong.
        consequences: what it means, a sentence each in the order in which it happens.
        commands: the commands, in their order; none where there is nothing to do.
    """

    name: str
    consequences: tuple[str, ...]
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditProposal:
    """What can be done about one kind of finding in one topic.

    Attributes:
        kind: the kind.
        topic: the source's topic.
        remote_topic: the topic on the target.
        is_own: whether a flow of Kafka Ferry has copied it.
        records: how many records have the finding.
        findings: those that the audit lists.
        choices: what can be done.
    """

    kind: FindingKind
    topic: str
    remote_topic: str
    is_own: bool
    records: int
    findings: tuple[Finding, ...]
    choices: tuple[Choice, ...]


def proposals(
    report: AuditReport, own: Collection[str] = (), config: str = ""
) -> list[AuditProposal]:
    """Proposals for all that an audit has found, by topic and kind.

    Args:
        report: the audit's report.
        own: the remote topics that the flow in ``config`` has copied; all others are another tool's.
        config: the flow's file, for commands.
    """
    counts: dict[tuple[str, str, FindingKind], int] = defaultdict(int)
    listed: dict[tuple[str, str, FindingKind], list[Finding]] = defaultdict(list)
    for part in report.partitions:
        for kind in KINDS:
            key = part.pair.topic, part.pair.remote_topic, kind
            counts[key] += part.counts.of(kind)
            listed[key] += (finding for finding in part.findings if finding.kind == kind)
    return [
        AuditProposal(
            kind=kind,
            topic=topic,
            remote_topic=remote,
            is_own=remote in own,
            records=records,
            findings=tuple(listed[topic, remote, kind]),
            choices=(
                _leave(report, listed[topic, remote, kind], kind, remote, records),
                rebuilt_by_own_flow(remote, config) if remote in own else _next_to(topic, remote),
            ),
        )
        for (topic, remote, kind), records in sorted(counts.items(), key=_order)
        if records
    ]


def _order(item: tuple[tuple[str, str, FindingKind], int]) -> tuple[str, str, int]:
    (topic, remote, kind), _ = item
    return topic, remote, KINDS.index(kind)


def _leave(
    report: AuditReport, findings: Sequence[Finding], kind: FindingKind, remote: str, records: int
) -> Choice:
    """What leaving it as it is means; and where to look for the cause, which comes first."""
    many = f"{records:,} record{'s' if records != 1 else ''}"
    what = " and ".join(dict.fromkeys(name for finding in findings for name in finding.what))
    means: dict[FindingKind, Sequence[str]] = {
        "missing": (
            f"Consumers of {remote} never get the {many}. All others keep their order and offsets.",
        ),
        "doubled": (
            f"Consumers of {remote} get {many} more than once: harmless where they take a record twice, as after a "
            "restart of theirs. Nothing can be taken out of the middle of a log.",
        ),
        "reordered": (
            f"Consumers of {remote} get {many} before or after others than on the source: harmless where only the "
            "latest by time or version counts.",
        ),
        "altered": (
            f"Consumers of {remote} get another {what or 'content'} of {many}.",
            "Look for the cause first: a transform or converter of the mirror, message.timestamp.type of the topic, "
            "or a partitioner of its own. Without that, it goes on.",
        ),
        "foreign": (
            f"Consumers of {remote} get {many} that the source does not have.",
            "Find the producer first, and revoke its WRITE: otherwise it goes on.",
        ),
    }
    commands: tuple[str, ...] = ()
    if kind == "foreign":
        listing = f"--list --topic {shlex.quote(remote)}"
        commands = (f"kafka-acls.sh --bootstrap-server <{report.target}> {listing}",)
    return Choice("leave", tuple(means[kind]), commands)


def rebuilt_by_own_flow(remote: str, config: str) -> Choice:
    """Giving a remote topic of a flow up, which the next run then copies again."""
    repair = f"ferry repair --config {shlex.quote(config)} --topic {shlex.quote(remote)}"
    return Choice(
        "rebuild",
        (
            f"{remote} is deleted on the target with everything in it: its consumers have no topic until the next run.",
            "The next run copies all that the source still has, in its order. What the source has deleted is lost; "
            "without --yes, the command says how much that is.",
            "Translated offsets are new ones; the groups that the flow syncs are set again.",
        ),
        (repair, f"{repair} --yes", f"ferry run --config {shlex.quote(config)}"),
    )


def _next_to(topic: str, remote: str) -> Choice:
    """Copying a topic with a flow next to another tool's copy."""
    new, file = f"{REBUILT}.{topic}", "rebuild.yaml"
    return Choice(
        "rebuild",
        (
            f"A flow of Kafka Ferry copies all that the source still has to {new}, in its order, and proves it. "
            f"{remote} is not touched: Kafka Ferry does not write to another tool's copy.",
            f"What the source has deleted is in {remote} only.",
            f"The offsets in {new} are others: set each consumer group to a time, and it reads some records again.",
            f"Once no consumer needs {remote} any more, stop its mirror for the topic, and delete it.",
        ),
        (
            f"ferry init <source brokers> <target brokers> --config {file} --topics {shlex.quote(topic)} "
            f"--source-alias {REBUILT}",
            f"ferry plan --config {file}",
            f"ferry run --config {file}",
            f"ferry audit --config {file}",
            f"kafka-consumer-groups.sh --bootstrap-server <target brokers> --group <group> --topic {shlex.quote(new)} "
            "--reset-offsets --to-datetime <moment> --execute",
        ),
    )


def sentences(proposal: AuditProposal) -> Iterator[str]:
    """A proposal for people: a line for each finding, choice, consequence and command, indented."""
    for finding in proposal.findings[:_SHOWN]:
        yield f"{finding.kind.upper()} {finding.sentence}"
    if (more := len(proposal.findings) - _SHOWN) > 0:
        yield f"and {more:,} more findings of this kind in {proposal.remote_topic}"
    for choice in proposal.choices:
        yield f"  {choice.name}:"
        yield from (f"    - {consequence}" for consequence in choice.consequences)
        yield from (f"      $ {command}" for command in choice.commands)
