"""What a rule gives for the source's records, compared with what the target holds."""

from __future__ import annotations

import pytest

from kafka_ferry.batches import Segment
from kafka_ferry.batches.record_format.content import Content
from kafka_ferry.verify.rows import RuleEvaluation
from kafka_ferry.verify.transforms.rule_comparison import MOST_NAMED, Given, compare_rule


def content(value: bytes, key: bytes = b"k", **headers: bytes) -> bytes:
    named = tuple((name.encode(), of_it) for name, of_it in headers.items())
    return Content(key, value, named).encode()


def kept(offset: int, value: bytes) -> Given:
    return Given(offset, offset + 1, "kept", content(value))


SEGMENTS = [Segment(0, 100, 2), Segment(4, 102, 2)]
"""Offsets 0, 1, 4 and 5 have a record on the target."""
FOUND = [(at, content(b"%d" % at)) for at in (0, 1, 4, 5)]
GIVEN = [kept(0, b"0"), kept(1, b"1"), Given(2, 4, "filtered"), kept(4, b"4"), kept(5, b"5")]


def rule_of(
    given: list[Given], found: list[tuple[int, bytes]] = FOUND, elsewhere: int = 0
) -> RuleEvaluation:
    return compare_rule("rule 1", iter(given), iter(found), SEGMENTS, elsewhere=elsewhere)


def test_only_the_offsets_that_are_dead_letters_may_be_missing() -> None:
    given = [*GIVEN[:2], kept(2, b"2"), Given(3, 4, "failed", why="where failed"), *GIVEN[3:]]
    for letters, unlike in (([Segment(2, 7, 2)], 0), ([Segment(3, 7, 1)], 1)):
        found = compare_rule("rule 1", iter(given), iter(FOUND), SEGMENTS, letters=letters)
        assert found.unlike_rule == unlike


def test_a_target_that_has_what_the_rule_gives_is_alike() -> None:
    assert rule_of(GIVEN) == RuleEvaluation(evaluated=6)


@pytest.mark.parametrize(
    ("given", "found", "elsewhere", "unlike", "sentences"),
    [
        pytest.param(
            GIVEN,
            [*FOUND[:2], (4, content(b"x")), FOUND[3]],
            0,
            1,
            ["offset 4 has another value than the rule gives"],
            id="another value",
        ),
        pytest.param(
            GIVEN,
            [*FOUND[:2], (4, content(b"4", b"other", new=b"")), FOUND[3]],
            0,
            1,
            ["offset 4 has another key and headers than the rule gives"],
            id="another key and another header",
        ),
        pytest.param(
            GIVEN,
            [*FOUND[:2], (4, b"\x01")],
            0,
            1,
            ["offset 4 has another content than the rule gives"],
            id="bytes that are no record",
        ),
        pytest.param(
            [*GIVEN[:3], Given(4, 6, "filtered")],
            FOUND,
            0,
            2,
            [f"offset {at} is on the target, but the rule leaves it out" for at in (4, 5)],
            id="records that should have been filtered",
        ),
        pytest.param(
            [*GIVEN[:3], Given(4, 5, "failed", why="where failed"), GIVEN[4]],
            FOUND,
            0,
            1,
            ["offset 4 is on the target, but the rule fails for it: where failed"],
            id="a record for which the rule fails",
        ),
        pytest.param(
            [*GIVEN[:2], kept(2, b"2"), kept(3, b"3"), *GIVEN[3:]],
            FOUND,
            0,
            2,
            [
                "2 records that the rule keeps not on the target, from offsets 2 to 3",
            ],
            id="records that should not have been filtered",
        ),
        pytest.param(
            [*GIVEN[:2], kept(2, b"2"), kept(3, b"3"), *GIVEN[3:]],
            FOUND,
            2,
            0,
            [],
            id="records that went elsewhere, such as to the dead letter topic",
        ),
        pytest.param(
            [*GIVEN[:2], Given(2, 3, "failed", why="where failed"), kept(3, b"3"), *GIVEN[3:]],
            FOUND,
            1,
            1,
            ["1 record that the rule keeps not on the target, from offsets 3 to 3"],
            id="one that failed is the one that went elsewhere",
        ),
    ],
)
def test_what_differs_is_named_by_its_source_offset(
    given: list[Given],
    found: list[tuple[int, bytes]],
    elsewhere: int,
    unlike: int,
    sentences: list[str],
) -> None:
    evaluation = rule_of(given, found, elsewhere)
    assert evaluation.unlike_rule == unlike
    assert evaluation.evaluation == tuple(f"rule 1: {it}" for it in sentences)


def test_only_the_first_differences_are_named_and_all_are_counted() -> None:
    many = [Segment(0, 0, 50)]
    evaluation = compare_rule("rule 1", [Given(0, 50, "filtered")], [], many)
    assert (evaluation.unlike_rule, len(evaluation.evaluation)) == (50, MOST_NAMED)


def test_what_the_source_has_no_more_is_not_evaluated_and_said() -> None:
    evaluation = rule_of([Given(0, 5, "deleted"), GIVEN[4]])
    assert (evaluation.evaluated, evaluation.unevaluated, evaluation.unlike_rule) == (1, 5, 0)
    assert evaluation.evaluation == ("rule 1: the source has no record there any more",)
    compacted = rule_of([GIVEN[0], Given(1, 5, "none"), GIVEN[4]])
    # What has no record on the target either may be anything: a transaction's marker, for example.
    assert (compacted.evaluated, compacted.unevaluated) == (2, 2)


def test_what_the_target_has_no_more_is_for_other_checks_to_find() -> None:
    assert rule_of(GIVEN, FOUND[2:]) == RuleEvaluation(evaluated=4)
