"""What of a certified range is there when it is read back."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kafka_ferry.runs.certificates import FoundCertificates, _advice, _compare
from kafka_ferry.verify.rows import TargetRecords
from tests.unit.certificates.builders import KEY, a_certificate, a_chain, a_range


def held(
    records: int, digest: str, *, digest_comparable: bool = True, **more: int
) -> TargetRecords:
    return TargetRecords(
        target_records=records, digest_read=digest, digest_comparable=digest_comparable, **more
    )


@pytest.mark.parametrize(
    ("absent", "there", "is_left", "fault"),
    [
        ({}, held(10, "d"), False, ""),
        ({}, held(10, "e"), False, "its digest is e on the target, and d in it."),
        ({}, held(10, "e", digest_comparable=False), False, ""),
        # A person has left it so: it is not what was certified.
        (
            {},
            held(10, "e", digest_comparable=False),
            True,
            "its digest is e on the target, and d in it.",
        ),
        ({}, held(7, "e", expired=3), False, ""),
        ({"expired": 3}, held(7, "e", expired=3), False, ""),
        ({"expired": 3}, held(5, "e", expired=5), False, ""),
        # As many were lost since as had expired before.
        (
            {"expired": 3},
            held(4, "e", expired=3),
            False,
            "the target holds 4 of its 7 records, and 3 of the 10 that were copied have expired.",
        ),
        ({"compacted": 3}, held(6, "e", target_compacted=4), False, ""),
        ({"accepted": 3}, held(7, "e", digest_comparable=False, accepted_missing=3), True, ""),
        ({"accepted": 3}, held(7, "e", expired=2, accepted_missing=1), True, ""),
        (
            {},
            held(7, "e", accepted_missing=3),
            True,
            "the target holds 7 of its 10 records.",
        ),
        (
            {"accepted": 3},
            held(6, "e", accepted_missing=4),
            True,
            "the target holds 6 of its 7 records.",
        ),
    ],
)
def test_a_certified_range_holds_if_no_more_is_gone_than_has_expired_or_was_accepted_before(
    absent: dict[str, int], there: TargetRecords, is_left: bool, fault: str
) -> None:
    unread = sum(absent.values())
    row = a_range() | {
        "absent": absent,
        "read_back": 10 - unread,
        "compared": not unread,
        "digest": "d",
    }

    assert _compare("orders-0", a_certificate(), row, there, is_left=is_left).fault == fault


def test_a_signature_of_a_key_that_is_not_given_is_no_reason_to_delete_a_certificate() -> None:
    found, ours = FoundCertificates((*a_chain(2),), ()), KEY.public_key()
    other = Ed25519PrivateKey.generate().public_key()

    assert _advice(found, [ours]) == _advice(found, ()) == ""
    assert "all of its public keys, the oldest first" in _advice(found, [other])
    unsigned = FoundCertificates((a_certificate(key=None),), ())
    assert "certificates.key" in _advice(unsigned, [ours])
