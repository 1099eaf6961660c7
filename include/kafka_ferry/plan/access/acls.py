"""Which ACLs the target should have, from those of the source. Pure.

``acls.mode: read-only`` follows MirrorMaker 2 (``MirrorSourceConnector.syncTopicAcls``): ACLs on a
topic's very name, without the right to write. ``exact`` follows the source, with names as they are
on the target. In both:

(a) An ACL on ``*`` never becomes one on a topic of that name.
(b) What the source denies on a topic is denied on each of its copies, whatever pattern covers the topic.
(c) All of them together give no principal a right on a copy that it lacks on the topic; what would is
    left out (``plan.access.widening``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kafka_ferry.config import Flow
from kafka_ferry.config.client.jaas import login_name
from kafka_ferry.config.client.property_names import ROLES
from kafka_ferry.config.types.principal_mapping import principal_rules
from kafka_ferry.model.changes import EVERYBODY, Acl
from kafka_ferry.model.cluster_state import ClusterState
from kafka_ferry.model.plan import AdvisedAcl, OffsetsChoice
from kafka_ferry.model.rights import EVERY
from kafka_ferry.plan.access.authorizer import UNKNOWN, Authorizer
from kafka_ferry.plan.access.widening import ExcessRight, ResourcePair, SourceRights
from kafka_ferry.plan.topics.replication_policy import policy_of, remote_prefix
from kafka_ferry.plan.topics.topic_filter import selection_of

# Kafka Ferry's own groups and transactional ids, on either cluster.
_OWN: Final = "ferry."
# One foreign record would take the offset of one of the source's. Where a topic has ACLs, Kafka denies
# what they do not allow: so these cover all that the flow itself does there, and readers.
_OF_THE_FLOW: Final = ("WRITE", "DELETE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
_OF_EVERYBODY: Final = ("READ", "DESCRIBE")


@dataclass
class WantedRules:
    """The ACLs that the target should have, and the source's ACLs that are left out.

    Attributes:
        acls: the ACLs, as they should be on the target.
        on_every_topic: ACLs of the source that allow something on all topics, which read-only leaves out.
        by_prefix: ACLs of the source that allow something on topics by prefix, which read-only leaves out.
        unmapped: principals that no rule of ``acls.principals`` matches.
        inexpressible: ACLs of the source on operations or resources unknown to this release.
        against_the_flow: ACLs that would take rights from the flow itself, and are left out.
        too_wide: ACLs by prefix on the target that deny, each with a topic that they cover there, while
            the source's ACL does not cover the topic that it is a copy of.
        shared: ACLs of the source by a prefix that covers copies from another source on the target, each with
            that source: they are by name there.
        excesses: ACLs that are left out because they would give a principal more rights than it has on
            the source, each with such a right.
        on_others: ACLs that allow something on a topic of the target that is not, or will not be, a copy by this
            flow, and are left out; each with the reason.
    """

    acls: set[Acl] = field(default_factory=set)
    on_every_topic: set[Acl] = field(default_factory=set)
    by_prefix: set[Acl] = field(default_factory=set)
    unmapped: set[str] = field(default_factory=set)
    inexpressible: set[Acl] = field(default_factory=set)
    against_the_flow: set[Acl] = field(default_factory=set)
    too_wide: set[tuple[Acl, str]] = field(default_factory=set)
    shared: set[tuple[Acl, str]] = field(default_factory=set)
    excesses: Mapping[Acl, ExcessRight] = field(default_factory=dict)
    on_others: Mapping[Acl, str] = field(default_factory=dict)


def wanted_rules(flow: Flow, state: ClusterState, choices: Iterable[OffsetsChoice]) -> WantedRules:
    """Translates the source's ACLs to the target.

    Args:
        flow: the flow.
        state: the state of both clusters.
        choices: the topics that the plan copies.
    """
    wanted = WantedRules()
    source = state.access.source_acls or frozenset()
    names = _Names(flow, state)
    rules = principal_rules(flow.acls_principals)
    own = own_principals(flow)
    rights = SourceRights(source, rules, own)
    translate = _exact if flow.acls_mode == "exact" else _read_only
    under_old_names: set[Acl] = set()
    for acl in sorted(source):
        principal = rules.name_of(acl.principal)
        for translated in translate(acl, names, wanted):
            if principal is None:
                wanted.unmapped.add(acl.principal)
            elif acl.permission == "DENY" and principal in own:
                wanted.against_the_flow.add(acl)
            else:
                wanted.acls.add(replace(translated, principal=principal))
            if acl.permission == "DENY" and not rights.is_given(acl.principal):
                under_old_names.add(translated)
    for acl in _against_everybody(wanted.acls, under_old_names):
        (wanted.against_the_flow if acl.principal in own else wanted.acls).add(acl)
    _leave_out_excesses(wanted, rights, names, names.resources(source))
    copies = names.copies | {choice.remote_topic for choice in choices}
    wanted.on_others = {
        acl: why
        for acl in wanted.acls
        if (acl.resource_type, acl.permission, acl.pattern_type) == ("TOPIC", "ALLOW", "LITERAL")
        and acl.name not in (EVERY, *copies)
        and (why := names.why_another(acl.name))
    }
    wanted.acls -= wanted.on_others.keys()
    return wanted


def own_principals(flow: Flow) -> frozenset[str]:
    """The principals that the flow logs in as on the target, as far as its file says."""
    logins = (login_name(flow.target.client_properties(role)) for role in ROLES)
    return frozenset(f"User:{login}" for login in logins if login) | {*flow.acls_own_principals}


def _against_everybody(acls: Iterable[Acl], denials: Iterable[Acl]) -> Iterator[Acl]:
    """The ``denials`` that narrow what ``acls`` allow to all principals.

    A principal of the source that has another name on the target, or none, is still one of all.
    """
    allowed = [acl for acl in acls if (acl.permission, acl.principal) == ("ALLOW", EVERYBODY)]
    by_name = Authorizer(allowed)
    for denial in denials:
        if denial.pattern_type == "LITERAL" and denial.name != EVERY:
            is_needed = any(by_name.acls_on(denial.resource_type, denial.name))
        else:
            is_needed = any(map(denial.meets, allowed))
        if is_needed:
            yield denial


def _leave_out_excesses(
    wanted: WantedRules, rights: SourceRights, names: _Names, resources: Collection[ResourcePair]
) -> None:
    """Replaces what would widen rights by ACLs on the topics on which it would not."""
    wanted.excesses = rights.excesses(wanted.acls, resources)
    wanted.acls -= wanted.excesses.keys()
    for acl in wanted.excesses:
        if acl.resource_type == "TOPIC" and acl.pattern_type == "PREFIXED":
            for remote in names.known_remote:
                if acl.covers(remote):
                    wanted.acls.add(replace(acl, name=remote, pattern_type="LITERAL"))
    if wanted.excesses:
        wanted.acls -= rights.excesses(wanted.acls, resources).keys()


class _Names:
    """The names of topics, and of topic name prefixes, on the target.

    Attributes:
        copies: the remote topics that earlier runs have copied to.
    """

    def __init__(self, flow: Flow, state: ClusterState) -> None:
        self._policy = policy_of(flow)
        self._other_sources = sorted(state.access.other_sources)
        self._known = state.source.names | state.ledger.copied.keys()
        literal_names = {
            acl.name
            for acl in state.access.source_acls or ()
            if (acl.resource_type, acl.pattern_type) == ("TOPIC", "LITERAL") and acl.name != EVERY
        }
        # A topic's ACLs may exist before the topic does, and after it.
        self._selected = selection_of(flow, state, self._known | literal_names).names
        self._copies: dict[str, set[str]] = defaultdict(set)
        earlier = list(_earlier_copies(state))
        self.copies = {remote for _, remote in earlier}
        for topic, remote in (*self._selected.items(), *earlier):
            self._copies[topic].add(remote)
        self._target, self._there = flow.target.alias, state.access.target_topics

    @property
    def known_remote(self) -> list[str]:
        """The remote topics of all topics that the flow copies."""
        return sorted(self._selected[topic] for topic in self._selected.keys() & self._known)

    def covered_names(self, acl: Acl) -> list[str]:
        """The names on the target of the topics that an ACL of the source covers.

        For one that allows, those to which the flow copies; for others, also those to which it did.
        """
        allows, by_name = acl.permission == "ALLOW", acl.pattern_type == "LITERAL"
        if by_name and acl.name != EVERY:
            topics = {acl.name} & (self._selected if allows else self._copies).keys()
        else:
            topics = self._selected.keys() & self._known if allows else set(self._copies)
            topics = set(filter(acl.covers, topics))
        if allows:
            return sorted(self._selected[topic] for topic in topics)
        return sorted(remote for topic in topics for remote in self._copies[topic])

    def prefix(self, prefix: str) -> str | None:
        """The prefix on the target of topics that begin with ``prefix``; None where they have several."""
        return remote_prefix(self._policy, prefix)

    def other_source(self, remote_prefix: str) -> str:
        """Another source, copies from which may have the prefix on the target; "" where there is none."""
        for alias in self._other_sources:
            begin = f"{alias}{self._policy.separator}"
            if begin.startswith(remote_prefix) or remote_prefix.startswith(begin):
                return alias
        return ""

    def why_another(self, remote: str) -> str:
        """Why a topic's name on the target may be that of another one than a copy by this flow; "" if it is free."""
        if remote in self._there:
            return f"{remote} is on {self._target}, and this flow does not copy to it."
        for alias in self._other_sources:
            if remote.startswith(f"{alias}{self._policy.separator}"):
                return f"{remote} may be a copy from {alias}."
        return ""

    def strangers(self, prefix: str, remote_prefix: str) -> Iterator[str]:
        """Remote topics that have the prefix on the target, while their topics lack it on the source."""
        for topic, remote_names in self._copies.items():
            if not topic.startswith(prefix):
                yield from (name for name in remote_names if name.startswith(remote_prefix))

    def resources(self, acls: Iterable[Acl]) -> set[ResourcePair]:
        """The copies, and all else that ``acls`` name and that is called the same on both clusters."""
        other_resources = {
            ResourcePair(acl.resource_type, acl.name, acl.name)
            for acl in acls
            if acl.resource_type != "TOPIC" and not acl.name.startswith(_OWN)
        }
        return other_resources | {
            ResourcePair("TOPIC", topic, remote)
            for topic, remote_names in self._copies.items()
            for remote in remote_names
        }


