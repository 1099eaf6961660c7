"""Certificates as runs issue them, without a run."""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kafka_ferry.certificates import Certificate, Header
from kafka_ferry.certificates.document import CertifiedCluster, Pruned, as_line
from kafka_ferry.certificates.merkle import merkle_root

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def a_range(partition: int = 0, start: int = 0, end: int = 10, **reasons: int) -> dict[str, Any]:
    """A range of which all records but those with a reason were copied and read back."""
    records = end - start - sum(reasons.values())
    return {
        "topic": "orders",
        "topic_id": "source-id",
        "partition": partition,
        "remote_topic": "left.orders",
        "remote_topic_id": "target-id",
        "preserved": False,
        "start": start,
        "end": end,
        "copied": records,
        "reasons": reasons,
        "read_back": records,
        "absent": {},
        "digest": f"{partition:032x}",
        "compared": True,
        "ledger_offset": 7,
        "run": "run-1",
    }


def a_certificate(
    serial: int = 1,
    previous: Certificate | None = None,
    *ranges: dict[str, Any],
    key: Ed25519PrivateKey | None = KEY,
    pruned: Certificate | None = None,
    issued_at: int = 2_000,
) -> Certificate:
    """A certificate that holds; ``pruned`` is the last one before it that is no longer kept."""
    rows = ranges or (a_range(0), a_range(1, 5, 20, aborted=3), a_range(2))
    lines = [as_line(row) for row in rows]
    reasons: dict[str, int] = {}
    for row in rows:
        for why, count in row["reasons"].items():
            reasons[why] = reasons.get(why, 0) + count
    header = Header(
        serial=serial,
        previous=previous.digest if previous else "",
        pruned=Pruned(through=pruned.header.serial, hash=pruned.digest) if pruned else None,
        flow="left->right",
        run=f"run-{serial}",
        planned_at=1_000,
        issued_at=issued_at,
        ferry="0.1.0",
        source=CertifiedCluster(alias="left", cluster_id="L"),
        target=CertifiedCluster(alias="right", cluster_id="R"),
        rules={"topics": "orders"},
        checks={"counts": "passed"},
        ranges=len(rows),
        source_offsets=sum(row["end"] - row["start"] for row in rows),
        records=sum(row["read_back"] for row in rows),
        reasons=reasons,
        root=merkle_root(lines),
    )
    return Certificate.issue(header, lines, key)


def a_chain(length: int) -> list[Certificate]:
    """So many certificates, each of which follows the one before it."""
    chain: list[Certificate] = []
    for serial in range(1, length + 1):
        chain.append(a_certificate(serial, chain[-1] if chain else None))
    return chain
