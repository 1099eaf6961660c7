"""The gate for all that a run takes away on the target because the source lacks it. Pure.

(a) An absence counts only on the cluster for which the thing was created, by the ledger. If the source's
    alias stands for another cluster, or the ledger does not say for which one the thing was created, it
    stays, and a note says why. ``removals.cluster.id`` names a cluster that has taken the former one's place.
    Nor does another cluster allow anything on copies of the former one's topics.
(b) If more of a kind is to go than ``removals.max`` allows, none of that kind goes without an approval. Nor
    does anything if the source has none of several topics any more that were copied: a cluster that was
    rebuilt may have its old id.

Offsets of groups come to the plan later (``runs.sync_groups.delete_offsets``), by the same rules. What is
bound to a topic's id needs no gate here: with positions of another topic, or of another cluster's where
brokers give no ids, a topic is refused before the start of a log or a position moves (``plan.topics.refusals``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import filterfalse
from typing import TYPE_CHECKING, Any, Final, TypeGuard, get_args

from kafka_ferry.model.changes import (
    AclChange,
    ConfigChange,
    QuotaChange,
    Retirement,
    SetConfigs,
    UserChange,
    needed_denials,
    quota_name,
)
from kafka_ferry.model.remarks import Note
from kafka_ferry.model.removals import Excess, RemovalKind, count_of_kind, first_of

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.model.cluster_state import ClusterState
    from kafka_ferry.model.plan import Plan, TopicChanges

KINDS: Final[tuple[RemovalKind, ...]] = get_args(RemovalKind)
_ALWAYS_ALLOWED: Final = 5
_SHOWN: Final = 3
_APPROVE: Final = (
    "If that is right, approve it: `ferry run --yes`, the field Approve removals of a run in Airflow, or a "
    "flow with approval: changes. If not, look at the source first."
)


def may_remove(flow: Flow, created_for: str, source_id: str) -> bool:
    """Whether the absence of something on the source is a reason to take it away on the target.

    Args:
        flow: the flow.
        created_for: the id of the cluster for which the flow has created it, "" where unknown.
        source_id: the id of the cluster that the source's alias stands for.
    """
    return source_id != "" and source_id == (flow.removals_cluster_id or created_for)


@dataclass
class Kept:
    """What stays although the source lacks it.

    Attributes:
        names: those of things of each kind.
        clusters: the ids of the clusters for which they were created, "" for an unknown one.
    """

    names: dict[RemovalKind, list[str]] = field(default_factory=lambda: defaultdict(list))
    clusters: set[str] = field(default_factory=set)

    def add(self, kind: RemovalKind, name: str, created_for: str) -> None:
        """Add one thing."""
        self.names[kind].append(name)
        self.clusters.add(created_for)

    def notes(self, flow: Flow, source_id: str) -> list[Note]:
        """A note that says what stays, why, and what to do after a rebuild; none if nothing does."""
        if not self.names:
            return []
        kept = [(kind, self.names[kind]) for kind in KINDS if kind in self.names]
        things = ", ".join(
            f"{count_of_kind(kind, len(names))} ({first_of(names, _SHOWN)})" for kind, names in kept
        )
        source, target = flow.source.alias, flow.target.alias
        text = (
            f"{source} is the cluster {source_id}, and {self._why(flow)}. So this stays on {target}, although "
            f"{source} lacks it: {things}. If {source_id} has taken the place of the former cluster, set "
            f"removals.cluster.id: {source_id}, and look at the next plan before you run it. If not, correct the "
            f"bootstrap.servers of {source}."
        )
        return [Note("", text)]

    def _why(self, flow: Flow) -> str:
        if flow.removals_cluster_id:
            return f"removals.cluster.id is {flow.removals_cluster_id}"
        clusters = ", ".join(sorted(self.clusters - {""}))
        if not clusters:
            return "the ledger does not say for which cluster what it lacks was created"
        other = ", or for one that the ledger does not name" if "" in self.clusters else ""
        return f"what it lacks was created for the cluster {clusters}{other}"


def gate_removals(flow: Flow, state: ClusterState, steps: Iterable[Any]) -> list[Any]:
    """The steps of a plan without those that take something away and may not, and with a note on these.

    Args:
        flow: the flow.
        state: the state of both clusters.
        steps: the plan's steps.
    """
    source_id, kept = state.source.cluster_id, Kept()
    foreign, passed, withheld = set[str](), list[Any](), list[Any]()
    held, other_copies = list[AclChange](), _copies_of_others(flow, state)
    for step in steps:
        if _allows_on(other_copies, step):
            held.append(step)
            continue
        removed = _removal(step)
        created_for = _cluster_of_step(step, state) if removed else ""
        if removed is None or may_remove(flow, created_for, source_id):
            passed.append(step)
            continue
        kept.add(*removed, created_for)
        withheld.append(step)
        if isinstance(step, ConfigChange):
            foreign.add(step.remote_topic)
    # ACLs are only safe together: what denies stays with what it limits.
    waiting = [item.acl for item in withheld if isinstance(item, AclChange) and not item.widens]
    for step in sorted(needed_denials(passed, waiting), key=str):
        passed.remove(step)
        kept.add("ACL", str(step.acl), _cluster_of_step(step, state))
    # A change of their other configs would say in the ledger that they are copies of this cluster's topics.
    left = (
        item
        for item in passed
        if not (isinstance(item, ConfigChange | SetConfigs) and item.remote_topic in foreign)
    )
    return [*left, *kept.notes(flow, source_id), *_held_notes(flow, source_id, held, other_copies)]


def _copies_of_others(flow: Flow, state: ClusterState) -> Mapping[str, str]:
    """The remote topics that are copies of another cluster's topics than the source is now, with its id."""
    source_id = state.source.cluster_id
    if source_id == flow.removals_cluster_id:
        return {}
    names = (
        (name, state.ledger.applied.sources.get(topic.topic_id or name, ""))
        for name, topic in state.target.topics.items()
    )
    return {name: cluster for name, cluster in names if cluster not in ("", source_id)}


