"""Opens readers of a flow's ranges as its rules, functions and schema ids leave their records.

The copier reads by it, and so does a verification that evaluates rules again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kafka_ferry.batches import ConvertedBatch, TopicLimits
from kafka_ferry.config import kafka_python_config
from kafka_ferry.copy.source.changed import BatchChange, ChangedReader
from kafka_ferry.copy.source.prefetch import RangeReader, SourceOpening
from kafka_ferry.copy.source.registry_formats import RegistryFormats
from kafka_ferry.copy.source.schema_ids import (
    HOW_TO_REGISTER,
    WITHOUT_ID,
    MissingSchemas,
    id_changes,
)
from kafka_ferry.copy.source.transformed import (
    ADVICE,
    WHAT_FAILS,
    TransformedReader,
    rules_of,
)
from kafka_ferry.schemas.ids import FlowSchemas, MirroredSchema
from kafka_ferry.schemas.translate import IdBytes
from kafka_ferry.transform import FunctionRule, TransformedBatch

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.copy.source.cursor import ReadRules
    from kafka_ferry.copy.source.reader import Reader
    from kafka_ferry.model import Position, Range, TopicPartition
    from kafka_ferry.transform import Evaluator, TransformFunction


@dataclass(frozen=True, slots=True)
class RecordChanges:
    """What changes records on the way.

    Attributes:
        evaluator: evaluates the rules of the topics that have one in Spark SQL; needed where such a topic's ranges
            have offsets to copy. Without it, none of its records is copied.
        functions: the functions that the flow's rules name; as the evaluator, where ranges have offsets to copy.
        schemas: what the flow has mirrored of a schema registry; needed if records of any of the ranges get other
            ids.
    """

    evaluator: Evaluator | None = None
    functions: Mapping[str, TransformFunction] = field(default_factory=lambda: MappingProxyType({}))
    schemas: FlowSchemas | None = None


NO_CHANGES: Final = RecordChanges()
_HOW_TO_PLAN_AGAIN: Final = "Run it again: the next plan begins there."


class ChangedRanges:
    """Opens readers of ranges with their records as the target is to have them.

    Args:
        flow: the flow, with the secrets that its clusters need.
        ranges: the ranges.
        changes: what changes their records.
    """

    def __init__(self, flow: Flow, ranges: Sequence[Range], changes: RecordChanges) -> None:
        self._flow, self._ranges, self._evaluator = flow, ranges, changes.evaluator
        self._settings = kafka_python_config(flow.source.client_properties("consumer"))
        self._opening: SourceOpening | None = None
        self._formats = RegistryFormats(flow)
        self._rules = rules_of(flow, ranges, self._formats.of, self._evaluator)
        self._functions = _functions(flow, ranges, changes.functions)
        with_rule = {range_.topic for range_ in ranges if flow.transform_of(range_.topic)}
        ready = self._functions.keys() | (self._rules if self._evaluator else {})
        # Nothing is read of an empty range, unless its position was set back since: never without the rule.
        self._refused = dict.fromkeys(with_rule - ready, _pass_through)
        known = changes.schemas or FlowSchemas()
        self._missing = MissingSchemas(flow, known.remote_topics)
        self._ids = id_changes(ranges, IdBytes(known, self._missing.resolve))

    def open_ahead(self) -> None:
        """Connect to the source and look for leaders in the background, before positions are known."""
        alias, wait_s = self._flow.source.alias, self._flow.partition_wait_ms / 1000
        self._opening = SourceOpening(alias, self._settings, self._ranges, wait_s)

    def open(self, starts: Mapping[Range, Position], how: ReadRules) -> Reader:
        """A reader of ranges from the given positions to their ends."""
        flow, limits_by_topic = self._flow, how.limits_by_topic
        leaders = self._opening.leaders() if self._opening else {}
        reader: Reader = RangeReader(flow.source.alias, self._settings, starts, how, leaders)
        on_error = flow.on_transform_error
        if self._rules and self._evaluator:
            reader = TransformedReader(
                reader, self._evaluator, self._rules, limits_by_topic, on_error
            )
        if self._refused:
            reader = ChangedReader(
                reader, self._refused, limits_by_topic, "fail", WHAT_FAILS, _HOW_TO_PLAN_AGAIN
            )
        if self._functions:
            reader = ChangedReader(
                reader, self._functions, limits_by_topic, on_error, WHAT_FAILS, ADVICE
            )
        if self._ids:
            reader = ChangedReader(
                *(reader, self._ids, limits_by_topic),
                *(flow.on_unknown_schema, WITHOUT_ID, HOW_TO_REGISTER),
            )
        return reader

    @property
    def late_schemas(self) -> tuple[MirroredSchema, ...]:
        """The schemas of records read so far that were not among those given."""
        return tuple(self._missing.mirrored)

    def close(self) -> None:
        """Close the connections to registries, if there are any."""
        self._missing.close()
        self._formats.close()


def _pass_through(
    converted: ConvertedBatch, _: TopicPartition, __: TopicLimits
) -> TransformedBatch:
    why = "the run was planned without it, since the position on the target was further ahead then"
    return TransformedBatch((converted,), {converted.start: why})


def _functions(
    flow: Flow, ranges: Iterable[Range], functions: Mapping[str, TransformFunction]
) -> dict[str, BatchChange]:
    """What functions make of the batches of the topics of ``ranges``, by topic, as far as they are given."""
    changes: dict[str, BatchChange] = {}
    for topic in {range_.topic for range_ in ranges}:
        rule = flow.transform_of(topic)
        if rule and rule.function and rule.function in functions:
            function = functions[rule.function]
            changes[topic] = FunctionRule(
                rule.function, function, dict(flow.transform_secrets)
            ).apply
    return changes
