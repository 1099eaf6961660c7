"""Which topics' records go through another transform rule than before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from kafka_ferry.model.changes import RuleChange
from kafka_ferry.model.ranges import Range
from kafka_ferry.model.remarks import Note
from kafka_ferry.model.removals import first_of

if TYPE_CHECKING:
    from kafka_ferry.config import Flow

_SHOWN: Final = 10


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


def idle_rule_changes(
    flow: Flow, topics: Iterable[str], ranges: Iterable[Range], known: Mapping[str, str]
) -> Iterator[Note]:
    """A note of those topics of which nothing is copied now, and whose next records go through another rule.

    Args:
        flow: the flow.
        topics: the topics that it copies.
        ranges: what is to be copied.
        known: as of ``rule_changes``.
    """
    work = {range_.topic for range_ in ranges if range_.is_work}
    changed = [
        topic
        for topic in sorted(known.keys() & set(topics) - work)
        if known[topic] != flow.fingerprint_of(topic)
    ]
    if changed:
        yield Note(
            "",
            f"Nothing is new in {first_of(changed, _SHOWN)}: the next records go through another transform rule than "
            "those that were copied, which stay as they are.",
        )