def _earlier_copies(state: ClusterState) -> Iterator[tuple[str, str]]:
    """Topics and their remote topics that still exist, although the flow may copy to others by now.

    One that the target does not describe is not gone.
    """
    existing, hidden = state.target.topics, state.target.refused
    for topic, remote in state.ledger.copied.items():
        if remote in existing or remote in hidden:
            yield topic, remote
    for mark in state.ledger.marks.values():
        known = existing.get(mark.remote_topic)
        if mark.remote_topic in hidden or (known and known.topic_id == mark.remote_topic_id):
            yield mark.topic, mark.remote_topic


def _is_by_pattern(acl: Acl) -> bool:
    """Whether it is about many topics: by a prefix, or about all."""
    return acl.pattern_type != "LITERAL" or acl.name == EVERY


def _is_inexpressible(acl: Acl) -> bool:
    return UNKNOWN in (acl.operation, acl.permission, acl.pattern_type)


def _read_only(acl: Acl, names: _Names, wanted: WantedRules) -> Iterator[Acl]:
    allows, by_pattern = acl.permission == "ALLOW", _is_by_pattern(acl)
    if acl.resource_type != "TOPIC" or (allows and acl.operation == "WRITE"):
        return
    if by_pattern and (acl.principal, acl.operation) == (EVERYBODY, "WRITE"):
        # Producers that are shut out of the source: here none may write but the flow.
        return
    remote_names = names.covered_names(acl)
    if not remote_names:
        return
    if _is_inexpressible(acl):
        wanted.inexpressible.add(acl)
    elif allows and by_pattern:
        is_prefix = acl.pattern_type == "PREFIXED"
        (wanted.by_prefix if is_prefix else wanted.on_every_topic).add(acl)
    else:
        operation = "READ" if allows and acl.operation == "ALL" else acl.operation
        for name in remote_names:
            yield replace(acl, name=name, pattern_type="LITERAL", operation=operation)


