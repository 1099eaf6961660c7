"""Certificates, shown on a terminal and for programs."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from kafka_ferry.cli.terminal import out, show_table
from kafka_ferry.clock import moment_text
from kafka_ferry.plan import policy_of
from kafka_ferry.verify.counts import and_heartbeats, count, records_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafka_ferry.certificates import Certificate
    from kafka_ferry.certificates.chain import PublicKeys
    from kafka_ferry.config import Flow
    from kafka_ferry.runs.certificates import ReadBack


def show_certificates(flow: Flow, certificates: Sequence[Certificate]) -> None:
    """Print a row for each certificate."""
    columns = ("SERIAL", "ISSUED", "RUN", "RANGES", "RECORDS", "FROM", "UNTIL", "SIGNED", "HASH")
    rows = (_row(flow, one) for one in certificates)
    show_table(columns, rows, numbers=("SERIAL", "RANGES", "RECORDS"))


def _row(flow: Flow, one: Certificate) -> tuple[object, ...]:
    header, is_signed = one.header, "yes" if one.signature else "no"
    beats = _heartbeats(flow, one)
    counts = f"{header.ranges:,}", f"{header.records - beats:,}{and_heartbeats(beats)}"
    issued = header.serial, moment_text(header.issued_at), header.run
    since = moment_text(header.window[0]) if header.window else None
    return (*issued, *counts, since, moment_text(until_ms(one)), is_signed, one.digest[:16])


def _heartbeats(flow: Flow, one: Certificate) -> int:
    """How many of its records are in topics of heartbeats."""
    is_heartbeats_topic = policy_of(flow).is_heartbeats_topic
    # Of thousands of lines, those of other topics are not parsed.
    some = replace(one, range_lines=[line for line in one.range_lines if b"heartbeats" in line])
    return sum(row["read_back"] for row in some.ranges() if is_heartbeats_topic(row["topic"]))


def until_ms(one: Certificate) -> int:
    """Until when its records were written: the end of a backfill's window, or when the run was planned."""
    window, planned_at = one.header.window, one.header.planned_at
    return min(window[1], planned_at) if window else planned_at


def held(certificates: Sequence[Certificate], keys: PublicKeys) -> Sequence[Certificate]:
    """The certificates of a chain that prove anything: all but the unsigned ones it begins with."""
    from kafka_ferry.certificates.chain import unsigned_beginning

    return certificates[len(unsigned_beginning(certificates, keys)) :]


def certificates_text(certificates: Sequence[Certificate]) -> str:
    """Which certificates these are: ``certificate 3``, ``certificates 1 to 3``."""
    from kafka_ferry.certificates.chain import intervals

    serials = intervals([one.header.serial for one in certificates])
    return f"certificate{'s' * (len(certificates) > 1)} {serials}"


def checked_json(
    certificates: Sequence[Certificate], read: Sequence[ReadBack], keys: PublicKeys
) -> dict[str, Any]:
    """What was checked and holds."""
    headers = [one.header for one in held(certificates, keys)]
    return {
        "flow": headers[0].flow,
        "first": headers[0].serial,
        "last": headers[-1].serial,
        "ranges": sum(header.ranges for header in headers),
        "signatures": bool(keys),
        "read_back": [asdict(one) for one in read],
        "notes": not_looked_at(certificates, keys),
    }


def not_looked_at(certificates: Sequence[Certificate], keys: PublicKeys) -> list[str]:
    """A note on each thing that a check of these certificates has left out."""
    from kafka_ferry.certificates.chain import pruning_of, unsigned_beginning, unsigned_text
    from kafka_ferry.certificates.document import is_without_copy

    notes, first = [], certificates[0].header.serial - 1
    if gone := sum(is_without_copy(row) for one in certificates for row in one.ranges()):
        notes.append(
            f"Not looked at: the records of {count(gone, 'range')}, whose copy had been deleted or given up when "
            "their certificate was issued."
        )
    unsigned = [one.header.serial for one in unsigned_beginning(certificates, keys)]
    if text := unsigned_text(unsigned):
        notes.append(text)
    if pruned := pruning_of(certificates, keys):
        notes.append(
            f"Pruned until certificate {pruned.through}, which had the hash {pruned.hash}."
        )
    elif first:
        notes.append(f"Not looked at: the certificates 1 to {first}, which are not here.")
    if not keys:
        notes.append("Not looked at: signatures, for want of --public-key.")
    return notes


def certificate_json(one: Certificate) -> dict[str, Any]:
    """A certificate for programs."""
    document: dict[str, Any] = json.loads(one.line)
    signature = {"signature": one.signature.model_dump()} if one.signature else {}
    return document | {"hash": one.digest} | signature


_ABSENT: Final = {
    "expired": "expired on the target",
    "compacted": "compacted away on the target",
    "gone": "gone with their remote topic",
    "accepted": "missing, and left so by a person",
}
"""Why copied records were not read back, by their keys in a certificate."""


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {why}" for why, number in counts.items()) or "none"


def show_certificate(flow: Flow, one: Certificate) -> None:
    """Print what a certificate says, what it does not, and its ranges."""
    from kafka_ferry.certificates.document import is_without_copy

    header, ranges = one.header, one.ranges()
    records = records_text(header.records, _heartbeats(flow, one))
    gone = [row for row in ranges if is_without_copy(row)]
    kept = [row for row in ranges if not is_without_copy(row)]
    reasons, absent = Counter[str](), Counter[str]()
    for row in ranges:
        absent.update({_ABSENT.get(why, why): n for why, n in row.get("absent", {}).items()})
    for row in kept:
        reasons.update(row.get("reasons", {}))
    lines = {
        "certificate": f"{header.serial}, {one.digest}",
        "follows": header.previous or "nothing",
        "signed by": one.signature.key if one.signature else "no key",
        "flow": header.flow,
        "run": header.run,
        "issued": moment_text(header.issued_at),
        "source": f"{header.source.alias}, cluster {header.source.cluster_id}",
        "target": f"{header.target.alias}, cluster {header.target.cluster_id}",
        "proved": f"{records} in {count(len(kept), 'range')} of {count(_offsets(kept), 'offset')}",
        "without a record": _counts_text(reasons),
        "not read back": _counts_text(absent),
    }
    if gone:
        lines["not proved"] = (
            f"{count(len(gone), 'range')} of {count(_offsets(gone), 'offset')}: the copy was deleted or given up "
            "before, and nothing of it was looked at"
        )
    width = max(map(len, lines)) + 2
    for name, text in lines.items():
        out.print(f"{name + ':':<{width}}{text}")
    columns = (
        "TOPIC",
        "PARTITION",
        "START",
        "END",
        "READ BACK",
        "OTHERS",
        "REMOTE TOPIC",
        "DIGEST",
    )
    names = ("topic", "partition", "start", "end", "read_back")
    rows = (
        (
            *(row.get(name, "") for name in names),
            _counts_text(row.get("reasons", {}) | row.get("absent", {})),
            row.get("remote_topic", ""),
            row.get("digest", "") if row.get("compared") else "not compared",
        )
        for row in ranges
    )
    show_table(columns, rows, numbers=columns[1:5])


def _offsets(ranges: Iterable[Mapping[str, Any]]) -> int:
    return sum(row["end"] - row["start"] for row in ranges)
