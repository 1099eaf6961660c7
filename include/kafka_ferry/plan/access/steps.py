"""What a run changes in ACLs, quotas and SCRAM users on the target. Pure.

Each kind compares three things: what the source has now, what the flow has applied so far, and
what the target has now. Only differences become changes, and only what the flow has created on the
target is ever deleted there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kafka_ferry.config import Flow
from kafka_ferry.model.changes import Acl, AclChange, QuotaChange, QuotaEnd, UserChange
from kafka_ferry.model.cluster_state import ClusterState
from kafka_ferry.model.plan import OffsetsChoice
from kafka_ferry.model.remarks import Note
from kafka_ferry.model.removals import first_of
from kafka_ferry.plan.access.acls import WantedRules, own_principals, wanted_rules
from kafka_ferry.plan.access.quotas import quota_steps
from kafka_ferry.plan.access.scram_users import user_steps

_AT_MOST_NAMED: Final = 5
# What the flow does on remote topics: an ACL that denies it to all principals stops it as well.
_NEEDED: Final = frozenset({"ALL", "READ", "WRITE", "DESCRIBE"})
_WRITING: Final = frozenset({"ALL", "WRITE"})


def access_steps(
    flow: Flow, state: ClusterState, choices: Iterable[OffsetsChoice]
) -> Iterator[AclChange | Acl | QuotaChange | QuotaEnd | UserChange | Note]:
    """All changes of access on the target, the ACLs there that they rely on, and notes on them.

    Args:
        flow: the flow.
        state: the state of both clusters.
        choices: how the offsets of the planned topics are kept.
    """
    access, applied = state.access, state.ledger.applied
    for sentence in access.notes:
        yield Note("", sentence)
    yield from _acl_steps(flow, state, choices)
    yield from quota_steps(flow, access, applied)
    yield from user_steps(flow, access, applied)


def _acl_steps(
    flow: Flow, state: ClusterState, choices: Iterable[OffsetsChoice]
) -> Iterator[AclChange | Acl | Note]:
    access = state.access
    if access.source_acls is None or access.target_acls is None:
        return
    choices = list(choices)
    wanted = wanted_rules(flow, state, choices)
    source, target = flow.source.alias, flow.target.alias
    sentences = (*_left_out(source, target, wanted), *_of_effect(source, target, wanted))
    yield from (Note("", sentence) for sentence in sentences)
    yield from _foreign_writers(flow, wanted, choices)
    grants = wanted.acls - access.target_acls
    revokes = (state.ledger.applied.acls - wanted.acls) & access.target_acls
    yield from (AclChange(acl, "grant") for acl in sorted(grants))
    yield from (AclChange(acl, "revoke") for acl in sorted(revokes))
    yield from _needed_denials(wanted.acls & access.target_acls, grants, revokes)


def _needed_denials(
    standing: Iterable[Acl], grants: Iterable[Acl], revokes: Iterable[Acl]
) -> Iterator[Acl]:
    """The ACLs that deny on the target already, and without which a change would widen rights."""
    widening = [acl for acl in grants if acl.permission == "ALLOW"]
    widening += [acl for acl in revokes if acl.permission == "DENY"]
    for acl in sorted(standing):
        if acl.permission == "DENY" and any(map(acl.meets, widening)):
            yield acl


def _left_out(source: str, target: str, wanted: WantedRules) -> Iterator[str]:
    """The ACLs of the source that are not synced, and why."""
    for which, acls in (
        ("on all topics (*)", wanted.on_every_topic),
        ("by prefix", wanted.by_prefix),
    ):
        if acls:
            yield (
                f"ACLs of {source} that allow something {which} are not synced: {list_some(acls)}. "
                "acls.mode: exact syncs them."
            )
    if wanted.unmapped:
        yield (
            f"No rule of acls.principals matches {list_some(wanted.unmapped)}: what {source} allows "
            f"them is not synced, and what it denies them only, under the same name, where {target} "
            "allows it to all principals (User:*)."
        )
    for acl, excess in sorted(wanted.excesses.items()):
        yield (
            f"Held back: {acl}. On {target} it would let {excess.principal or 'other principals'} "
            f"{excess.operation} {excess.resource.remote}, which {source} does not."
        )
    for acl, why in sorted(wanted.on_others.items()):
        yield f"Held back: {acl}. {why}"
    if wanted.inexpressible:
        resources = {
            f"{acl.principal} on the {acl.resource_type.lower().replace('_', ' ')} {acl.name}"
            for acl in wanted.inexpressible
        }
        yield (
            f"ACLs of {source} about operations that Kafka Ferry does not know are not synced: "
            f"{list_some(resources)}. Set them on {target} by hand."
        )
    if wanted.against_the_flow:
        yield (
            f"ACLs of {source} that would take rights on {target} from the flow itself are not "
            f"synced: {list_some(wanted.against_the_flow)}."
        )


def _of_effect(source: str, target: str, wanted: WantedRules) -> Iterator[str]:
    """The ACLs on the target that have another effect there than on the source."""
    for acl, topic in sorted(wanted.too_wide):
        yield (
            f"{acl}: on {target} this covers {topic} too, which has another name on {source}, where "
            "the ACL does not cover it."
        )
    for acl, other in sorted(wanted.shared):
        yield (
            f"{acl}: on {target} its prefix would cover copies from {other} too, so that each topic that it "
            "covers has an ACL by name."
        )
    against_all = {
        acl
        for acl in wanted.acls
        if (acl.permission, acl.principal) == ("DENY", "User:*") and acl.operation in _NEEDED
    }
    if against_all:
        yield (
            f"ACLs that deny to all principals also apply to the flow itself on {target}, unless it is a "
            f"super user there: {list_some(against_all)}."
        )


def _foreign_writers(
    flow: Flow, wanted: WantedRules, choices: Iterable[OffsetsChoice]
) -> Iterator[Note]:
    own = own_principals(flow)
    writing = [
        acl
        for acl in wanted.acls
        if (acl.resource_type, acl.permission) == ("TOPIC", "ALLOW")
        and acl.operation in _WRITING
        and acl.principal not in own
    ]
    for choice in choices if writing else ():
        writers = {acl.principal for acl in writing if acl.covers(choice.remote_topic)}
        if choice.preserved and writers:
            yield Note(
                choice.topic,
                f"ACLs as on the source let {list_some(writers)} write to "
                f"{choice.remote_topic}, whose offsets are preserved: a single record of theirs takes "
                "the offset of one of the source's, and the flow stops there.",
            )


def list_some(things: Iterable[Acl | str]) -> str:
    """The first few items as text, and how many more there are."""
    return first_of(sorted(map(str, things)), _AT_MOST_NAMED)