def _exact(acl: Acl, names: _Names, wanted: WantedRules) -> Iterator[Acl]:
    of_topics = acl.resource_type == "TOPIC"
    # What the source denies, ACLs on all groups or on prefixes would allow here; all principals are the flow too.
    is_denied = acl.permission == "DENY" and acl.principal != EVERYBODY
    if not of_topics and acl.name.startswith(_OWN) and not is_denied:
        return
    remote_names = names.covered_names(acl) if of_topics else [acl.name]
    if not remote_names:
        return
    if _is_inexpressible(acl):
        wanted.inexpressible.add(acl)
    elif of_topics and _is_by_pattern(acl):
        yield from _of_pattern(acl, remote_names, names, wanted)
    else:
        for name in remote_names:
            yield replace(acl, name=name)


def _of_pattern(
    acl: Acl, remote_names: Iterable[str], names: _Names, wanted: WantedRules
) -> Iterator[Acl]:
    """An ACL on many topics: by a prefix on the target too, and by name for topics named otherwise."""
    on_every = acl.pattern_type == "LITERAL"
    prefix = "" if on_every else acl.name
    remote_prefix = names.prefix(prefix)
    if remote_prefix == "" and not on_every:
        # A policy that removes prefixes: everything on the target would begin with "".
        remote_prefix = None
    if remote_prefix and (other := names.other_source(remote_prefix)):
        wanted.shared.add((acl, other))
        remote_prefix = None
    if remote_prefix is not None:
        whole = replace(acl, name=remote_prefix, pattern_type="PREFIXED") if remote_prefix else acl
        if acl.permission == "DENY":
            wanted.too_wide |= {(whole, topic) for topic in names.strangers(prefix, remote_prefix)}
        yield whole
    for remote in remote_names:
        if remote_prefix is None or not remote.startswith(remote_prefix):
            yield replace(acl, name=remote, pattern_type="LITERAL")


def advised_acls(flow: Flow, choices: Iterable[OffsetsChoice]) -> Iterator[AdvisedAcl]:
    """The ACLs for each remote topic whose offsets are preserved: only the flow writes."""
    name = login_name(flow.target.client_properties("producer"))
    principal = f"User:{name}" if name else "the flow's principal"
    for choice in choices:
        if choice.preserved:
            for operation in _OF_THE_FLOW:
                yield AdvisedAcl(choice.remote_topic, principal, operation, "ALLOW")
            for operation in _OF_EVERYBODY:
                yield AdvisedAcl(choice.remote_topic, "User:*", operation, "ALLOW")
