"""What rules leave of a converted batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kafka_ferry.batches import (
    AbortFilter,
    ConvertedBatch,
    Reason,
    Rebuilt,
    TopicLimits,
    converted_batches,
    records_of,
)
from kafka_ferry.batches.record_format.content import Header
from kafka_ferry.batches.rule_counts import FieldCounts, RuleUse
from kafka_ferry.config.options.transform import TransformRule
from kafka_ferry.model import TopicPartition
from kafka_ferry.transform import (
    MOST_BYTES,
    Changer,
    Evaluated,
    TransformedBatch,
    apply_rule,
    rows_of,
)
from tests.support.records.batches import Record, a_batch, consumed

KEPT, LEFT_OUT = True, False


def a_converted(records: int | list[Record] = 4, **options: Any) -> ConvertedBatch:
    batch = a_batch(records, at=10, **options)
    (converted,) = converted_batches(batch, AbortFilter(()), 10, 10 + len(consumed(batch)))
    return converted


def a_changer(**rule: Any) -> Changer:
    return Changer(TransformRule.model_validate({"topics": ["t"], **rule}))


def applied(
    converted: ConvertedBatch,
    evaluated: Evaluated | list[bool],
    limits: TopicLimits | None = None,
    **rule: Any,
) -> TransformedBatch:
    changer = a_changer(**(rule or {"where": "true"}))
    if isinstance(evaluated, list):
        evaluated = Evaluated(evaluated)
    records = records_of(converted)
    return apply_rule(converted, records, evaluated, changer, limits or TopicLimits())


def test_a_batch_of_which_nothing_changes_is_passed_on_as_it_was() -> None:
    converted = a_converted()

    (found,) = applied(converted, [KEPT] * 4).converted

    assert found is converted


def test_no_rule_is_applied_to_a_record_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_ferry.transform.record_limits.MOST_BYTES", 20)
    converted = a_converted([Record(value=b"small"), Record(value=b"l" * 20)])

    found = applied(converted, [LEFT_OUT, LEFT_OUT])

    assert found.errors == {11: "it has more than 16 MiB"}
    (left,) = found.converted
    assert left.runs == ((11, 1),)


def test_no_rule_is_applied_to_a_record_of_very_many_headers() -> None:
    flood = Record(value=b"v", headers=[("", b"")] * 100_001)
    converted = a_converted([Record(value=b"v", headers=[("", b"")] * 100_000), flood])
    records = records_of(converted)
    changer = a_changer(set={"headers['a']": "'b'"})

    rows = rows_of([(0, TopicPartition("t", 0), records, changer)], [frozenset({"header_list"})])
    found = apply_rule(
        converted, records, Evaluated([True] * 2, [], [(b"b",)] * 2), changer, TopicLimits()
    )

    assert [len(headers) for headers in rows.headers] == [100_000, 0]
    assert found.errors == {11: "it has more than 100,000 headers"}


def test_every_offset_is_accounted_for() -> None:
    found = applied(a_converted(), [KEPT, LEFT_OUT, LEFT_OUT, KEPT]).converted

    assert [(it.start, it.end) for it in found] == [(10, 14)]
    assert found[0].reasons == {Reason.FILTERED: 2}
    assert found[0].runs == ((10, 1), (13, 1))
    assert found[0].rebuilt == {Rebuilt.TRANSFORMED: 1}


def test_a_batch_without_a_record_left_has_only_reasons() -> None:
    (found,) = applied(a_converted(), [LEFT_OUT] * 4).converted

    assert (found.batch, found.runs) == (None, ())
    assert found.reasons == {Reason.FILTERED: 4}


def test_where_offsets_are_kept_each_batch_has_offsets_in_a_row() -> None:
    limits = TopicLimits(offsets_kept=True)

    found = applied(a_converted(), [KEPT, LEFT_OUT, KEPT, KEPT], limits).converted

    assert [it.runs for it in found] == [((10, 1),), ((12, 2),)]
    assert sum((it.reasons for it in found), start=type(found[0].reasons)()) == {Reason.FILTERED: 1}


def test_parts_of_a_record_are_set_and_dropped() -> None:
    record = Record(headers=(("a", b"1"), ("b", None), ("a", b"2"), ("c", b"3")))
    rule = {
        "set": {"key": "k", "headers['a']": "h", "headers['new']": "n"},
        "drop": ["headers['c']"],
    }

    found = applied(a_converted([record]), Evaluated([True], [], [(b"K", b"H", None)]), **rule)

    assert found.converted[0].batch is not None
    (changed,) = consumed(found.converted[0].batch.encode())
    assert (changed.key, changed.value) == (b"K", b"value")
    assert found.converted[0].rule_counts == {
        "changed": 1,
        "set:key": 1,
        "set:headers['a']": 2,
        "set:headers['new']": 0,
        "added:headers['new']": 1,
        "drop:headers['c']": 1,
    }
    assert tuple(changed.headers) == (("a", b"H"), ("b", None), ("new", None))


def test_what_a_rule_names_is_counted_by_name_whether_it_is_met_or_not() -> None:
    values = (b'{"email": "a", "x": {"y": 1}}', b'{"email": "b", "x": {}}', b'{"mail": "c"}', b"{}")
    rule = {
        "format": {"value": "json"},
        "set": {"value.email": "e", "value.emial": "null", "value.new": "1"},
        "drop": ["value.x.y"],
    }
    given = [(b'{"it":"b"}', b'{"it":null}', b'{"it":1}'), (b'{"it":"b"}',) * 3]
    given += [(b'{"it":null}',) * 3] * 2
    evaluated = Evaluated([True, True, True, False], [], given, [0b01, 0b11, 0, 0b01])
    reads = [RuleUse("read", "value.email"), RuleUse("sought", "value.b"), RuleUse("read", "key.c")]
    converted = a_converted([Record(value=value) for value in values])

    found = apply_rule(
        converted, records_of(converted), evaluated, a_changer(**rule), TopicLimits(), reads
    )

    assert found.converted[0].rule_counts == {
        "read:value.email": 3,
        "sought:value.b": 1,
        "read:key.c": 0,
        "changed": 2,
        "set:value.email": 1,
        "set:value.emial": 0,
        "added:value.emial": 1,
        "near:value.emial=value.email": 1,
        "set:value.new": 0,
        "added:value.new": 2,
        "drop:value.x.y": 1,
    }


def added_beside(changer: Changer, *values: bytes) -> dict[str, int]:
    """What is counted where ``value.emial`` is added to records with these values."""
    converted = a_converted([Record(value=value) for value in values])
    evaluated = Evaluated([True] * len(values), [], [(b'{"it":"b"}',)] * len(values))
    found = apply_rule(converted, records_of(converted), evaluated, changer, TopicLimits())
    return dict(found.converted[0].rule_counts)


def test_one_similar_name_is_enough_however_many_a_producer_makes() -> None:
    changer = a_changer(format={"value": "json"}, set={"value.emial": "e"})

    first = added_beside(changer, b"{}", b'{"email": 1}')
    later = added_beside(changer, b'{"emiall": 1}', b'{"emiial": 1}')

    assert first["near:value.emial=value.email"] == 2
    assert later["near:value.emial=value.email"] == 2
    assert len(later) == len(first)


def test_few_records_are_looked_at_for_similar_names_and_of_each_not_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each comparison is slow, and a record may have a hundred thousand names."""
    looked_at: list[int] = []

    def nearest(_: str, names: list[str], **__: float) -> str:
        looked_at.append(len(names))
        return ""

    monkeypatch.setattr("kafka_ferry.transform.json_fields.nearest", nearest)
    changer = a_changer(format={"value": "json"}, set={"value.emial": "e"})
    many = json.dumps({f"n{number}": 1 for number in range(2_000)}).encode()

    for _ in range(3):
        added_beside(changer, *[many] * 10)

    assert looked_at == [1_000] * 20