def _allows_on(other_copies: Mapping[str, str], step: object) -> TypeGuard[AclChange]:
    """Whether a step allows something that may be about copies of another cluster's topics."""
    if not (other_copies and isinstance(step, AclChange) and step.change == "grant"):
        return False
    acl = step.acl
    if acl.permission != "ALLOW":
        return False
    return acl.resource_type != "TOPIC" or any(map(acl.covers, other_copies))


def _held_notes(
    flow: Flow, source_id: str, held: Sequence[AclChange], other_copies: Mapping[str, str]
) -> list[Note]:
    if not held:
        return []
    source, target = flow.source.alias, flow.target.alias
    clusters = ", ".join(sorted(set(other_copies.values())))
    acls = first_of([str(change.acl) for change in held], _SHOWN)
    text = (
        f"{source} is the cluster {source_id}, and {target} has copies of topics of the cluster {clusters}: what "
        f"{source} allows is not allowed there ({len(held):,}: {acls}). If {source_id} has taken the place of the "
        f"former cluster, set removals.cluster.id: {source_id}. If not, correct the bootstrap.servers of {source}."
    )
    return [Note("", text)]


def excesses_of(
    flow: Flow, state: ClusterState, steps: Iterable[Any], at: int
) -> tuple[Excess, ...]:
    """The kinds of removals that are so many that the plan needs an approval.

    Args:
        flow: the flow.
        state: the state of both clusters.
        steps: the plan's steps that passed the gate.
        at: when it is planned, in milliseconds since 1970.
    """
    names: dict[RemovalKind, list[str]] = defaultdict(list)
    for step in steps:
        removed = _removal(step)
        if removed and not (isinstance(step, Retirement) and not step.is_due(at)):
            kind, name = removed
            names[kind].append(name)
    created, emptied = _count_created(state), why_emptied(flow, state)
    candidates = (
        excess_of(flow, kind, names[kind], created[kind], emptied=emptied)
        for kind in KINDS
        if kind in names
    )
    return tuple(excess for excess in candidates if excess)


def why_emptied(flow: Flow, state: ClusterState) -> str:
    """Why things may be missing on the source by accident: all topics that were copied are missing, too; "" if not.

    Of one topic only, and without ids, that says nothing.
    """
    topics = {remote: topic for topic, remote in state.ledger.copied.items()}
    ids = {
        topics[tp.topic]: position.topic_id
        for tp, position in state.positions.known.items()
        if tp.topic in topics and tp.topic in state.target.topics
    }
    if len(ids) < 2 or any(_is_left(state, topic, id_) for topic, id_ in ids.items()):
        return ""
    return f"{flow.source.alias} has none of the {len(ids):,} topics any more that were copied"


def _is_left(state: ClusterState, topic: str, topic_id: str) -> bool:
    """Whether the source still has a topic, as far as the flow may see."""
    source = state.source
    if topic in source.invisible or topic in source.refused:
        return True
    here = source.topics.get(topic)
    return topic in source.names and (here is None or not topic_id or here.topic_id == topic_id)


def excess_of(
    flow: Flow, kind: RemovalKind, names: Sequence[str], created: int, *, emptied: str = ""
) -> Excess | None:
    """The excess of removals of one kind; None if they need no approval.

    Args:
        flow: the flow.
        kind: their kind.
        names: each of them.
        created: how many of them the flow has created.
        emptied: why none may go without an approval, as ``why_emptied`` says it.
    """
    if flow.removals_max == 1 or not names:
        return None
    if emptied:
        return Excess(kind, tuple(names), created, 0, emptied)
    allowed = max(_ALWAYS_ALLOWED, int(flow.removals_max * created))
    return Excess(kind, tuple(names), created, allowed) if len(names) > allowed else None


