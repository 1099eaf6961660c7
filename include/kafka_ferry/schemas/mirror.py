"""Mirrors subjects from one registry to the other.

Promises:

(a) a schema is registered after all that it refers to, and with references to what these are on the target;
(b) which schemas are the same is the target's judgement, by their content, and never a comparison of ids;
(c) nothing is deleted, and nothing is registered twice: a repetition does what is still to be done;
(d) what the target refuses is told, and stops only what refers to it;
(e) what was mirrored before holds only as long as both registries say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from kafka_ferry.model.schemas import SchemaVersion, SubjectSetting
from kafka_ferry.schemas.ids import MirroredSchema
from kafka_ferry.schemas.registered import RegisteredSchema
from kafka_ferry.schemas.registry import RegistryRefused, SchemaRegistry
from kafka_ferry.schemas.subjects import SubjectNames, is_of_context, is_one

IMPORT: Final = "IMPORT"
_READ_ONLY: Final = ("READONLY", "READONLY_OVERRIDE")
# Of references that refer to references: people write a few, a client that may register schemas thousands.
_LONGEST_CHAIN: Final = 64
# Of schemas that wait for what they refer to.
_MOST_TEXT: Final = 64 * 1024 * 1024
_NOT_MIRRORED: Final = ("", IMPORT, "FORWARD")
_T = TypeVar("_T")


@dataclass
class SchemaMirror:
    """Finds the source's schemas on the target, and makes what is missing there.

    Args:
        source: the source's registry.
        target: the target's.
        names: the names of subjects on the target.
        keep_ids: whether schemas keep their ids and versions, on a target in import mode.
        changes: whether what is missing is made; otherwise only found.

    Attributes:
        mirrored: by the source's version, what both have.
        digests: by the source's id, the digest of each schema that was read there.
        missing: the source's versions that the target lacks.
        settings: the settings that differ.
        problems: what the target refuses, as sentences.
    """

    source: SchemaRegistry
    target: SchemaRegistry
    names: SubjectNames
    keep_ids: bool = False
    changes: bool = False
    mirrored: dict[SchemaVersion, MirroredSchema] = field(default_factory=dict)
    digests: dict[int, str] = field(default_factory=dict)
    missing: list[SchemaVersion] = field(default_factory=list)
    settings: list[SubjectSetting] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _seen: set[SchemaVersion] = field(default_factory=set)
    # By version, how many references led to it when what it refers to was too far away.
    _cut_off: dict[SchemaVersion, int] = field(default_factory=dict)
    _subjects: set[str] = field(default_factory=set)
    _in_import_mode: set[str] = field(default_factory=set)
    # By the source's id, the digest of the first schema that it was seen with, whatever that refers to.
    _texts: dict[int, str] = field(default_factory=dict)
    _registered: Counter[str] = field(default_factory=Counter)
    _chain: int = 0
    _waiting: int = 0

    @property
    def of_records(self) -> dict[int, MirroredSchema]:
        """By the id that records of the source have, what was mirrored; another context's schema has none of these."""
        return {
            it.source_id: it for at, it in self.mirrored.items() if not is_of_context(at.subject)
        }

    def anew(self) -> SchemaMirror:
        """One that has seen nothing."""
        return SchemaMirror(self.source, self.target, self.names, self.keep_ids, self.changes)

    def mirror(self, subjects: Iterable[str]) -> None:
        """Mirror all versions of subjects, and what they refer to.

        A subject that is only referred to gets the source's compatibility level where it is made here: a
        producer on the source chooses what its schemas refer to, and others may use the target's.
        """
        for subject in subjects:
            self.mirror_subject(subject)
        for subject in sorted({at.subject for at in self._seen} - self._subjects):
            remote = self.names.remote(subject)
            level = self._told(partial(self.source.level, subject), "")
            if level not in _NOT_MIRRORED and self._told(partial(self._is_new, remote), False):
                self._set(remote, "compatibility", level)

    def mirror_subject(self, subject: str) -> None:
        """Mirror all versions of a subject, and its settings."""
        if subject in self._subjects:
            return
        self._subjects.add(subject)
        remote = self.names.remote(subject)
        mode = "" if self.keep_ids else self._told(partial(self.source.mode, subject), "")
        if mode not in _READ_ONLY:
            self._set(remote, "mode", mode)
        versions: Sequence[int] = self._told(partial(self.source.versions, subject), [])
        # Some registries know no settings of a subject without a version.
        for number, version in enumerate(versions):
            self.at_target(SchemaVersion(subject, version))
            if number == 0:
                level = self._told(partial(self.source.level, subject), "")
                self._set(remote, "compatibility", level)
        if mode in _READ_ONLY:
            self._set(remote, "mode", mode)

    def at_target(self, at: SchemaVersion) -> MirroredSchema | None:
        """What a version of the source is on the target, None if it is missing there."""
        if at in self._seen:
            if self._chain >= self._cut_off.get(at, 0):
                return self.mirrored.get(at)
            del self._cut_off[at]
            self.missing.remove(at)
        if not is_one(at.subject):
            self.problems.append(f"{at} is not mirrored: that is no subject's name.")
            self.missing.append(at)
            return None
        self._seen.add(at)
        if self._chain > _LONGEST_CHAIN:
            self.problems.append(
                f"What needs {at} is not mirrored where more than {_LONGEST_CHAIN} references in a row lead there."
            )
            self.missing.append(at)
            self._cut_off[at] = self._chain
            return None
        schema = self._of_source(at)
        if schema is None:
            self.missing.append(at)
            return None
        wanted = self._target_schema(schema)
        existing = self._found_or_made(wanted) if wanted else None
        if existing is None:
            self.missing.append(at)
            return None
        if self.keep_ids and existing.id != schema.id:
            self.problems.append(
                f"{existing.at} has the id {existing.id} on the target, and not {schema.id} as on the source: "
                "with sync.schemas: keep-ids, nothing else may register schemas there."
            )
        self.mirrored[at] = MirroredSchema(
            *(schema.id, existing.id, existing.at.subject, existing.at.version),
            *(schema.guid, existing.guid, schema.digest, existing.digest),
        )
        return self.mirrored[at]

    def _of_source(self, at: SchemaVersion) -> RegisteredSchema | None:
        """A version of the source; None where it is refused, or may not be what records mean by its id."""
        try:
            schema = self.source.schema(at)
        except RegistryRefused as error:
            # Deleted meanwhile, or deleted while others still refer to it.
            self.problems.append(str(error))
            return None
        if is_of_context(at.subject):
            return schema
        text = replace(schema, references=()).digest
        if self._texts.setdefault(schema.id, text) != text:
            self.problems.append(
                f"{at} is not mirrored: another schema has its id {schema.id} on the source too, and nothing tells "
                "which of them a record with that id means."
            )
            return None
        self.digests[schema.id] = schema.digest
        return schema

    def _found_or_made(self, wanted: RegisteredSchema) -> RegisteredSchema | None:
        """A schema as the target has it, None if it is missing there."""
        try:
            existing = self.target.find(wanted)
            if existing or not self.changes:
                return existing
            self._register(wanted)
            existing = self.target.find(wanted)
        except RegistryRefused as error:
            self.problems.append(str(error))
            return None
        if existing is None:
            self.problems.append(
                f"The target's registry has taken {wanted.at}, and does not have it."
            )
        return existing

    def _target_schema(self, schema: RegisteredSchema) -> RegisteredSchema | None:
        """A schema as it is to be on the target, None if something that it refers to is missing there."""
        references: list[tuple[str, SchemaVersion]] = []
        size = len(schema.text)
        if schema.references and self._waiting + size > _MOST_TEXT:
            self.problems.append(
                f"{schema.at} is not mirrored: it and what leads to it have more than {_MOST_TEXT:,} characters."
            )
            return None
        for name, at in schema.references:
            self._chain, self._waiting = self._chain + 1, self._waiting + size
            try:
                mirrored = self.at_target(at)
            finally:
                self._chain, self._waiting = self._chain - 1, self._waiting - size
            if mirrored is None:
                if at in self._cut_off:
                    self._cut_off[schema.at] = self._chain
                return None
            references.append((name, SchemaVersion(mirrored.subject, mirrored.version)))
        at = SchemaVersion(self.names.remote(schema.at.subject), schema.at.version)
        return replace(schema, at=at, references=tuple(references))

    def _is_new(self, remote: str) -> bool:
        """Whether the target had no version of a subject before."""
        return len(self.target.versions(remote)) == self._registered[remote]

    def _register(self, schema: RegisteredSchema) -> None:
        if self.keep_ids:
            self._require_import_mode(schema.at.subject)
        self.target.register(schema, with_id=self.keep_ids)
        self._registered[schema.at.subject] += 1

    def _require_import_mode(self, subject: str) -> None:
        if subject in self._in_import_mode:
            return
        if (self.target.mode(subject) or self.target.global_mode()) != IMPORT:
            self.target.set_mode(subject, IMPORT)
        self._in_import_mode.add(subject)

    def _told(self, ask: Callable[[], _T], otherwise: _T) -> _T:
        """What a registry tells; ``otherwise`` where it refuses that, which stops nothing else."""
        try:
            return ask()
        except RegistryRefused as error:
            self.problems.append(str(error))
            return otherwise

    def _set(self, subject: str, name: str, value: str) -> None:
        """Set a setting as on the source; one that the source has not set stays as it is."""
        if value in _NOT_MIRRORED:
            return
        is_mode = name == "mode"
        ask = self.target.mode if is_mode else self.target.level
        before: str | None = self._told(partial(ask, subject), None)
        if before in (value, None):
            return
        self.settings.append(SubjectSetting(subject, name, value, before))
        if not self.changes:
            return
        try:
            (self.target.set_mode if is_mode else self.target.set_level)(subject, value)
        except RegistryRefused as error:
            self.problems.append(str(error))


