"""Mirrors the schemas of a run's topics, before anything is copied.

It is a part of the step ``sync_topics``, which makes all of a plan's other changes too: a step of its own in the
DAG would only ask both registries once more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafka_ferry.copy import OutcomeFiles
from kafka_ferry.errors import VerificationFailed
from kafka_ferry.model import Note, Plan
from kafka_ferry.model.ranges import IdPart, Range, parts_of
from kafka_ferry.model.schemas import SchemaChanges, SchemaRegistration, TranslatedIds
from kafka_ferry.plan.topics.replication_policy import policy_of
from kafka_ferry.schemas.ids import (
    FOLDER,
    FlowSchemas,
    MirroredSchema,
    store_schemas,
    stored_schemas,
)
from kafka_ferry.schemas.mirror import SchemaMirror, schemas_in_both
from kafka_ferry.schemas.registry import open_registry
from kafka_ferry.schemas.subjects import SubjectNames, chosen_subjects, parts_with_ids

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerRange
    from kafka_ferry.runs.state.run_context import RunContext

_FINGERPRINT_DIGITS: Final = 16
_MOVED: Final = (
    "The schemas {} of the source have other ids on the target than before: records that were "
    "copied before have ids that are not valid there any more. Was the target's registry recreated?"
)
_GONE: Final = (
    "The target's registry no longer has the schemas {} of the source, which were mirrored before. They are registered "
    "again; if they get other ids, records that were copied before have ids that are not valid there any more. Was the "
    "target's registry recreated?"
)
_REPLACED: Final = (
    "The ids {} are of other schemas in the source's registry than before, and records that are "
    "copied from now on get the ids of those. Was it recreated, or is it another registry?"
)
_LOST: Final = (
    "The source's ids {} were mirrored before, and the registries do not both have those schemas "
    "under the same ids any more: records with such an id are looked up again while they are copied."
)


@dataclass(frozen=True, slots=True)
class _Mirrored:
    """What both registries have.

    Attributes:
        mirror: what was found, and made.
        subjects: all subjects of the source.
        known: what the flow has mirrored by now.
        moved: the source's ids that had others on the target.
        gone: the source's ids that were mirrored before, and whose schemas the target lacks.
        replaced: the source's ids that were of other schemas.
        lost: the source's ids that were mirrored before, and that both registries do not have alike any more.
    """

    mirror: SchemaMirror
    subjects: frozenset[str]
    known: FlowSchemas
    moved: Sequence[int]
    gone: Sequence[int]
    replaced: Sequence[int]
    lost: Sequence[int]


def planned_schemas(run: RunContext, plan: Plan) -> Plan:
    """The plan with what is to be done about schemas; changes nothing on either registry.

    Raises:
        ConfigError: the registries' client is not installed, or its properties cannot be used.
        ClusterUnreachable, AccessDenied: as ``SchemaRegistry``.
    """
    mirrored = _mirror(run, plan, changes=False)
    before = _parts_before(run)
    rules = _rules(run.flow, plan, mirrored.subjects, before)
    names = mirrored.mirror.names
    changes = SchemaChanges(
        tuple(SchemaRegistration(at, names.remote(at.subject)) for at in mirrored.mirror.missing),
        tuple(mirrored.mirror.settings),
        tuple(TranslatedIds(*rule) for rule in sorted(rules.items())),
        _digest(run.flow, mirrored.known),
    )
    notes = [Note("", sentence) for sentence in _sentences(mirrored)]
    notes += _without_subjects(run.flow, rules, mirrored.subjects)
    return replace(
        plan,
        ranges=_with_rules(plan, rules),
        schemas=changes,
        remarks=replace(plan.remarks, notes=(*plan.remarks.notes, *notes)),
    )


def mirror_schemas(run: RunContext, plan: Plan) -> tuple[Plan, list[str]]:
    """Mirror the schemas of a plan's topics, and store their ids for the tasks that copy, and for the next run.

    Returns:
        The plan, which holds the digest of the ids, and in which records get other ids also where the source has a
        subject that it did not have, or did not name, when the run was planned; and what could not be done, as
        sentences.

    Raises:
        ConfigError, ClusterUnreachable, AccessDenied: as ``planned_schemas``.
    """
    mirrored = _mirror(run, plan, changes=True)
    store_schemas(run.state, mirrored.known)
    if digest := _digest(run.flow, mirrored.known):
        # Another run of the flow may mirror others while this one copies.
        store_schemas(run.folder.files, mirrored.known)
    planned = {
        range_.topic: parts_of(range_.schema_ids) for range_ in plan.ranges if range_.schema_ids
    }
    rules = _rules(run.flow, plan, mirrored.subjects, planned)
    schemas = replace(plan.schemas, schema_ids_digest=digest)
    moved = (Note("", _told(_MOVED, mirrored.moved)),) if mirrored.moved else ()
    remarks = replace(plan.remarks, notes=(*plan.remarks.notes, *moved))
    plan = replace(plan, ranges=_with_rules(plan, rules), schemas=schemas, remarks=remarks)
    return plan, mirrored.mirror.problems


def keep_late_schemas(run: RunContext) -> None:
    """Store the ids that a run's tasks have asked for, so that the tasks of the next run need not."""
    if run.flow.sync_schemas != "translate-ids":
        return
    late = {schema.source_id: schema for schema in _late_schemas(run)}
    stored = stored_schemas(run.state)
    if new := [schema for source_id, schema in late.items() if source_id not in stored.ids]:
        store_schemas(run.state, replace(stored, schemas=(*stored.schemas, *new)))