def withhold(plan: Plan) -> Plan:
    """The plan without the removals that need an approval; a repetition changes nothing."""
    kinds = {excess.kind for excess in plan.removals.excesses}
    if not kinds:
        return plan

    def stays(step: object) -> bool:
        removed = _removal(step)
        return removed is None or removed[0] not in kinds

    access, removals = plan.access, plan.removals
    return replace(
        plan,
        topics=_topics_with_those_that_stay(plan.topics, stays, plan.at),
        access=replace(
            access,
            acl_changes=tuple(filter(stays, access.acl_changes)),
            quota_changes=tuple(filter(stays, access.quota_changes)),
            user_changes=tuple(filter(stays, access.user_changes)),
        ),
        removals=replace(
            removals,
            offset_deletions=() if "group's offsets" in kinds else removals.offset_deletions,
        ),
    )


def _topics_with_those_that_stay(
    topics: TopicChanges, stays: Callable[[object], bool], at: int
) -> TopicChanges:
    unset: dict[str, set[str]] = defaultdict(set)
    for change in filterfalse(stays, topics.config_changes):
        unset[change.remote_topic].add(change.name)
    changes = tuple(filter(stays, topics.config_changes))
    changed = {change.remote_topic for change in changes}
    kept = (_with_configs(sets, unset.get(sets.remote_topic, ())) for sets in topics.set_configs)
    return replace(
        topics,
        config_changes=changes,
        set_configs=tuple(
            item
            for item in kept
            if item.remote_topic in changed
            or item.remote_topic not in unset
            or item.configs != item.before
        ),
        drifts=tuple(
            replace(item, overwritten=False)
            if item.name in unset.get(item.remote_topic, ())
            else item
            for item in topics.drifts
        ),
        # They stay missed: else their time would begin again.
        retirements=tuple(
            item if stays(item) else replace(item, due=max(item.due, at + 1))
            for item in topics.retirements
        ),
    )


def takes_away(plan: Plan) -> bool:
    """Whether a plan takes anything away on the target."""
    topics, access = plan.topics, plan.access
    steps = (
        *topics.config_changes,
        *(retirement for retirement in topics.retirements if retirement.is_due(plan.at)),
        *(*access.acl_changes, *access.quota_changes, *access.user_changes),
    )
    return bool(plan.removals.offset_deletions) or any(map(_removal, steps))


def held_sentences(plan: Plan) -> list[str]:
    """A sentence for each kind of removals that wait for an approval."""
    return [f"Held back: {excess} {_APPROVE}" for excess in plan.removals.excesses]


def _removal(step: object) -> tuple[RemovalKind, str] | None:
    """What a step takes away, by its kind and name; None for any other step."""
    match step:
        case AclChange(change="revoke"):
            return "ACL", str(step.acl)
        case QuotaChange(value=None):
            return "client quota", quota_name(step.entity, step.key)
        case UserChange(change="delete"):
            return "SCRAM user", f"{step.user} ({step.mechanism})"
        case ConfigChange(value=None):
            return "config", f"{step.name} of {step.remote_topic}"
        case Retirement():
            return "topic", step.remote_topic
    return None


def _cluster_of_step(step: object, state: ClusterState) -> str:
    """The cluster for which the flow has created what a step takes away, "" where unknown."""
    applied = state.ledger.applied
    match step:
        case AclChange():
            return applied.created_for.get(step.acl, "")
        case QuotaChange():
            return applied.created_for.get((step.entity, step.key), "")
        case UserChange():
            return applied.created_for.get((step.user, step.mechanism), "")
        case Retirement():
            return applied.sources.get(step.remote_topic_id, "")
        case ConfigChange():
            return _source_of(step.remote_topic, state)
    return ""


def _source_of(remote_topic: str, state: ClusterState) -> str:
    """The cluster whose configs a remote topic has; the present one's, if it has none of the flow's yet."""
    topic = state.target.topics.get(remote_topic)
    key = (topic.topic_id or topic.name) if topic else ""
    applied = state.ledger.applied
    unknown = "" if key in applied.configs else state.source.cluster_id
    return applied.sources.get(key, unknown)


def _count_created(state: ClusterState) -> Mapping[RemovalKind, int]:
    """How many things of each kind the flow has created."""
    applied = state.ledger.applied
    existing = {topic.topic_id or topic.name for topic in state.target.topics.values()}
    marks = state.ledger.marks.values()
    return {
        "ACL": len(applied.acls),
        "client quota": len(applied.quotas),
        "SCRAM user": len(applied.users),
        "config": sum(len(applied.configs.get(key, ())) for key in existing),
        "topic": sum(mark.created and mark.remote_topic_id in existing for mark in marks),
    }


def _with_configs(sets: SetConfigs, names: Collection[str]) -> SetConfigs:
    """The entry, by which the flow still has the configs of these names."""
    still = {name: value for name, value in sets.before.items() if name in names}
    return replace(sets, configs={**sets.configs, **still})
