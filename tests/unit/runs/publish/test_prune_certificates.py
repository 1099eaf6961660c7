"""Only the beginning of a chain is pruned, by age and by count, and only what holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kafka_ferry.certificates import Certificate
from kafka_ferry.runs.publish import prune_certificates
from kafka_ferry.runs.publish.prune_certificates import Pruning
from kafka_ferry.runs.state.certificate_files import delete_files, file_serials, save_file
from kafka_ferry.runs.state.run_context import RunContext
from tests.unit.certificates.builders import a_certificate
from tests.unit.config.builders import a_flow

DAY = 24 * 60 * 60 * 1000


def a_daily_chain(length: int) -> list[Certificate]:
    """Certificates of the days 1, 2 and so on."""
    chain: list[Certificate] = []
    for day in range(1, length + 1):
        before = chain[-1] if chain else None
        chain.append(a_certificate(day, before, issued_at=day * DAY))
    return chain


def a_run(folder: Path, chain: list[Certificate], days: int = -1, count: int = -1) -> RunContext:
    flow = a_flow(state_dir=str(folder), certificates_keep_days=days, certificates_keep_count=count)
    run = RunContext.of(flow, "run-1")
    for one in chain:
        save_file(run.state, one)
    return run


@pytest.fixture(autouse=True)
def nothing_on_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune_certificates, "stored_certificates", lambda *_: [])


@pytest.mark.parametrize(
    ("days", "count", "through"),
    [
        (-1, -1, 0),
        (-1, 6, 0),
        (-1, 5, 1),
        (-1, 1, 5),
        (3, -1, 2),
        (3, 2, 4),
        (3, 5, 2),
        (0, -1, 5),
    ],
)
def test_what_either_option_says_goes(tmp_path: Path, days: int, count: int, through: int) -> None:
    chain = a_daily_chain(5)
    run = a_run(tmp_path, chain, days, count)

    pruned = Pruning(run, ()).point(chain[-1], 6 * DAY)

    assert (pruned.through if pruned else 0) == through
    assert pruned is None or pruned.hash == chain[through - 1].digest


def test_what_is_pruned_and_still_there_goes_with_the_next_certificate(tmp_path: Path) -> None:
    chain = a_daily_chain(4)
    run = a_run(tmp_path, chain, count=3)
    following = a_certificate(5, chain[-1], pruned=chain[1])

    assert Pruning(run, ()).find_stored(chain[-1]) == []
    there = Pruning(run, ()).find_stored(following)
    assert [one.header.serial for one in there] == [1, 2]
    delete_files(run.state, [1, 2])
    assert file_serials(run.state) == [3, 4]
    assert Pruning(run, ()).find_stored(following) == []
    pruned = Pruning(run, ()).point(following, 6 * DAY)
    assert pruned and pruned.through == 3


def test_only_what_the_options_say_goes_whatever_a_certificate_says(tmp_path: Path) -> None:
    chain = a_daily_chain(4)
    following = a_certificate(5, chain[-1], pruned=chain[2])

    for options in ({}, {"count": 4}, {"days": 30}):
        run = a_run(tmp_path, chain, **options)
        there = Pruning(run, ()).find_stored(following)
        assert [one.header.serial for one in there] == ([1] if options == {"count": 4} else [])
    unsigned = Pruning(a_run(tmp_path, chain, count=3), [Ed25519PrivateKey.generate().public_key()])
    pruned = unsigned.point(following, 6 * DAY)
    assert pruned and pruned.hash == chain[2].digest


def test_what_was_changed_or_does_not_follow_or_is_missing_stays_with_all_after_it(
    tmp_path: Path,
) -> None:
    chain = a_daily_chain(4)
    two = chain[1]
    for number, wrong in enumerate(
        (
            Certificate(two.line, two.range_lines[1:], two.signature),
            a_certificate(2, None, issued_at=2 * DAY),
            None,
        )
    ):
        there = [chain[0], *([wrong] if wrong else []), *chain[2:]]
        run = a_run(tmp_path / str(number), there, count=1)
        pruned = Pruning(run, ()).point(chain[-1], 6 * DAY)
        assert pruned and pruned.through == 1


def test_a_record_that_an_earlier_release_left_out_is_found_again(tmp_path: Path) -> None:
    chain = a_daily_chain(2)
    three = a_certificate(3, chain[1], pruned=chain[0], issued_at=3 * DAY)
    four = a_certificate(4, three, issued_at=4 * DAY)
    run = a_run(tmp_path, [chain[1], three, four], count=2)

    pruned = Pruning(run, ()).point(four, 6 * DAY)

    assert pruned and (pruned.through, pruned.hash) == (3, three.digest)
