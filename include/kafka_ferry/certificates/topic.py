"""Certificates on the target: a compacted topic beside the ledger, which flows of one source share.

A certificate's header, with its signature, is the value of the key ``{flow}/{serial}/0``; its range lines, some
hundred kilobytes a record, those of ``{flow}/{serial}/1`` and so on. The header is written last, so that a
certificate is there with all its ranges or not at all, and the flow's last record is its newest header. A pruned
certificate has tombstones for all its keys, written after the certificate that records the pruning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from kafka_ferry.batches import Batch, single_record
from kafka_ferry.certificates.document import (
    Certificate,
    CertificateError,
    Header,
    read_certificate,
)
from kafka_ferry.config import Cluster, Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.control.compacted import newest_values
from kafka_ferry.model import Creation, TopicPartition
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import committed_values
from kafka_ferry.wire.transactions.exclusive_writer import ExclusiveWriter, write_exclusively

_PART_BYTES: Final = 256 * 1024
# How many times more records are looked at where the log's last ones are of other flows.
_GROWTH: Final = 16


def certificate_topic(source: str) -> str:
    """The topic of the certificates of flows from the cluster with this alias."""
    return f"ferry-certificates.{source}.internal"


def certificates_creation(flow: Flow) -> Creation:
    """The flow's topic of certificates as it is to be created."""
    configs = {"cleanup.policy": "compact"}
    return Creation(certificate_topic(flow.source.alias), 1, flow.replication_factor, configs)


def append_certificate(
    flow: Flow,
    issue: Callable[[Certificate | None], Certificate],
    pruned: Callable[[Certificate], Sequence[Certificate]],
) -> Certificate:
    """Append the certificate that follows the newest one.

    The newest one is read by the only writer: of two runs that append at the same time one is fenced before
    it can write, and follows what the other wrote.

    Args:
        flow: the flow, whose topic exists.
        issue: makes the certificate, given the topic's newest one without its ranges, None if there is none.
            It may return that one, if there is nothing to add.
        pruned: the certificates that are no longer kept, given that one.

    Raises:
        CertificateError: if the topic holds records that are not of certificates.
        FerryError: if the target does not accept it within a minute.
    """

    def write(writer: ExclusiveWriter) -> Certificate:
        newest = _newest(flow, writer)
        new = issue(newest)
        if newest is None or new.digest != newest.digest:
            for batch in _batches(new):
                writer.write(batch)
        _prune(writer, new, pruned(new))
        return new

    partition = TopicPartition(certificate_topic(flow.source.alias), 0)
    return write_exclusively(flow.target, partition, f"ferry.{flow.name}.certificate", write)


def put_back_certificates(flow: Flow, certificates: Sequence[Certificate]) -> None:
    """Write certificates that the topic lacks, as they were.

    Args:
        flow: the flow, whose topic exists.
        certificates: what to write; their serials are free.

    Raises:
        CertificateError, FerryError: as ``append_certificate``.
    """

    def write(writer: ExclusiveWriter) -> None:
        existing = _newest(flow, writer)
        for one in certificates:
            for batch in _batches(one):
                writer.write(batch)
        newest = max((*certificates, *filter(None, [existing])), key=lambda one: one.header.serial)
        _write_last(writer, newest)

    partition = TopicPartition(certificate_topic(flow.source.alias), 0)
    write_exclusively(flow.target, partition, f"ferry.{flow.name}.certificate", write)


def _prune(writer: ExclusiveWriter, new: Certificate, pruned: Sequence[Certificate]) -> None:
    for one in pruned:
        # The header first: without it, the rest is what an interrupted attempt left.
        for number in range(1 + sum(1 for _ in _parts(one.range_lines))):
            key = _key(one.header, number)
            writer.write(single_record(key, None, new.header.issued_at))
    if pruned:
        _write_last(writer, new)


def _write_last(writer: ExclusiveWriter, newest: Certificate) -> None:
    """Write a header once more, so that the flow's last record is the newest one."""
    header = newest.header
    writer.write(single_record(_key(header, 0), newest.seal_lines(), header.issued_at))