def test_a_batch_that_stays_as_it_is_counts_what_was_looked_for() -> None:
    converted = a_converted()
    evaluated = Evaluated([True] * 4, seen=[0, 1, 1, 0])
    reads = [RuleUse("read", "headers['a']")]
    changer = a_changer(where="headers['a'] = 'b'")

    found = apply_rule(converted, records_of(converted), evaluated, changer, TopicLimits(), reads)

    assert found.converted[0].batch is converted.batch
    assert found.converted[0].rule_counts == {"read:headers['a']": 2}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"a": 1, "b": 2}', b'{"a": 9}'),
        (None, None),
        (b"[]", "its value: it is not a JSON object"),
        (b"\xff", "its value: it is not text in UTF-8"),
    ],
)
def test_a_record_that_cannot_be_changed_is_named_and_left_as_it_is(
    value: bytes | None, expected: bytes | str | None
) -> None:
    rule = {"format": {"value": "json"}, "set": {"value.a": "9"}, "drop": ["value.b"]}

    found = applied(
        a_converted([Record(value=value)]), Evaluated([True], [], [(b'{"it":9}',)]), **rule
    )

    assert found.converted[0].batch is not None
    (record,) = consumed(found.converted[0].batch.encode())
    if isinstance(expected, str):
        assert (found.errors, record.value) == ({10: expected}, value)
    else:
        assert (found.errors, record.value) == ({}, expected)


