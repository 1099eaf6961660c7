"""Checks whether the remote topics that a run has copied to are still as planned. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kafka_ferry.errors import FerryError
from kafka_ferry.model import Plan, Range
from kafka_ferry.model.changes import Drift
from kafka_ferry.model.cluster_state import Topic
from kafka_ferry.verify.checks import Check, Suite
from kafka_ferry.verify.counts import count

NOTHING_REFUSED: Final[Mapping[str, FerryError]] = {}


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One remote topic that the run has planned to copy to.

    Attributes:
        topic: the source's topic.
        remote_topic: the topic on the target.
        preserved: whether records keep their offsets.
        planned_partitions: how many partitions it is to have at least.
        partitions: how many it has, 0 where it does not exist.
        missing_partitions: how many of the planned ones it does not have.
        lost: 1 where it is not the topic that was planned, copied into, or read back; 0 otherwise.
        unlike_configs: how many configs that the flow has set were changed since the run was planned.
        drifted_configs: how many configs another client had changed before, which the flow leaves.
        unlike: the former, each with its value.
        drifted: the latter, each with its value when the run was planned.
        misplaced_partitions: how many partitions had replicas on other racks than the flow says.
        misplaced: the first few of them, each with its racks when the run was planned.
        undescribed: 1 where the cluster refuses to describe it, so that the other columns say nothing; 0 otherwise.
        refusal: what it says; "" where it does not refuse.
    """

    topic: str
    remote_topic: str
    preserved: bool
    planned_partitions: int
    partitions: int
    missing_partitions: int = 0
    lost: int = 0
    unlike_configs: int = 0
    drifted_configs: int = 0
    unlike: tuple[str, ...] = ()
    drifted: tuple[str, ...] = ()
    misplaced_partitions: int = 0
    misplaced: tuple[str, ...] = ()
    undescribed: int = 0
    refusal: str = ""

    def __str__(self) -> str:
        return self.remote_topic


def topic_rows(
    plan: Plan,
    topics: Mapping[str, Topic],
    configs: Mapping[str, Mapping[str, str]],
    ids: Mapping[str, str],
    refused: Mapping[str, FerryError] = NOTHING_REFUSED,
) -> list[TopicRow]:
    """A row for each topic in the plan, by name.

    Args:
        plan: the run's plan, as its steps have left it.
        topics: the remote topics that exist now, by name.
        configs: by remote topic, all configs that the flow has set there, by its ledger.
        ids: the ids of the remote topics when they were copied into or read back, by name.
        refused: the errors of those that the cluster refuses to describe.
    """
    lost = {range_.remote_topic for range_ in plan.ranges if is_lost(range_, topics)}
    planned = _planned_partitions(plan)
    chosen = {range_.remote_topic: (range_.topic, range_.preserved) for range_ in plan.ranges}
    chosen |= {choice.remote_topic: (choice.topic, choice.preserved) for choice in plan.choices}
    misplaced = {
        misplacement.remote_topic: misplacement for misplacement in plan.topics.misplacements
    }
    rows = []
    for name, (topic, preserved) in sorted(chosen.items()):
        if name in refused:
            why = str(refused[name])
            rows.append(TopicRow(topic, name, preserved, 0, 0, undescribed=1, refusal=why))
            continue
        remote, wanted = topics.get(name), planned.get(name, 0)
        has = remote.partitions if remote else 0
        drifts = [d for d in plan.topics.drifts if d.remote_topic == name and not d.overwritten]
        known = {drift.name for drift in drifts}
        unlike = tuple(_unlike(configs.get(name, {}), remote, known)) if remote else ()
        is_same = remote and remote.topic_id == ids.get(name, remote.topic_id)
        rows.append(
            TopicRow(
                topic=topic,
                remote_topic=name,
                preserved=preserved,
                planned_partitions=wanted,
                partitions=has,
                missing_partitions=max(0, wanted - has),
                lost=int(name in lost or (name in ids and not is_same)),
                unlike_configs=len(unlike),
                drifted_configs=len(drifts),
                unlike=unlike,
                drifted=tuple(map(_drift_text, drifts)),
                misplaced_partitions=len(misplaced[name].racks) if name in misplaced else 0,
                misplaced=misplaced[name].sentences if name in misplaced else (),
            )
        )
    return rows


def is_lost(planned: Range, topics: Mapping[str, Topic]) -> bool:
    """Whether the remote topic that a range was planned for is gone, or is another topic by now.

    Args:
        planned: the range, as the steps before have left it.
        topics: the remote topics that exist now, by name.
    """
    remote = topics.get(planned.remote_topic)
    return remote is None or planned.remote_topic_id not in ("", remote.topic_id)


def _planned_partitions(plan: Plan) -> dict[str, int]:
    planned: dict[str, int] = {}
    counts = [(range_.remote_topic, range_.partition + 1) for range_ in plan.ranges]
    counts += [(made.remote_topic, made.partitions) for made in plan.topics.creations]
    counts += [(grown.remote_topic, grown.partitions) for grown in plan.topics.growths]
    for name, partitions in counts:
        planned[name] = max(partitions, planned.get(name, 0))
    return planned


def _unlike(configs: Mapping[str, str], remote: Topic, known: set[str]) -> Iterator[str]:
    for name, value in sorted(configs.items()):
        current = remote.configs.get(name) if name in remote.overrides else None
        if name not in known and current != value:
            has = "nothing set" if current is None else current
            yield f"{name} is {has}, and this flow has set {value}"


def _drift_text(drift: Drift) -> str:
    return f"{drift.name} is {'not set' if drift.found is None else drift.found}"


TOPICS: Final = Suite[TopicRow](
    "topics",
    "topics",
    "warning",
    (
        Check(
            "described",
            "the remote topic can be described",
            "undescribed",
            lambda row: row.refusal,
            "What is not looked at is not proved. The other topics were verified all the same.",
            severity="critical",
        ),
        Check(
            "partitions",
            "the remote topic has all partitions that it was planned with",
            "missing_partitions",
            lambda row: (
                f"{count(row.planned_partitions, 'partition')} planned, {row.partitions:,} present"
            ),
            "The remote topic was deleted or recreated while the run was in progress. The "
            "next run says what is done about it (on.target.topic.lost).",
            severity="critical",
        ),
        Check(
            "identity",
            "the remote topic is the one that was copied into",
            "lost",
            lambda row: (
                "another client has deleted it"
                + (" and created it again" if row.partitions else "")
            ),
            "What was copied into it is gone with it. Find out who did that; the next run says what is done about "
            "it (on.target.topic.lost).",
            severity="critical",
        ),
        Check(
            "configs",
            "the remote topic's configs are as this flow has set them",
            "unlike_configs",
            lambda row: "; ".join(row.unlike),
            "Another client has changed them since the run was planned. For the next plan it is drift, which "
            "on.config.drift keeps or overwrites.",
        ),
        Check(
            "drift",
            "no other client has changed the remote topic's configs",
            "drifted_configs",
            lambda row: "; ".join(row.drifted),
            "on.config.drift decides whether that is kept or overwritten.",
            severity="info",
        ),
        Check(
            "placement",
            "the remote topic's replicas are on the racks that this flow says",
            "misplaced_partitions",
            lambda row: "; ".join(row.misplaced),
            "topics.replica.placement is for new partitions. Move these with kafka-reassign-partitions.sh.",
            severity="info",
        ),
    ),
)
