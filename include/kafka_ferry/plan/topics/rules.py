"""Which topics' records go through another transform rule than before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kafka_ferry.model.changes import RuleChange
from kafka_ferry.model.ranges import Range

if TYPE_CHECKING:
    from kafka_ferry.config import Flow


def rule_changes(
    flow: Flow, ranges: Iterable[Range], known: Mapping[str, str]
) -> Iterator[RuleChange]:
    """The changes for the topics of ``ranges``, as far as something is copied of them.

    Args:
        flow: the flow.
        ranges: what is to be copied.
        known: by source topic, the fingerprint that its newest ranges have in the ledger.
    """
    work = {range_.topic: range_.transform for range_ in ranges if range_.is_work}
    for topic, fingerprint in sorted(work.items()):
        before = known.get(topic)
        if fingerprint != (before or ""):
            rule = flow.transform_of(topic)
            number = flow.transform.index(rule) + 1 if rule else 0
            yield RuleChange(topic, number, fingerprint, before)