def _newest(flow: Flow, writer: ExclusiveWriter) -> Certificate | None:
    """The flow's newest certificate: the log's last record, but for those of others and of interruptions."""
    log = partition_log(writer.cluster, writer.partition)
    back = 1
    while log.start < log.end:
        start = max(log.start, log.end - back)
        if found := list(_headers(flow, writer, start)):
            return max(found, key=lambda one: one.header.serial)
        if start == log.start:
            break
        back *= _GROWTH
    return None


def _headers(flow: Flow, writer: ExclusiveWriter, start: int) -> Iterator[Certificate]:
    """The flow's certificates whose headers lie at ``start`` or after, without their ranges."""
    for at, value in committed_values(writer.cluster, writer.partition, start):
        with suppress(CertificateError):
            one = read_certificate(value or b"", f"{writer.partition.topic} offset {at}")
            if one.header.flow == flow.name:
                yield one


def _batches(certificate: Certificate) -> Iterator[Batch]:
    """A batch for each record, the header's last."""
    header = certificate.header
    parts = [*enumerate(_parts(certificate.range_lines), 1), (0, certificate.seal_lines())]
    for number, value in parts:
        yield single_record(_key(header, number), value, header.issued_at)


def _key(header: Header, number: int) -> bytes:
    return _key_of(header.flow, header.serial, number)


def _key_of(flow: str, serial: int, number: int) -> bytes:
    return f"{flow}/{serial}/{number}".encode()


def _parts(lines: Sequence[bytes]) -> Iterator[bytes]:
    """The lines with their line breaks, some at a time."""
    part = bytearray()
    for line in lines:
        if part and len(part) + len(line) > _PART_BYTES:
            yield bytes(part)
            part.clear()
        part += line + b"\n"
    if part:
        yield bytes(part)


def stored_certificates(cluster: Cluster, source: str, flow: str) -> list[Certificate]:
    """All certificates of a flow that its target has, by their serials.

    Args:
        cluster: the target.
        source: the source's alias.
        flow: the flow's name.

    Raises:
        CertificateError: if a record is not of a certificate.
        FerryError: if they cannot be read, ``AccessDenied`` without READ on the topic.
    """
    topic = certificate_topic(source)
    if topic in ClusterControl(cluster).unknown([topic]):
        return []
    parts: dict[int, dict[int, bytes]] = {}
    for key, value in newest_values(cluster, topic).items():
        of_flow, serial, number = _parts_of_key(key, topic)
        if of_flow == flow:
            parts.setdefault(serial, {})[number] = value
    # Without a header, the last attempt to write it was interrupted: the next one writes it again.
    certificates = (
        _assemble(parts[serial], f"{topic}, serial {serial}")
        for serial in sorted(parts)
        if 0 in parts[serial]
    )
    return [one for one in certificates if one.header.flow == flow]


def _parts_of_key(key: bytes, topic: str) -> tuple[str, int, int]:
    try:
        flow, *numbers = key.decode().rsplit("/", 2)
        serial, number = map(int, numbers)
    except ValueError:
        flow, serial, number = "", -1, -1
    # Integers have several forms, and a key only one: "01/0" would take the place of "1/0".
    if key != _key_of(flow, serial, number) or min(serial, number) < 0:
        raise CertificateError(f"{topic} has the key {key!r}, which no certificate has.")
    return flow, serial, number


def _assemble(parts: dict[int, bytes], at: str) -> Certificate:
    head = read_certificate(parts[0], at)
    if head.range_lines:
        raise CertificateError(f"{at} has lines between the header and its signature.")
    lines: list[bytes] = []
    for number in sorted(parts.keys() - {0}):
        # An interrupted attempt may have left more parts than there are now.
        if len(lines) < head.header.ranges:
            *whole, rest = parts[number].split(b"\n")
            if rest:
                raise CertificateError(f"{at}, part {number} does not end with a whole line.")
            lines += whole
    return Certificate(head.line, lines, head.signature, at)
