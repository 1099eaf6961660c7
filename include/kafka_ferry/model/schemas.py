"""Schemas that a run mirrors from the source's registry to the target's."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_ferry.model.changes import Difference


@dataclass(frozen=True, order=True, slots=True)
class SchemaVersion:
    """A version of a subject."""

    subject: str
    version: int

    def __str__(self) -> str:
        return f"{self.subject} version {self.version}"


@dataclass(frozen=True, slots=True)
class SchemaRegistration:
    """A version of a subject that the target lacks.

    Attributes:
        at: the version on the source.
        remote_subject: the subject on the target.
    """

    at: SchemaVersion
    remote_subject: str

    def __str__(self) -> str:
        return f"register {self.at} as {self.remote_subject}"


@dataclass(frozen=True, slots=True)
class SubjectSetting:
    """A setting of a subject that differs on the target.

    Attributes:
        subject: the subject on the target.
        name: ``compatibility`` or ``mode``.
        value: what it is to be.
        before: what it is, "" where the subject has none of its own.
    """

    subject: str
    name: str
    value: str
    before: str

    def __str__(self) -> str:
        was = f" (it was {self.before})" if self.before else ""
        return f"set the {self.name} of {self.subject} to {self.value}{was}"


@dataclass(frozen=True, slots=True)
class TranslatedIds:
    """A topic whose records get the ids of schemas on the target.

    Attributes:
        topic: the source's topic.
        schema_ids: as of ``Range``.
    """

    topic: str
    schema_ids: str

    def __str__(self) -> str:
        parts, _, fingerprint = self.schema_ids.partition(" ")
        words = parts.replace("+", " and ")
        return f"schema ids of {self.topic}: translated in its {words} (rule {fingerprint})"


@dataclass(frozen=True, slots=True)
class SchemaChanges:
    """What a run changes about schemas.

    Attributes:
        schema_registrations: the versions to register.
        subject_settings: the settings to set.
        translated_ids: topics whose records get other ids.
        schema_ids_digest: the SHA-256 of which ids become which, as both registries have said it; "" where no records
            get other ids.
    """

    schema_registrations: tuple[SchemaRegistration, ...] = ()
    subject_settings: tuple[SubjectSetting, ...] = ()
    translated_ids: tuple[TranslatedIds, ...] = ()
    schema_ids_digest: str = ""

    @property
    def counts(self) -> dict[Difference, int]:
        """The number of changes of each kind."""
        return {
            Difference.SCHEMAS_TO_REGISTER: len(self.schema_registrations),
            Difference.SETTINGS_OF_SUBJECTS_TO_CHANGE: len(self.subject_settings),
        }
