"""Makes a plan's changes of ACLs, quotas and SCRAM users on the target.

(a) Everything is in the ledger before it is created: after a kill in between, the ledger may name
    what does not exist, which the next run sees; nothing exists that the ledger does not name.
(b) Only what the flow created, and what has existed ever since, is deleted.
(c) The target shows each change before anything else is done, so that a run that follows at once
    sees it.
(d) No step gives a principal a right that it lacks on the source: ACLs that deny are created first and
    deleted last, and nothing is widened that a failed change, or an ACL that another client has deleted
    since the plan, was to narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, TypeVar

from kafka_ferry.batched import batched
from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.config.files.password_files import read_passwords
from kafka_ferry.control.access import AccessControl
from kafka_ferry.errors import AccessDenied, ConfigError, FerryError
from kafka_ferry.ledger import AppliedEntry, append_entry
from kafka_ferry.model import Plan
from kafka_ferry.model.changes import (
    Acl,
    AclChange,
    Applied,
    QuotaChange,
    UserChange,
    quota_name,
)
from kafka_ferry.model.plan import AccessChanges
from kafka_ferry.runs.state.run_context import RunContext

_T = TypeVar("_T")
# Keeps a ledger record far below max.message.bytes.
_AT_ONCE: Final = 1_000
_AT_MOST_TOLD: Final = 20
# By kind, what it is called, and what a plan has of it.
_PLANNED: Final = {
    "acls": ("ACLs", ("acl_changes", "relied_on")),
    "quotas": ("client quotas", ("quota_changes", "ended_quotas")),
    "users": ("SCRAM users", ("user_changes",)),
}


def apply_access(run: RunContext, plan: Plan) -> list[str]:
    """Make the plan's changes of access; a repetition makes those that are not made yet.

    What another client has changed since the plan was made stays as it is.

    Args:
        run: the run; the ledger's topic exists.
        plan: its plan.

    Returns:
        A sentence for each thing that could not be changed.

    Raises:
        FerryError: if the target does not answer, or rejects the ledger's record.
    """
    flow = run.flow
    if not (
        flow.sync_topic_acls_enabled
        or flow.sync_client_quotas_enabled
        or flow.sync_scram_users_enabled
    ):
        return []
    run.project_ledger()
    applied = run.ledger.applied()
    granting = _Granting(flow, plan.run, plan.source_cluster_id, plan.access, applied)
    sentences: list[str] = []
    # Changes are only safe with what was there when they were planned, and a run can be repeated long afterwards.
    for kind in sorted(run.ledger.access_changed_since(plan.ledger_end, but_by=plan.run)):
        name, fields = _PLANNED[kind]
        if getattr(plan.access, fields[0]):
            sentences.append(
                f"Another run has changed {name} since this one was planned: its changes of {name} are left to the "
                "next run."
            )
        unplanned = dict.fromkeys(fields, ())
        granting = replace(granting, planned=replace(granting.planned, **unplanned))
    for change, planned in (
        (granting.change_rules, plan.access.acl_changes),
        (granting.change_quotas, plan.access.quota_changes),
        (granting.change_users, plan.access.user_changes),
    ):
        try:
            sentences += change()
        except FerryError as error:
            if error.transient:
                raise
            # Where nothing was to be changed, the plan says why the quotas could not be read.
            if planned:
                sentences.append(str(error))
    return sentences


@dataclass(frozen=True)
class _Granting:
    flow: Flow
    run: str
    source_cluster_id: str
    planned: AccessChanges
    applied: Applied

    def change_rules(self) -> list[str]:
        changes, claimed = self.planned.acl_changes, self.applied.acls
        if not self.flow.sync_topic_acls_enabled or not (changes or claimed):
            return []
        with AccessControl(self.flow.target) as target:
            existing = target.acls()
            grants = {change.acl for change in changes if change.change == "grant"} - existing
            revokes = (
                {change.acl for change in changes if change.change == "revoke"} & existing & claimed
            )
            lost = claimed - existing - grants
            self._record(acls=[*_changes(grants, "grant"), *_changes(lost, "revoke")])
            gone = [acl for acl in self.planned.relied_on if acl not in existing]
            errors = _change_acls(target, grants, revokes, gone)
            target.see_acls(grants - errors.keys(), revokes - errors.keys())
        ended = (grants & errors.keys()) | (revokes - errors.keys())
        self._record(acls=_changes(ended, "revoke"))
        return _sentences(errors, "ACLs", self.flow.target.alias)

    def change_quotas(self) -> list[str]:
        claimed = self.applied.quotas
        unsure = {what for what, ours in claimed.items() if len(ours) > 1}
        planned = {(quota.entity, quota.key): quota for quota in self.planned.quota_changes}
        ended = {(quota.entity, quota.key) for quota in self.planned.ended_quotas} & claimed.keys()
        if self.flow.sync_client_quotas_enabled:
            self._record(
                quotas=[QuotaChange(*what, None, None) for what in sorted(ended, key=repr)]
            )
        if not self.flow.sync_client_quotas_enabled or not (planned or unsure):
            return []
        alias = self.flow.target.alias
        with AccessControl(self.flow.target) as target:
            now = target.quotas()
            due = {
                what: quota
                for what, quota in planned.items()
                if now.get(what) == quota.before
                and (quota.value is not None or quota.before in claimed.get(what, ()))
            }
            self._record(quotas=due.values())
            errors = target.change_quotas(due.values())
            values = {what: quota.value for what, quota in due.items() if quota not in errors}
            target.see_quotas(values)
        values |= {what: now.get(what) for what in unsure - due.keys()}
        confirmed = {
            what: quota for what, quota in values.items() if what in due or quota in claimed[what]
        }
        self._record(quotas=[QuotaChange(*what, quota, quota) for what, quota in confirmed.items()])
        meanwhile = [
            f"{alias}: another client has changed {quota_name(*what)} since the run was planned."
            for what, quota in planned.items()
            if what not in due and now.get(what) != quota.value
        ]
        return meanwhile + _sentences(errors, "client quotas", alias)

    def change_users(self) -> list[str]:
        changes, claimed = self.planned.user_changes, self.applied.users
        if not self.flow.sync_scram_users_enabled or not (changes or claimed):
            return []
        with AccessControl(self.flow.target) as target:
            existing = target.users().keys()
            creates = [
                change
                for change in changes
                if change.change == "create" and _key(change) not in existing
            ]
            deletes = [change for change in changes if change.change == "delete"]
            deletes = [change for change in deletes if _key(change) in existing & claimed]
            passwords, sentences = self._passwords(creates)
            creates = [change for change in creates if change.user in passwords]
            lost = claimed - existing - {_key(change) for change in creates}
            self._record(users=[*creates, *(UserChange(*key, 0, "delete") for key in sorted(lost))])
            errors = target.change_users([*creates, *deletes], passwords)
            made = [change for change in creates if change not in errors]
            gone = [change for change in deletes if change not in errors]
            target.see_users(made, gone)
        gone += [change for change in creates if change in errors]
        self._record(users=[replace(change, change="delete") for change in gone])
        return sentences + _sentences(errors, "SCRAM users", self.flow.target.alias)

    def _passwords(self, creates: Sequence[UserChange]) -> tuple[Mapping[str, str], list[str]]:
        """The passwords, read only if there are users to create, and the users without one."""
        if not creates:
            return {}, []
        try:
            passwords = read_passwords(self.flow)
        except ConfigError as error:
            return {}, [str(error)]
        without = sorted({change.user for change in creates} - passwords.keys())
        return passwords, [f"scram.passwords.file has no password for {user}." for user in without]

    def _record(
        self,
        *,
        acls: Iterable[AclChange] = (),
        quotas: Iterable[QuotaChange] = (),
        users: Iterable[UserChange] = (),
    ) -> None:
        """Append to the ledger what is about to be changed, or was changed."""
        entry = partial(
            AppliedEntry,
            flow=self.flow.name,
            run=self.run,
            source_cluster_id=self.source_cluster_id,
        )
        for kind, changes in {"acls": acls, "quotas": quotas, "users": users}.items():
            for some in batched(changes, _AT_ONCE):
                append_entry(self.flow, entry(at=now_ms(), **{kind: some}))


def _change_acls(
    target: AccessControl,
    grants: AbstractSet[Acl],
    revokes: AbstractSet[Acl],
    gone: Iterable[Acl] = (),
) -> dict[Acl, FerryError]:
    """Create and delete ACLs, in an order in which no principal gains or loses rights in between.

    Args:
        target: the target.
        grants: the ACLs to create.
        revokes: the ACLs to delete.
        gone: ACLs that deny, that the plan relied on, and that another client has deleted.
    """
    why = "was deleted on the target since the run was planned"
    narrowing = {acl: FerryError(f"{acl}: it {why}.") for acl in gone}
    narrowing |= target.grant(_of(grants, "DENY"))
    widening = _unless_wider(target.grant, _of(grants, "ALLOW"), narrowing)
    narrowing |= target.revoke(_of(revokes, "ALLOW"))
    widening |= _unless_wider(target.revoke, _of(revokes, "DENY"), narrowing)
    return narrowing | widening


def _of(acls: AbstractSet[Acl], permission: Literal["ALLOW", "DENY"]) -> list[Acl]:
    return sorted(acl for acl in acls if acl.permission == permission)


def _unless_wider(
    make: Callable[[Iterable[Acl]], dict[Acl, FerryError]],
    acls: Sequence[Acl],
    failed: Iterable[Acl],
) -> dict[Acl, FerryError]:
    """Change those of ``acls`` that no failed ACL that denies was to narrow; the others are errors."""
    held: dict[Acl, FerryError] = {}
    for acl in acls:
        for other in failed:
            if acl.meets(other):
                held[acl] = FerryError(f"Held back, since another change failed: {acl}.")
                break
    return held | make(acl for acl in acls if acl not in held)


def _changes(acls: Iterable[Acl], change: Literal["grant", "revoke"]) -> list[AclChange]:
    return [AclChange(acl, change) for acl in sorted(acls)]


def _key(change: UserChange) -> tuple[str, str]:
    return change.user, change.mechanism


def _sentences(errors: Mapping[_T, FerryError], what: str, alias: str) -> list[str]:
    """Errors as sentences; those about a missing permission as one."""
    denied = [error for error in errors.values() if isinstance(error, AccessDenied)]
    sentences = [str(error) for error in errors.values() if not isinstance(error, AccessDenied)]
    if len(sentences) > _AT_MOST_TOLD:
        more = f"{len(sentences) - _AT_MOST_TOLD:,} more changes of {what} of {alias} failed."
        sentences = [*sentences[:_AT_MOST_TOLD], more]
    if denied:
        count = f"{len(denied):,} changes of {what}" if len(denied) > 1 else f"a change of {what}"
        sentences.insert(0, f"{alias} refuses {count}. {denied[0]}")
    return sentences