def require_same_schemas(run: RunContext, plan: Plan, unproved: Iterable[LedgerRange] = ()) -> None:
    """Check that the target's registry still has, under their ids, the schemas whose ids records were given.

    It takes a request for each schema, and none where no record got an id.

    Args:
        run: the run.
        plan: its plan.
        unproved: the ranges that it is to prove, those of earlier runs too.

    Raises:
        VerificationFailed: if it does not.
        ConfigError, ClusterUnreachable, AccessDenied: as ``planned_schemas``.
    """
    runs = {it.run for it in unproved if it.copied.schema_ids}
    if any(range_.schema_ids for range_ in plan.ranges):
        runs.add(run.run_id)
    # There is none once a run has been published: later runs compare with what the flow has stored.
    given = {
        (it.target_id, it.target_digest): id_ for id_ in sorted(runs) for it in _given(run, id_)
    }
    if not given:
        return
    with open_registry(run.flow.target) as registry:
        now = {target_id: registry.with_id(target_id) for target_id in {it for it, _ in given}}
    changed = {
        target_id: of_run
        for (target_id, digest), of_run in given.items()
        if (schema := now[target_id]) is None or schema.digest != digest
    }
    if changed:
        earlier = sorted(set(changed.values()) - {run.run_id})
        folders = [run.with_id(it).folder.files.folder(FOLDER).location for it in earlier]
        keep = (
            f" To leave such records as they are, delete {', '.join(folders)}." if folders else ""
        )
        raise VerificationFailed(
            f"The schema registry of {run.flow.target.alias} has other schemas than before, or none, under the ids "
            f"{', '.join(map(str, sorted(changed)))}, which were mirrored before records with them were copied.",
            advice="Restore that registry, and verify again. If it was recreated for good, its new ids hold for what "
            "is copied from now on: to copy a topic again, delete the remote topic and run with "
            f"on.target.topic.lost: recopy.{keep}",
        )


def _given(run: RunContext, run_id: str) -> list[MirroredSchema]:
    """The schemas whose ids a run of the flow may have given to records."""
    of_run = run.with_id(run_id)
    return [*stored_schemas(of_run.folder.files).schemas, *_late_schemas(of_run)]


def _late_schemas(run: RunContext) -> list[MirroredSchema]:
    """What the run's tasks have asked for."""
    outcomes = OutcomeFiles.read_all(run.folder.files)
    return [schema for outcome in outcomes for schema in outcome.late_schemas]


def _digest(flow: Flow, known: FlowSchemas) -> str:
    return known.digest if flow.sync_schemas == "translate-ids" else ""


