"""The JSON Schema of a flow's YAML file, made from the models, for editors: ``make docs`` writes it.

A file that the schema accepts may still be invalid, for example because of an invalid regular expression
or two clusters with one alias. A file that it rejects is invalid.
"""

from __future__ import annotations

import json
from typing import Any, Final

from kafka_ferry.config.client.cluster import Cluster
from kafka_ferry.config.client.config_providers import PROVIDERS
from kafka_ferry.config.client.property_names import (
    CLUSTER_NAMES,
    IGNORED_CONNECTION_NAMES,
    REGISTRY_NAMES,
    REGISTRY_PREFIX,
    ROLES,
)
from kafka_ferry.config.files.mm2_keys import FIXED
from kafka_ferry.config.flow import OPTIONS, Flow
from kafka_ferry.config.types.per_topic import PerTopic

Schema = dict[str, Any]

_DRAFT: Final = "http://json-schema.org/draft-07/schema#"
_SIDES: Final = ("source", "target")
_TRUTH: Final[Schema] = {"enum": ["true", "false"]}
_TEXT: Final[Schema] = {"type": ["string", "number", "boolean"]}
_JAVA_TEXT: Final[Schema] = {"type": ["string", "number", "boolean", "array"], "items": _TEXT}


def flow_schema() -> Schema:
    """The schema, in the draft that editors know best."""
    whole = Flow.model_json_schema()
    generated = whole["properties"]
    for name, field in Flow.model_fields.items():
        if isinstance(default := field.get_default(), PerTopic):
            generated[field.alias or name]["default"] = str(default)
    options = {option: _option(generated[option]) for option in OPTIONS}
    return {
        "$schema": _DRAFT,
        "title": "A flow of Kafka Ferry",
        "description": "One source cluster, one target cluster, and how topics are copied between them.",
        "type": "object",
        "properties": {
            **{side: _cluster(Flow.model_fields[side].description) for side in _SIDES},
            **options,
            **{name: {"type": "string", "description": "Only its default."} for name in FIXED},
            PROVIDERS: {
                "type": ["string", "array"],
                "items": {"type": "string"},
                "description": "The config providers that the clusters' properties refer to: file, env, dir, "
                "or your own names.",
            },
        },
        "patternProperties": {
            rf"^{PROVIDERS.replace('.', '[.]')}[.].+": _TEXT,
            r"^replication[.]policy[.].+": {},
        },
        "required": list(_SIDES),
        "additionalProperties": False,
        "$defs": {"TransformRule": whole["$defs"]["TransformRule"]},
    }


def _option(generated: Schema) -> Schema:
    """An option as pydantic describes it."""
    about: Schema = {key: generated[key] for key in ("description", "default") if key in generated}
    shape = {key: value for key, value in generated.items() if key not in (*about, "title")}
    alternatives = shape.pop("anyOf", None) or [shape]
    if {"type": "boolean"} in alternatives:
        alternatives = [*alternatives, _TRUTH]
    return {**about, "anyOf": alternatives}


def _cluster(description: str | None) -> Schema:
    """A cluster's mapping: its alias, and the properties of all or of one kind of clients."""
    alias = Cluster.model_fields["alias"]
    pattern = next(
        constraint.pattern for constraint in alias.metadata if hasattr(constraint, "pattern")
    )
    own = {"type": ["object", "null"], "additionalProperties": _JAVA_TEXT}
    shared = {
        name: {**_JAVA_TEXT, "description": f"No effect: {why}."}
        if (why := IGNORED_CONNECTION_NAMES.get(name))
        else dict(_JAVA_TEXT)
        for name in sorted(CLUSTER_NAMES)
    }
    roles = {
        role: {**own, "description": f"Java properties of {role} clients only."} for role in ROLES
    }
    registry = {
        "type": ["object", "null"],
        "properties": {
            name.removeprefix(REGISTRY_PREFIX): _JAVA_TEXT for name in sorted(REGISTRY_NAMES)
        },
        "additionalProperties": False,
        "description": "Where the cluster's schema registry is, and how to log in to it.",
    }
    return {
        "description": description,
        "type": "object",
        "properties": {
            "alias": {"type": "string", "pattern": pattern, "description": alias.description},
            **shared,
            **roles,
            REGISTRY_PREFIX.rstrip("."): registry,
        },
        "patternProperties": {rf"^({'|'.join(ROLES)})[.].+": _JAVA_TEXT},
        "required": ["alias"],
        "anyOf": [{"required": ["bootstrap.servers"]}, {"required": ["airflow.connection"]}],
        "additionalProperties": False,
    }


def schema_text() -> str:
    """The schema as the file ``flow.schema.json``."""
    return json.dumps(flow_schema(), indent=1) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")
