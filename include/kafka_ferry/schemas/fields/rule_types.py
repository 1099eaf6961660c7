"""Transform rules for records whose schemas a registry has, with the types that the fields have there.

Expressions see a field by one type: that of the newest version under ``{topic}-key`` or ``{topic}-value`` of each
topic that the rule is for. Records of earlier versions are read by their own schema, and a field that they lack
is null.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from kafka_ferry.config.options.transform import (
    PARTS,
    REGISTRY_FORMATS,
    RegistryFormat,
    TransformRule,
)
from kafka_ferry.config.types.record_path import read_path
from kafka_ferry.errors import ConfigError
from kafka_ferry.model.schemas import SchemaVersion
from kafka_ferry.schemas.fields.record_schema import Names, NotReadable, SchemaField
from kafka_ferry.schemas.fields.records import failure_of_record, record_schema
from kafka_ferry.schemas.registry import EXTRA, SchemaRegistry, open_registry

if TYPE_CHECKING:
    from kafka_ferry.config import Flow

_Part = Literal["key", "value"]
_Fields = dict[Names, SchemaField]


def with_registry_types(flow: Flow) -> Flow:
    """The flow with the types of its schemas in the rules for such records; the flow itself without any.

    The rules are for Spark's expressions alone: their fingerprints are not those of the flow's.

    Raises:
        ConfigError: naming the rule: it sets a field that a schema lacks, drops one without a default, or names
            one that has different types in the schemas of its topics; or a package of the extra is missing.
        ClusterUnreachable, AccessDenied, RegistryRefused: as ``SchemaRegistry``.
    """
    if not any(rule.registry_formats for rule in flow.transform):
        return flow
    with open_registry(flow.source) as registry:
        subjects = registry.subjects()
        rules = tuple(
            _with_types(flow, number, registry, subjects) for number in range(len(flow.transform))
        )
    return flow.model_copy(update={"transform": rules})


def _with_types(
    flow: Flow, number: int, registry: SchemaRegistry, subjects: list[str]
) -> TransformRule:
    rule = flow.transform[number]
    try:
        types = tuple(_types(flow, number, registry, subjects))
    except ImportError as error:
        reason = f"needs a package that is not installed ({error.name})"
        raise _wrong(flow, number, reason, EXTRA) from error
    return rule.model_copy(update={"types": (*rule.types, *types)})


def _types(
    flow: Flow, number: int, registry: SchemaRegistry, subjects: list[str]
) -> Iterator[tuple[str, str]]:
    """The types of the fields that a rule's expressions may name, by path."""
    rule = flow.transform[number]
    for part in PARTS:
        form = rule.format_of(part)
        if form not in REGISTRY_FORMATS:
            continue
        types: dict[Names, tuple[str, str]] = {}
        own = (name for name in subjects if _is_for(flow, rule, name, part))
        for subject, fields in _newest(registry, own, form, rule.field_names):
            if problem := _problem(rule, part, fields):
                raise _wrong(flow, number, f"{problem} in {subject}: a rule cannot change a schema")
            for names, field in fields.items():
                before, at = types.setdefault(names, (field.sql_type, subject))
                if before != field.sql_type and names[-1] in rule.words:
                    raise _wrong(
                        flow,
                        number,
                        f"names {'.'.join((part, *names))}, which is {before} in {at} and "
                        f"{field.sql_type} in {subject}: make a rule for each",
                    )
        yield from (
            (".".join((part, *names)), type_)
            for names, (type_, _) in types.items()
            if names[-1] in rule.words
        )


def _is_for(flow: Flow, rule: TransformRule, subject: str, part: _Part) -> bool:
    """Whether a subject has the schemas of a part of a topic that the rule is for."""
    topic = subject.removesuffix(f"-{part}")
    return topic != subject and flow.transform_of(topic) is rule


def _newest(
    registry: SchemaRegistry, subjects: Iterable[str], form: RegistryFormat, words: Collection[str]
) -> Iterator[tuple[str, _Fields]]:
    """The fields of the newest version of each subject where that is of this format."""
    for subject in subjects:
        # Deleted meanwhile, it has none.
        for newest in registry.versions(subject)[-1:]:
            # Records of another format fail one by one, as those of any schema of another format do.
            with suppress(NotReadable):
                schema = registry.schema(SchemaVersion(subject, newest))
                own = record_schema(registry, schema, form)
                with failure_of_record():
                    fields = own.fields(words)
                yield subject, fields


def _problem(rule: TransformRule, part: _Part, fields: _Fields) -> str:
    """What a rule would change of a schema's shape; "" for nothing."""
    for path in (read_path(text) for text, _ in rule.set):
        if path.part == part and path.names and path.names not in fields:
            return f"sets {path}, which is no field"
    for path in map(read_path, rule.drop):
        if path.part == part and path.names in fields and not fields[path.names].has_default:
            return f"drops {path}, which has no default"
    return ""


def _wrong(flow: Flow, number: int, reason: str, advice: str = "") -> ConfigError:
    topics = ", ".join(flow.transform[number].topics)
    return ConfigError(flow.file, f"transform, rule {number + 1} ({topics})", reason, advice=advice)
