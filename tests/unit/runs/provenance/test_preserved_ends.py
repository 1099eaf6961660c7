"""Whether a broker knows of a partition's own producer that it has written all that the ledger has."""

from __future__ import annotations

import pytest

from kafka_ferry.model.positions import ProducerState
from kafka_ferry.runs.provenance.preserved_ends import is_past

LAST = 2**31 - 1


@pytest.mark.parametrize(
    ("following", "producer_id", "last", "whole"),
    [
        (10, 7, 9, True),
        (10, 7, 14, True),  # an attempt that did not commit has written on
        (10, 7, 8, False),  # the log was cut
        (10, 8, 9, False),  # another producer's
        (10, 7, -1, False),  # it is known, and has written nothing
        (0, 7, LAST, True),  # the numbers begin again after the last one
        (3, 7, LAST, False),
        (LAST, 7, 1, True),
    ],
)
def test_a_producer_has_written_all_if_its_sequence_number_says_so(
    following: int, producer_id: int, last: int, whole: bool
) -> None:
    assert is_past(ProducerState(7, 0, following), producer_id, last) is whole
