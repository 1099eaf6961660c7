"""Makes of a converted batch what the rules leave of it.

Promises:

(a) each source offset stays accounted for: a record on the target, or a reason (``filtered``);
(b) a batch that loses no record and changes none is passed on as it was, unopened by the target;
(c) of a record that changes, only what its rule names changes: other fields and headers, the timestamp and
    the offset stay as they are, byte for byte;
(d) a record for which a step fails is left unchanged, and named: it is the caller's what becomes of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING

from kafka_ferry.batches import Absent, ConvertedBatch, Reason, Rebuilt, Record, TopicLimits
from kafka_ferry.batches.converted_batch import assemble
from kafka_ferry.batches.record_format.records import fitting_batches, runs_of, split_at_gaps
from kafka_ferry.batches.rule_counts import CHANGED, FAILED, RuleUse
from kafka_ferry.transform.changer import Changer
from kafka_ferry.transform.evaluator import Evaluated, Values
from kafka_ferry.transform.json_fields import NotAnObject
from kafka_ferry.transform.record_limits import too_large

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class TransformedBatch:
    """What became of a converted batch.

    Attributes:
        converted: one or more that take its place.
        errors: by source offset, which step failed for a record, which is unchanged in ``converted``.
    """

    converted: tuple[ConvertedBatch, ...]
    errors: dict[int, str] = field(default_factory=dict)


def _read_counts(reads: Sequence[RuleUse], bit_masks: Sequence[int]) -> dict[str, int]:
    """What expressions read by name, and how many records have it.

    Args:
        reads: what they read.
        bit_masks: for each record, which of it the record has, a bit each; empty where nothing is read.
    """
    # Few combinations are met, of however many records.
    kinds = Counter(bit_masks)
    return {
        read.key: sum(records for bits, records in kinds.items() if bits >> place & 1)
        for place, read in enumerate(reads)
    }


def apply_rule(
    converted: ConvertedBatch,
    records: Sequence[Record],
    evaluated: Evaluated,
    changer: Changer,
    topic_limits: TopicLimits,
    reads: Sequence[RuleUse] = (),
) -> TransformedBatch:
    """What a rule leaves of a converted batch.

    Args:
        converted: the converted batch, with a batch to send.
        records: its records, at their source offsets.
        evaluated: what the rule's expressions gave for them.
        changer: the rule.
        topic_limits: what the target topic takes.
        reads: what the rule's expressions read by name.
    """
    errors = {
        record[0]: f"{changer.steps[step]} failed"
        for record, step in zip(records, evaluated.failed, strict=False)
        if step >= 0
    }
    errors |= {record[0]: reason for record in records if (reason := too_large(record))}
    # A record for which a step failed is left as it is.
    keep = (
        [k or r[0] in errors for k, r in zip(evaluated.keep, records, strict=True)]
        if errors
        else evaluated.keep
    )
    filtered = list(compress(records, map(not_, keep)))
    kept = list(compress(records, keep)) if filtered else list(records)
    rule_counts, changed = _read_counts(reads, evaluated.seen), 0
    if changer.changes:
        values = evaluated.values or [()] * len(records)
        changed, uses = _change_all(kept, [*compress(values, keep)], changer, errors)
        rule_counts |= {CHANGED: changed, **uses}
    if errors:
        rule_counts[FAILED] = len(errors)
    if not filtered and not changed:
        same = replace(converted, rule_counts=rule_counts) if rule_counts else converted
        return TransformedBatch((same,), errors)
    became = rebuilt(converted, kept, filtered, topic_limits, rule_counts)
    return TransformedBatch(tuple(became), errors)


def _change_all(
    records: list[Record], values: Sequence[Values], changer: Changer, errors: dict[int, str]
) -> tuple[int, dict[str, int]]:
    """Change records in place, but for those with an error; say how many are others now, and what was used.

    Args:
        records: the records.
        values: for each, what the rule's expressions gave.
        changer: the rule.
        errors: by source offset, why a record stays as it is; what fails here is added.
    """
    changed, counts = 0, changer.new_counts()
    for place, (record, new_values) in enumerate(zip(records, values, strict=True)):
        if record[0] in errors:
            continue
        try:
            content = changer.change(record[3], new_values, counts)
        except NotAnObject as error:
            errors[record[0]] = str(error)
        else:
            changed += content != record[3]
            records[place] = (*record[:3], content)
    return changed, {use.key: count for use, count in changer.uses(counts)}


def rebuilt(
    converted: ConvertedBatch,
    kept: Sequence[Record],
    filtered: Sequence[Record],
    topic_limits: TopicLimits,
    rule_counts: Mapping[str, int],
) -> Iterator[ConvertedBatch]:
    """Converted batches with what is kept of one, in its place.

    Args:
        converted: the converted batch, with a batch to send.
        kept: the records that stay, as they are to be.
        filtered: those that do not.
        topic_limits: what the target topic takes.
        rule_counts: what the rule did, in how many records.
    """
    assert converted.batch is not None
    absent = [Absent(first, first + count, Reason.FILTERED) for first, count in runs_of(filtered)]
    known = tuple(sorted((*converted.absent, *absent)))
    if not kept:
        yield replace(converted, batch=None, runs=(), absent=known, rule_counts=rule_counts)
        return
    codec = converted.batch.header.codec
    parts = split_at_gaps(kept) if topic_limits.offsets_kept else [kept]
    yield from assemble(
        converted.start,
        converted.end,
        (
            piece
            for part in parts
            for piece in fitting_batches(part, codec, topic_limits.max_batch_bytes)
        ),
        known=known,
        # A batch that was rebuilt before keeps that reason.
        rebuilt=converted.rebuilt or {Rebuilt.TRANSFORMED: 1},
        leader_epoch=converted.leader_epoch,
        rule_counts=rule_counts,
        last_crc=converted.last_crc,
    )