def schemas_in_both(
    source: SchemaRegistry, target: SchemaRegistry, stored: Sequence[MirroredSchema]
) -> Iterator[MirroredSchema]:
    """The stored schemas that both registries still have under their ids, and that are one schema there.

    It takes a request to each for a schema, one more for its GUID, two for a text that is written otherwise on the
    target, and one to each for what it refers to.
    """
    equality = _Equality(source, target)
    for schema in stored:
        try:
            source_schema = source.with_id(schema.source_id)
            target_schema = target.schema(SchemaVersion(schema.subject, schema.version))
            is_one = source_schema is not None and equality.holds(source_schema, target_schema)
            has_guids = _has_guids(source, schema, target_schema)
        except RegistryRefused:
            continue
        is_as_before = source_schema is not None and source_schema.digest == schema.source_digest
        is_as_before &= (target_schema.id, target_schema.digest) == (
            schema.target_id,
            schema.target_digest,
        )
        if is_one and is_as_before:
            yield schema if has_guids else replace(schema, source_guid="", target_guid="")


def _has_guids(
    source: SchemaRegistry, stored: MirroredSchema, target_schema: RegisteredSchema
) -> bool:
    """Whether the stored GUIDs are those of the schemas: a registry that is asked for an id gives no GUID."""
    if stored.target_guid != target_schema.guid:
        return False
    if stored.source_guid in ("", target_schema.guid):
        return True
    source_schema = source.with_guid(stored.source_guid)
    return source_schema is not None and source_schema.digest == stored.source_digest


