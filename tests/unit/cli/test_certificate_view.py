"""What the command line says of a certificate: what it proves, and what not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_ferry.cli import certificate_view
from kafka_ferry.cli.certificate_view import (
    certificates_text,
    checked_json,
    not_looked_at,
    show_certificate,
)
from tests.unit.certificates.builders import KEY, a_certificate, a_range

GONE = a_range(0, 6, 10) | {"read_back": 0, "absent": {"gone": 4}, "compared": False}
EXPIRED = a_range(1, 0, 10, aborted=3) | {"read_back": 5, "absent": {"expired": 2}}


@pytest.mark.parametrize(
    ("ranges", "proved", "reasons", "absent", "not_proved"),
    [
        ([a_range()], "10 records in 1 range of 10 offsets", "none", "none", ""),
        (
            [a_range(), EXPIRED],
            "15 records in 2 ranges of 20 offsets",
            "3 aborted",
            "2 expired on the target",
            "",
        ),
        (
            [GONE, a_range()],
            "10 records in 1 range of 10 offsets",
            "none",
            "4 gone with their remote topic",
            "1 range of 4 offsets: the copy was deleted or given up before, and nothing of it was looked at",
        ),
    ],
    ids=["all of it", "expired", "gone"],
)
def test_what_is_proved_and_what_not_is_counted_apart(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ranges: list[dict[str, Any]],
    proved: str,
    reasons: str,
    absent: str,
    not_proved: str,
) -> None:
    policy = SimpleNamespace(is_heartbeats_topic=lambda _: False)
    monkeypatch.setattr(certificate_view, "policy_of", lambda _: policy)
    one = a_certificate(1, None, *ranges)
    show_certificate(None, one)  # type: ignore[arg-type]
    told = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines() if ": " in line)
    lines = [told.get(name, "").strip() for name in ("proved", "without a record", "not read back")]
    assert lines == [proved, reasons, absent]
    assert told.get("not proved", "").strip() == not_proved
    notes = not_looked_at([one], [KEY.public_key()])
    assert [note.startswith("Not looked at: the records of 1 range,") for note in notes] == (
        [True] if not_proved else []
    )


def test_certificates_from_before_the_flow_had_a_key_prove_nothing() -> None:
    first = a_certificate(1, key=None)
    second = a_certificate(2, first, key=None)
    chain = [first, second, a_certificate(3, second)]

    held = checked_json(chain, [], [KEY.public_key()])
    one = checked_json([second, chain[2]], [], [KEY.public_key()])

    assert (held["first"], held["last"], held["ranges"]) == (3, 3, 3)
    assert held["notes"][0] == (
        "Certificates 1 to 2 are not signed, since the flow had no key yet: they prove nothing."
    )
    assert one["notes"][0].startswith("Certificate 2 is not signed, since")
    assert checked_json(chain, [], None)["first"] == 1


@pytest.mark.parametrize(
    ("serials", "shown"),
    [
        ([3], "certificate 3"),
        ([1, 2, 3], "certificates 1 to 3"),
        ([1, 3, 4], "certificates 1, 3 to 4"),
    ],
)
def test_certificates_are_named_by_their_serials(serials: list[int], shown: str) -> None:
    some = [a_certificate(serial, None, a_range()) for serial in serials]
    assert certificates_text(some) == shown
