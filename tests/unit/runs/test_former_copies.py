"""Which copies an export names that are other ones now."""

from __future__ import annotations

import pytest

from kafka_ferry.ledger.queries.copied_topics import CopiedSince
from kafka_ferry.ledger.rows import Release
from kafka_ferry.runs.former_copies import former_copies
from tests.unit.certificates.builders import a_certificate, a_range

SINCE = 1_000


def copied(topic_id: str, remote_topic_id: str, at: int) -> CopiedSince:
    return CopiedSince("orders", topic_id, "left.orders", remote_topic_id, at)


def given_up(at: int, run: str = "repair__2026") -> Release:
    return Release("left.orders", "target-id", at, run)


FIRST = copied("source-id", "target-id", 10)


@pytest.mark.parametrize(
    ("copies", "releases", "now", "former"),
    [
        ([FIRST], [], "source-id", []),
        ([FIRST], [], None, []),
        ([FIRST], [], "b", [("target-id", None)]),
        ([FIRST, copied("b", "two", 1_000)], [], "b", [("target-id", None)]),
        ([FIRST, copied("b", "two", 999)], [], "b", []),
        (
            [FIRST, copied("b", "two", 999), copied("c", "three", 1_001)],
            [],
            "c",
            [("two", None)],
        ),
        (
            [FIRST],
            [given_up(1_000)],
            "source-id",
            [("target-id", 1_000)],
        ),
        ([FIRST], [given_up(999)], "source-id", []),
        (
            [FIRST, copied("b", "two", 1_100)],
            [given_up(1_050)] * 2,
            "b",
            [("target-id", None), ("target-id", 1_050)],
        ),
    ],
    ids=[
        "the same",
        "gone from the source",
        "recreated, not copied since",
        "recreated in the window",
        "recreated before it",
        "recreated before it and again",
        "given up",
        "given up before it",
        "recreated and given up",
    ],
)
def test_a_copy_that_ended_in_the_window_or_since_is_named(
    copies: list[CopiedSince],
    releases: list[Release],
    now: str | None,
    former: list[tuple[str, int | None]],
) -> None:
    ids = {"orders": now} if now else {}
    found = former_copies(copies, releases, ids, [], SINCE)
    assert [(copy.remote_topic_id, copy.release and copy.release.at) for copy in found] == former


def test_it_says_which_certificates_have_which_offsets_of_it() -> None:
    one = a_certificate(1, None, a_range(0, 0, 10), a_range(0, 10, 20), a_range(1, 5, 8))
    two = a_certificate(2, one, a_range(0, 30, 40), a_range() | {"remote_topic_id": "other"})
    (copy,) = former_copies([FIRST], [], {"orders": "b"}, [one, two], SINCE)
    assert copy.text.endswith(
        "; of it, certificates 1, 2 have orders-0 [0, 20), orders-0 [30, 40), orders-1 [5, 8)."
    )
    (copy,) = former_copies([FIRST], [], {"orders": "b"}, [], SINCE)
    assert copy.text.endswith("; no certificate has any of it.")


@pytest.mark.parametrize(
    ("run", "how"),
    [
        ("repair__2026", "was given up with `ferry repair` on "),
        ("scheduled__2026", "was retired by the run scheduled__2026, since the source did not "),
    ],
)
def test_it_says_whether_a_person_or_a_run_has_given_it_up(run: str, how: str) -> None:
    (copy,) = former_copies([FIRST], [given_up(1_000, run)], {}, [], SINCE)
    assert how in copy.text
