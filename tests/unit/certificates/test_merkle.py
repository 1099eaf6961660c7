"""The tree of RFC 9162, against its recursive definition."""

from __future__ import annotations

import hashlib

from kafka_ferry.certificates.merkle import merkle_root


def by_definition(leaves: list[bytes]) -> bytes:
    """RFC 9162, 2.1.1."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    parts = by_definition(leaves[:split]) + by_definition(leaves[split:])
    return hashlib.sha256(b"\1" + parts).digest()


def test_the_root_is_that_of_the_definition() -> None:
    leaves = [b"leaf %d" % number for number in range(33)]

    for count in range(34):
        assert merkle_root(leaves[:count]) == by_definition(leaves[:count]).hex(), count


def test_the_root_is_that_of_certificate_transparency() -> None:
    # The first three leaves of the test data of Certificate Transparency's reference implementation.
    leaves = [b"", b"\0", b"\x10"]

    assert merkle_root(leaves[:1]) == (
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    )
    assert merkle_root(leaves[:2]) == (
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"
    )
    assert merkle_root(leaves) == "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"
