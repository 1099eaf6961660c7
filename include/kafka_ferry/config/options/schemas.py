"""What becomes of the schemas of a schema registry, and of their ids in records."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from kafka_ferry.config.options.base import Options
from kafka_ferry.config.options.transform import ErrorPolicy
from kafka_ferry.config.types.per_topic import PerTopic, per_topic_choice
from kafka_ferry.config.types.values import TextPatterns

SchemaSync = Literal["none", "translate-ids", "keep-ids"]
IdsIn = Literal["subjects", "none", "key", "value", "both"]


class SchemaOptions(Options):
    """The options of a flow about schema registries."""

    sync_schemas: SchemaSync = Field(
        default="none",
        description="Whether the schemas of the flow's topics are mirrored from the source's schema registry to "
        "the target's (schema.registry.url of each cluster), before anything is copied: with translate-ids, "
        "records get the ids that the schemas have on the target; with keep-ids, schemas keep their ids, which "
        "needs a target in import mode (docs/schema-registry.md).",
    )
    schemas_subjects: TextPatterns = Field(
        default=(),
        description="Names or Java regular expressions of further subjects to mirror. Those that are named after "
        "the flow's topics, {topic}-key and {topic}-value, and all that their schemas refer to, need not be named.",
    )
    schemas_ids_in: Annotated[PerTopic[IdsIn], per_topic_choice("subjects", get_args(IdsIn))] = (
        Field(
            default=PerTopic("subjects"),
            description="Which part of a topic's records holds ids of schemas: key, value, both or none; with "
            "subjects, the key where the source has the subject {topic}-key, and the value where it has "
            "{topic}-value. One value, or a mapping as for offsets.",
        )
    )
    on_unknown_schema: ErrorPolicy = Field(
        default="fail",
        description="When a record has the id of a schema that cannot be mirrored: fail stops the partition before "
        "it and fails the run; dead-letter copies the record as it is into the dead letter topic instead; "
        "pass copies it with the source's id.",
    )
