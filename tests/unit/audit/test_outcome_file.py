"""What an interrupted audit has compared is read back as it was, or not at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.audit.comparison.entries import Entries, Unmatched
from kafka_ferry.audit.comparison.findings import Differing
from kafka_ferry.audit.comparison.walk import WalkState
from kafka_ferry.audit.outcome import PairOutcome
from kafka_ferry.audit.outcome_file import decode_outcome, encode_outcome
from kafka_ferry.audit.result import PairCounts
from kafka_ferry.audit.terms import AuditPair, LogExtent

PAIR = AuditPair("orders", 3, "eu.orders", LogExtent(1, 2, 100), LogExtent(0, 0, 90, gone=True))
SOME = Entries.of([1, 5], [2**64 - 1, 7], [-1, 3])


def outcome(**more: object) -> PairOutcome:
    state = WalkState(5, 6, 10, 11, matched=8, target_unmatched=Unmatched(SOME, np.array([0, 4])))
    differing = [Differing("altered", 1, 2, ("key", "value"), 5), Differing("doubled", -1, 9)]
    found = PairOutcome(
        PAIR,
        state,
        counts=PairCounts(9, 8, removed=1),
        differing=differing,
        missing=SOME,
        seconds=1.5,
    )
    return replace(found, **more)


def same(one: PairOutcome, other: PairOutcome) -> bool:
    # Arrays have no equality of their own that dataclasses could use.
    return repr(one) == repr(other)


def test_an_outcome_is_read_back() -> None:
    for given_ in (outcome(), outcome(state=None, lost=True), outcome(failure="denied")):
        found = decode_outcome(encode_outcome(given_), PAIR)
        assert found is not None
        assert same(found, given_)


def test_an_outcome_of_other_ends_is_not_used() -> None:
    moved = replace(PAIR, source=replace(PAIR.source, end=101))
    assert decode_outcome(encode_outcome(outcome()), moved) is None


@given(st.integers(0, 2_000), st.integers(1, 255))
def test_a_damaged_file_is_not_used_or_harmless(place: int, change: int) -> None:
    content = bytearray(encode_outcome(outcome()))
    content[place % len(content)] ^= change
    found = decode_outcome(bytes(content), PAIR)
    assert found is None or same(found, outcome())


@given(st.binary(max_size=200))
def test_anything_else_is_not_used(content: bytes) -> None:
    assert decode_outcome(content, PAIR) is None
