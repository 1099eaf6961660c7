"""Which ACLs the target should have, from those of the source. Pure.

``acls.mode: read-only`` follows MirrorMaker 2 (``MirrorSourceConnector.syncTopicAcls``): ACLs on a
topic's very name, without the right to write. ``exact`` follows the source, with names as they are
on the target. In both, an ACL on ``*`` never becomes one on a topic of that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from kafka_ferry.config import Flow
from kafka_ferry.config.client.jaas import login_name
from kafka_ferry.config.client.property_names import ROLES
from kafka_ferry.config.types.principal_mapping import principal_rules
from kafka_ferry.model.changes import Acl
from kafka_ferry.model.cluster_state import ClusterState
from kafka_ferry.model.plan import AdvisedAcl, OffsetsChoice
from kafka_ferry.model.rights import EVERY
from kafka_ferry.plan.topics.replication_policy import policy_of, remote_prefix
from kafka_ferry.plan.topics.topic_filter import selection_of

_UNKNOWN: Final = "UNKNOWN"
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
        on_every_topic: ACLs of the source on all topics, which read-only leaves out.
        by_prefix: ACLs of the source on topics by prefix, which read-only leaves out.
        unmapped: principals that no rule of ``acls.principals`` matches.
        inexpressible: ACLs of the source on operations or resources unknown to this release.
        against_the_flow: ACLs that would take rights from the flow itself, and are left out.
        too_wide: ACLs by prefix on the target, each with a topic that they cover there, while the
            source's ACL does not cover the topic that it is a copy of.
    """

    acls: set[Acl] = field(default_factory=set)
    on_every_topic: set[Acl] = field(default_factory=set)
    by_prefix: set[Acl] = field(default_factory=set)
    unmapped: set[str] = field(default_factory=set)
    inexpressible: set[Acl] = field(default_factory=set)
    against_the_flow: set[Acl] = field(default_factory=set)
    too_wide: set[tuple[Acl, str]] = field(default_factory=set)


def wanted_rules(flow: Flow, state: ClusterState) -> WantedRules:
    """Translates the source's ACLs to the target."""
    wanted = WantedRules()
    names = _Names(flow, state)
    rules = principal_rules(flow.acls_principals)
    own = own_principals(flow)
    translate = _exact if flow.acls_mode == "exact" else _read_only
    for acl in sorted(state.access.source_acls or ()):
        for translated in translate(acl, names, wanted):
            principal = rules.name_of(acl.principal)
            if principal is None:
                wanted.unmapped.add(acl.principal)
            elif acl.permission == "DENY" and principal in own:
                wanted.against_the_flow.add(acl)
            else:
                wanted.acls.add(replace(translated, principal=principal))
    return wanted


def own_principals(flow: Flow) -> frozenset[str]:
    """The principals that the flow logs in as on the target, as far as its properties say."""
    logins = (login_name(flow.target.client_properties(role)) for role in ROLES)
    return frozenset(f"User:{login}" for login in logins if login)


class _Names:
    """The names of topics, and of topic name prefixes, on the target."""

    def __init__(self, flow: Flow, state: ClusterState) -> None:
        self._renamed = flow.topics_rename
        self._policy = policy_of(flow)
        self._known = state.source.names | state.ledger.copied.keys()
        named = {
            acl.name
            for acl in state.access.source_acls or ()
            if (acl.resource_type, acl.pattern_type) == ("TOPIC", "LITERAL") and acl.name != EVERY
        }
        # A topic's ACLs may exist before the topic does, and after it.
        self.selected = selection_of(flow, state, self._known | named).names

    def remote(self, topic: str) -> str:
        """A topic's name on the target."""
        return self._policy.remote_topic(topic)

    def below(self, prefix: str) -> list[str]:
        """The topics that the flow copies whose names begin with ``prefix``."""
        known = self.selected.keys() & self._known
        return sorted(name for name in known if name.startswith(prefix))

    def prefix(self, prefix: str) -> str | None:
        """The prefix on the target of topics that begin with ``prefix``; None where they have several."""
        return remote_prefix(self._policy, prefix)

    def strangers(self, prefix: str, remote_prefix: str) -> Iterator[str]:
        """Renamed topics that have the prefix on the target, and not on the source."""
        for topic, remote in self._renamed.items():
            if remote.startswith(remote_prefix) and not topic.startswith(prefix):
                yield remote


def _read_only(acl: Acl, names: _Names, wanted: WantedRules) -> Iterator[Acl]:
    if acl.resource_type != "TOPIC" or (acl.permission, acl.operation) == ("ALLOW", "WRITE"):
        return
    if acl.pattern_type != "LITERAL":
        if names.below(acl.name):
            wanted.by_prefix.add(acl)
    elif acl.name == EVERY:
        wanted.on_every_topic.add(acl)
    elif acl.name not in names.selected:
        return
    elif _UNKNOWN in (acl.operation, acl.permission):
        wanted.inexpressible.add(acl)
    else:
        reads = (acl.permission, acl.operation) == ("ALLOW", "ALL")
        operation = "READ" if reads else acl.operation
        yield replace(acl, name=names.remote(acl.name), operation=operation)


def _exact(acl: Acl, names: _Names, wanted: WantedRules) -> Iterator[Acl]:
    of_topics = acl.resource_type == "TOPIC"
    by_prefix = of_topics and (acl.pattern_type == "PREFIXED" or acl.name == EVERY)
    if not of_topics and acl.name.startswith(_OWN):
        return
    if of_topics and not by_prefix and acl.name not in names.selected:
        return
    if _UNKNOWN in (acl.operation, acl.permission):
        wanted.inexpressible.add(acl)
    elif by_prefix:
        yield from _of_prefix(acl, names, wanted)
    elif of_topics:
        yield replace(acl, name=names.remote(acl.name))
    else:
        yield acl


def _of_prefix(acl: Acl, names: _Names, wanted: WantedRules) -> Iterator[Acl]:
    """An ACL on many topics: by a prefix on the target too, and by name for topics named otherwise."""
    on_every = acl.name == EVERY
    prefix = "" if on_every else acl.name
    topics = names.below(prefix)
    remote_prefix = names.prefix(prefix)
    if not topics:
        return
    if remote_prefix == "" and not on_every:
        # A policy that removes prefixes: everything on the target would begin with "".
        remote_prefix = None
    if remote_prefix is not None:
        whole = replace(acl, name=remote_prefix, pattern_type="PREFIXED")
        whole = whole if remote_prefix else acl
        wanted.too_wide |= {(whole, topic) for topic in names.strangers(prefix, remote_prefix)}
        yield whole
    for remote in map(names.remote, topics):
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
