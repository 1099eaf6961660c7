"""How a task reads fields of keys and values by the schemas of the source's registry."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kafka_ferry.config.options.transform import PARTS, REGISTRY_FORMATS
from kafka_ferry.schemas.fields.records import RegistryRecords
from kafka_ferry.schemas.ids import ID_HEADERS

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.config.options.transform import TransformRule
    from kafka_ferry.schemas.registry import SchemaRegistry
    from kafka_ferry.transform import FieldFormat


class RegistryFormats:
    """The formats of rules; asks no registry before there is a record with a schema.

    Args:
        flow: the flow, with the secrets that its registry needs.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._clients = ExitStack()
        self._registry: SchemaRegistry | None = None

    def of(self, rule: TransformRule, topic: str) -> Mapping[str, FieldFormat]:
        """How the fields of a rule's keys and values in a topic are read that have schemas."""
        return {
            part: RegistryRecords(
                *(self._source, form, rule.words, ID_HEADERS[part]), f"{topic}-{part}"
            )
            for part in PARTS
            if (form := rule.format_of(part)) in REGISTRY_FORMATS
        }

    def close(self) -> None:
        """Close the connection, if there is one."""
        self._clients.close()

    def _source(self) -> SchemaRegistry:
        if self._registry is None:
            # Its client loads much that other flows do not need.
            from kafka_ferry.schemas.registry import open_registry  # noqa: PLC0415

            self._registry = self._clients.enter_context(open_registry(self._flow.source))
        return self._registry