def test_records_that_become_what_they_were_are_not_counted_as_changed() -> None:
    results = Evaluated([True] * 3, [], [(b"K",), (None,), (b"K",)])
    records = [Record(key=it) for it in (b"a", None, b"K")]
    limits = TopicLimits(offsets_kept=True)
    found = applied(a_converted(records), results, limits, set={"key": "k"}).converted
    assert [it.rule_counts["changed"] for it in found] == [1]


def test_the_step_that_failed_is_named() -> None:
    rule = {"format": {"value": "json"}, "where": "value.a > 1", "set": {"value.a": "1"}}
    failed = Evaluated([False] * 3, [0, 1, 2])

    found = applied(a_converted(3), failed, **rule)

    assert found.errors == {
        10: "reading the value as json failed",
        11: "where failed",
        12: "set value.a failed",
    }
    assert not found.converted[0].reasons


class Reversed:
    """A format of two texts, which stand in the other order unless a header says that they do not."""

    schema_header = b"order"

    def as_json(self, content: bytes, headers: Sequence[Header] = ()) -> bytes:
        return content if (b"order", b"as it is") in headers else content[::-1]

    def with_fields(
        self,
        content: bytes,
        changes: Mapping[tuple[str, ...], str | None],
        headers: Sequence[Header] = (),
        counts: FieldCounts | None = None,
    ) -> bytes:
        assert counts
        if content == b"broken":
            raise ValueError("it is broken")
        assert bool(headers) == (content == b"cd")
        assert changes == {("a",): "9", ("b",): None}
        return content[::-1]


def test_fields_in_another_format_are_seen_as_json_and_changed_by_it() -> None:
    rule = {"format": {"value": "json"}, "set": {"value.a": "9"}, "drop": ["value.b"]}
    rule = {"topics": ["t"], **rule}
    changer = Changer(TransformRule.model_validate(rule), {"value": Reversed()})
    told = Record(key=b"k", value=b"cd", headers=[("order", b"as it is")])
    others = [Record(key=b"k", value=it) for it in (b"ab", None, b"broken")]
    converted = a_converted([*others, told])
    records = records_of(converted)

    rows = rows_of([(0, TopicPartition("t", 0), records, changer)], [frozenset({"key", "value"})])
    evaluated = Evaluated([True] * 4, [], [(b'{"it":9}',)] * 4)
    found = apply_rule(converted, records, evaluated, changer, TopicLimits())

    assert (rows.keys, rows.values) == ([b"k"] * 4, [b"ba", None, b"nekorb", b"cd"])
    assert found.errors == {12: "its value: it is broken"}
    assert [content_of(it) for it in found.converted] == [[b"ba", None, b"broken", b"dc"]]


def test_what_another_format_gives_for_a_decimal_takes_no_time_either() -> None:
    """A schema of the producer's own may have a text, or very many parts, where the newest one has a decimal."""
    rule = TransformRule.model_validate(
        {"topics": ["t"], "format": {"value": "json"}, "where": "value.a > 1"}
    )
    changer = Changer(rule, {"value": Reversed()}, {"key": [], "value": ["a"]})
    texts = [b'{"a":"1e-99999"}', b'{"a":"1.5"}', b'{"b":"1e-99999"}', b"1" * (MOST_BYTES + 1)]

    seen = [changer.as_json("value", text[::-1], b"") for text in texts]

    assert seen == [b"\xff", texts[1], texts[2], b"\xff"]


def content_of(converted: ConvertedBatch) -> list[bytes | None]:
    assert converted.batch is not None
    return [record.value for record in consumed(converted.batch.encode())]