def _mirror(run: RunContext, plan: Plan, *, changes: bool) -> _Mirrored:
    flow, stored = run.flow, stored_schemas(run.state)
    planned = {it.topic: it.remote_topic for it in plan.ranges}
    planned |= {it.topic: it.remote_topic for it in plan.choices}
    # Who writes in the state folder must not choose whose subjects on the target get schemas.
    policy = policy_of(flow)
    topics = {it: policy.remote_topic(it) for it in stored.remote_topics} | planned
    with open_registry(flow.source) as source, open_registry(flow.target) as target:
        subjects = source.subjects()
        mirror = SchemaMirror(
            source,
            target,
            SubjectNames(topics),
            keep_ids=flow.sync_schemas == "keep-ids",
            changes=changes,
        )
        mirror.mirror(chosen_subjects(flow, planned, subjects))
        now = mirror.of_records
        before = {it.source_id: it for it in stored.schemas}
        # Records may still have ids whose subjects are gone; what the folder says of them is only a claim.
        former = [it for source_id, it in before.items() if source_id not in now]
        kept = tuple(schemas_in_both(source, target, former))
    digests = {it.source_id: it.source_digest for it in stored.schemas}
    replaced = {it for it, digest in mirror.digests.items() if digests.get(it, digest) != digest}
    moved = {it for it in now if it in before and now[it].target_id != before[it].target_id}
    lost = {it.source_id for it in former} - {it.source_id for it in kept}
    return _Mirrored(
        mirror,
        frozenset(subjects),
        FlowSchemas((*now.values(), *kept), topics),
        moved=sorted(moved - replaced),
        gone=sorted(before.keys() & mirror.digests.keys() - now.keys() - replaced),
        replaced=sorted(replaced),
        lost=sorted(lost & digests.keys() - mirror.digests.keys()),
    )


def _parts_before(run: RunContext) -> dict[str, tuple[IdPart, ...]]:
    """By topic, the parts whose ids its newest records in the ledger got by their schemas."""
    return {topic: parts_of(ids) for topic, ids in run.ledger.schema_ids().items() if ids}


def _without_subjects(
    flow: Flow, rules: Mapping[str, str], subjects: frozenset[str]
) -> Iterator[Note]:
    """Which topics' records are still taken to hold ids although the source has no subject for them any more."""
    for topic, rule in sorted(rules.items()):
        by_subjects = parts_with_ids(flow, topic, subjects)
        if gone := [f"{topic}-{part}" for part in parts_of(rule) if part not in by_subjects]:
            yield Note(
                topic,
                f"the source's registry has no subject {' and '.join(gone)} any more. Records still get the target's "
                "ids, and on.unknown.schema says what becomes of those that neither registry knows. Set "
                f"schemas.ids.in: {{{topic}: none}} if they hold no ids from now on.",
            )


def _sentences(mirrored: _Mirrored) -> Iterator[str]:
    yield from mirrored.mirror.problems
    for ids, sentence in (
        (mirrored.moved, _MOVED),
        (mirrored.gone, _GONE),
        (mirrored.replaced, _REPLACED),
        (mirrored.lost, _LOST),
    ):
        if ids:
            yield _told(sentence, ids)


def _told(sentence: str, ids: Sequence[int]) -> str:
    return sentence.format(", ".join(map(str, ids)))


def _with_rules(plan: Plan, rules: Mapping[str, str]) -> tuple[Range, ...]:
    return tuple(replace(range_, schema_ids=rules.get(range_.topic, "")) for range_ in plan.ranges)


def _rules(
    flow: Flow,
    plan: Plan,
    subjects: frozenset[str],
    before: Mapping[str, tuple[IdPart, ...]],
) -> dict[str, str]:
    """By topic, which parts of its records get other ids, with the fingerprint of how."""
    if flow.sync_schemas != "translate-ids":
        return {}
    how = {
        "source": flow.source.registry_properties()["url"],
        "target": flow.target.registry_properties()["url"],
        "on.unknown.schema": flow.on_unknown_schema,
    }
    rules = {}
    for topic in {range_.topic for range_ in plan.ranges}:
        if parts := parts_with_ids(flow, topic, subjects, before.get(topic, ())):
            text = json.dumps(how | {"parts": parts}, sort_keys=True)
            digest = hashlib.sha256(text.encode()).hexdigest()[:_FINGERPRINT_DIGITS]
            rules[topic] = f"{'+'.join(parts)} {digest}"
    return rules