class _Equality:
    """Whether schemas of both registries are the same, with what they refer to.

    The target judges texts that differ. What a registry has no more under its version cannot be compared.
    """

    def __init__(self, source: SchemaRegistry, target: SchemaRegistry) -> None:
        self._source, self._target = source, target
        self._known: dict[tuple[SchemaVersion, SchemaVersion], bool] = {}

    def holds(
        self, source_schema: RegisteredSchema, target_schema: RegisteredSchema, chain: int = 0
    ) -> bool:
        """Whether they are; ``chain`` references lead to them."""
        source_references, target_references = (
            sorted(source_schema.references),
            sorted(target_schema.references),
        )
        if (source_schema.kind, [name for name, _ in source_references]) != (
            target_schema.kind,
            [name for name, _ in target_references],
        ):
            return False
        pairs = zip(
            (at for _, at in source_references), (at for _, at in target_references), strict=True
        )
        return self._is_found(source_schema, target_schema) and all(
            self._refer(*pair, chain + 1) for pair in pairs
        )

    def _is_found(self, source_schema: RegisteredSchema, target_schema: RegisteredSchema) -> bool:
        if source_schema.text == target_schema.text:
            return True
        existing = self._target.find(
            replace(source_schema, at=target_schema.at, references=target_schema.references)
        )
        return existing is not None and existing.id == target_schema.id

    def _refer(
        self, source_version: SchemaVersion, target_version: SchemaVersion, chain: int
    ) -> bool:
        if chain > _LONGEST_CHAIN:
            return False
        if (source_version, target_version) not in self._known:
            self._known[source_version, target_version] = False
            try:
                both = self._source.schema(source_version), self._target.schema(target_version)
            except RegistryRefused:
                self._known[source_version, target_version] = True
            else:
                self._known[source_version, target_version] = self.holds(*both, chain)
        return self._known[source_version, target_version]
