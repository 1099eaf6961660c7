"""A flow's certificates, from the target and the state folder, checked against each other and the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kafka_ferry.certificates import (
    Certificate,
    CertificateError,
    certificate_topic,
    put_back_certificates,
    stored_certificates,
)
from kafka_ferry.certificates.chain import (
    faults_of_chain,
    faults_of_present,
    in_order,
    is_signed_by,
    pruning_of,
)
from kafka_ferry.certificates.document import is_without_copy
from kafka_ferry.control import ClusterControl
from kafka_ferry.control.compacted import create_compacted
from kafka_ferry.errors import FerryError, InputError
from kafka_ferry.ledger.proofs import accepted_ranges
from kafka_ferry.ledger.queries.copied_ranges import RangeCounts, counts_in_topics
from kafka_ferry.runs.state.certificate_files import certificate_files, save_file
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.runs.state.step_time import step_time
from kafka_ferry.runs.verify.again import read_ranges

if TYPE_CHECKING:
    from kafka_ferry.certificates.chain import PublicKeys
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerRange, LedgerTable
    from kafka_ferry.model import TopicPartition
    from kafka_ferry.verify.rows import TargetRecords


_SIGN: Final = (
    "None of them is signed. Set certificates.key, and run `ferry run --verify-all`: it certifies again all that was "
    "copied, with a signature, and then these are no fault any more."
)
_ALL_KEYS: Final = (
    "Where the flow has signed with other keys before, --public-key takes a file with all of its public keys, the "
    "oldest first."
)


@dataclass(frozen=True)
class FoundCertificates:
    """A flow's certificates.

    Attributes:
        on_target: those in the target's topic, by their serials.
        in_state: those in the state folder, by their serials.
    """

    on_target: tuple[Certificate, ...]
    in_state: tuple[Certificate, ...]

    @property
    def all(self) -> list[Certificate]:
        """The certificates of both places, each one once."""
        return in_order([*self.on_target, *self.in_state])


def require_no_fault(
    flow: Flow, found: FoundCertificates, keys: PublicKeys, faults: Sequence[str]
) -> None:
    """Refuse a flow's certificates where anything is wrong with them.

    Args:
        flow: the flow.
        found: its certificates.
        keys: as of ``faults_of``.
        faults: what is wrong with them, a sentence each.

    Raises:
        CertificateError: with these sentences.
    """
    if not faults:
        return
    raise CertificateError(
        f"The certificates of {flow.name} do not hold:",
        details=faults,
        advice=_advice(found, keys),
    )


def _advice(found: FoundCertificates, keys: PublicKeys) -> str:
    signed = [one for one in found.all if one.signature]
    if keys and not signed:
        return _SIGN
    return "" if not keys or all(is_signed_by(one, keys) for one in signed) else _ALL_KEYS


def find_certificates(flow: Flow) -> FoundCertificates:
    """The certificates of a flow.

    Raises:
        CertificateError: if one cannot be read.
        FerryError: if the flow has none, or the target does not answer.
    """
    state = RunContext.of(flow, "").state
    with step_time(flow):
        stored = stored_certificates(flow.target, flow.source.alias, flow.name)
    certificates = FoundCertificates(tuple(stored), tuple(certificate_files(state)))
    if not certificates.all:
        raise FerryError(
            f"{flow.name} has no certificate on {flow.target.alias} and in {state.location}",
            advice="Set certificates.enabled, and run it: a run certifies what it copies, and with --verify-all "
            "all that was copied before.",
        )
    return certificates


def faults_of(flow: Flow, found: FoundCertificates, keys: PublicKeys) -> Iterator[str]:
    """All that is wrong with a flow's certificates, a sentence each.

    Args:
        flow: the flow.
        found: its certificates.
        keys: as of ``faults_of_chain``.
    """
    yield from faults_of_chain(found.all, keys)
    serials = {one.header.serial for one in found.on_target}
    pruned = pruning_of(found.all, keys)
    for one in found.in_state:
        if one.header.flow != flow.name:
            yield f"{one.name} is in the state folder of {flow.name}."
        elif one.header.serial not in serials and (
            not pruned or one.header.serial > pruned.through
        ):
            yield (
                f"{one.name} is in the state folder, and not in {_topic(flow)}: `ferry certificate restore` puts it "
                "back."
            )
    context = RunContext.of(flow, "")
    context.project_ledger()
    yield from _not_in_ledger(context.ledger, found.all)


@dataclass(frozen=True)
class Restored:
    """The serials of certificates that were put back.

    Attributes:
        on_target: in the target's topic.
        in_state: in the state folder.
    """

    on_target: tuple[int, ...]
    in_state: tuple[int, ...]


def restore_certificates(flow: Flow, found: FoundCertificates, keys: PublicKeys) -> Restored:
    """Put certificates that one of the two places lacks back from the other one; pruned ones stay away.

    Args:
        flow: the flow.
        found: its certificates.
        keys: as of ``faults_of``.

    Raises:
        CertificateError: if one that is there does not hold; nothing is changed then.
        FerryError: if the target does not answer, or its topic cannot be created.
    """
    strange = [it.name for it in found.in_state if it.header.flow != flow.name]
    faults = [f"{name} is in the state folder of {flow.name}." for name in strange]
    if faults := [*faults, *faults_of_present(found.all, keys)]:
        raise CertificateError(
            f"What there is of {flow.name} does not hold, and is not copied:",
            details=faults,
            advice=_advice(found, keys)
            or "Delete the one that is wrong: the file in the state folder, or the topic on the target.",
        )
    pruned = pruning_of(found.all, keys)
    kept = [one for one in found.all if not pruned or one.header.serial > pruned.through]
    taken = {one.header.serial for one in found.on_target}
    here = {one.header.serial for one in found.in_state}
    to_target = [one for one in kept if one.header.serial not in taken]
    to_state = [one for one in kept if one.header.serial not in here]
    if to_target:
        control, topic = ClusterControl(flow.target), certificate_topic(flow.source.alias)
        create_compacted(control, topic, flow.replication_factor)
        put_back_certificates(flow, to_target)
    for one in to_state:
        save_file(RunContext.of(flow, "").state, one)
    return Restored(*(tuple(it.header.serial for it in some) for some in (to_target, to_state)))


@dataclass(frozen=True)
class ReadBack:
    """A certified range that was read back from the target.

    Attributes:
        name: its source partition and offsets.
        certificate: the newest certificate with it, by name.
        fault: what differs from what the certificate says; "" where nothing does.
        note: why not everything could be compared; "" where it could.
        others: of other certified ranges with the offset, that nothing of them was looked at, a sentence each.
    """

    name: str
    certificate: str
    fault: str = ""
    note: str = ""
    others: tuple[str, ...] = ()


def read_back(
    flow: Flow, found: FoundCertificates, places: Iterable[tuple[TopicPartition, int]]
) -> Iterator[ReadBack]:
    """Count and digest ranges on the target, and compare them with what their newest certificates say.

    Args:
        flow: the flow, whose ledger says where on the target they are.
        found: its certificates.
        places: source partitions, each with a source offset within the range.

    Raises:
        FerryError: if no certificate names such a range, or it cannot be read.
    """
    context = RunContext.of(flow, "")
    context.project_ledger()
    control, accepted = ClusterControl(flow.target), accepted_ranges(context.ledger)
    for source, offset in places:
        one, row, others = _certified_row(found, context.ledger, source, offset)
        ranges = _ranges_of(context.ledger, row)
        name = f"{source} [{row['start']}, {row['end']})"
        if is_without_copy(row):
            yield ReadBack(name, one.name, note=_without_copy(row, one))
            continue
        present = read_ranges(context, control, ranges)
        if not present:
            sentences = (
                f"{row['remote_topic']} does not have it any more, or the ledger does not know it."
            )
            yield ReadBack(name, one.name, sentences)
            continue
        # By its digest, what a person has left as it is since is not what was certified.
        is_left = any(entry.key in accepted for entry in ranges)
        result = _compare(name, one, row, present[0].recount, is_left=is_left)
        yield replace(result, others=tuple(_without_copy(*other) for other in others))


def _certified_row(
    found: FoundCertificates, ledger: LedgerTable, source: TopicPartition, offset: int
) -> tuple[Certificate, dict[str, Any], list[tuple[dict[str, Any], Certificate]]]:
    """The newest certificate with a range whose copy was there, and the range; and others whose copy was not.

    One that has a record of the offset goes first: a backfill passes over what is of another time.
    """
    rows = [
        (row, one)
        for one in reversed(found.all)
        for row in reversed(one.ranges())
        if (row.get("topic"), row.get("partition")) == (source.topic, source.partition)
        and row["start"] <= offset < row["end"]
    ]
    others = [place for place in rows if is_without_copy(place[0])]
    kept = [place for place in rows if place not in others]
    if len(kept) > 1:
        kept.sort(key=lambda place: not _has_record(ledger, place[0], offset))
    for row, one in (*kept, *others):
        return one, row, [place for place in others if place[0] is not row]
    raise InputError(
        f"No certificate names the offset {offset} of {source}",
        advice="ferry certificate show lists the ranges of a certificate.",
    )


def _ranges_of(ledger: LedgerTable, row: Mapping[str, Any]) -> list[LedgerRange]:
    """The ledger's range of a certificate's row; none where the ledger does not know it."""
    at = row["ledger_offset"]
    key = (at, row["topic"], row["partition"], row["start"])
    return [entry for entry in ledger.ranges_within(at, at + 1) if entry.key == key]


def _has_record(ledger: LedgerTable, row: Mapping[str, Any], offset: int) -> bool:
    """Whether a range has copied the record at a source offset, by the ledger."""
    return any(
        first <= offset < first + records
        for entry in _ranges_of(ledger, row)
        for first, _, records in entry.copied.segments
    )


def _without_copy(row: Mapping[str, Any], one: Certificate) -> str:
    """That a range is not proved, as its copy was gone before."""
    return (
        f"nothing was looked at of what run {row['run']} had copied into {row['remote_topic']} (id "
        f"{row['remote_topic_id']}): that topic had been deleted or given up before {one.name}"
    )


def _compare(
    name: str,
    one: Certificate,
    row: Mapping[str, Any],
    there: TargetRecords,
    *,
    is_left: bool = False,
) -> ReadBack:
    gone = there.expired + there.target_compacted
    # What had expired, or was accepted as missing, before the certificate is among what is not there now.
    accepted = min(there.accepted_missing, row["absent"].get("accepted", 0))
    if there.target_records + gone + accepted != row["copied"]:
        expired = (
            f", and {gone} of the {row['copied']} that were copied have expired" if gone else ""
        )
        held = (
            f"the target holds {there.target_records} of its {row['read_back']} records{expired}."
        )
        return ReadBack(name, one.name, held)
    is_comparable = there.digest_comparable or (is_left and row["compared"])
    if gone or not is_comparable or not row["digest"]:
        why = f"{gone} records have expired" if gone else "it was not copied as it is"
        return ReadBack(name, one.name, note=f"{why}: its digest cannot be compared.")
    if there.digest_read != row["digest"]:
        other = f"its digest is {there.digest_read} on the target, and {row['digest']} in it."
        return ReadBack(name, one.name, other)
    return ReadBack(name, one.name)


def _topic(flow: Flow) -> str:
    return f"{certificate_topic(flow.source.alias)} on {flow.target.alias}"


def _not_in_ledger(ledger: LedgerTable, certificates: Iterable[Certificate]) -> Iterator[str]:
    rows = [(one, row) for one in certificates for row in one.ranges()]
    topics = {row.get("remote_topic", "") for _, row in rows}
    known = {it.key: it for it in counts_in_topics(ledger, topics)}
    for one, row in rows:
        copied = known.get(_place(row))
        if copied is None or _claims(row) != _entries(copied):
            place = (
                f"{row.get('topic')}-{row.get('partition')} [{row.get('start')}, {row.get('end')})"
            )
            what = "does not have" if copied is None else "says something else of"
            yield f"{one.name}: the ledger {what} {place}, at its offset {row.get('ledger_offset')}."


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("ledger_offset", "topic", "partition", "start")
    return tuple(row.get(name) for name in names)


def _claims(row: dict[str, Any]) -> tuple[object, ...]:
    same = [row.get(name) for name in ("run", "topic_id", "remote_topic", "remote_topic_id", "end")]
    return (*same, row.get("copied"), sum(row.get("reasons", {}).values()), row.get("digest"))


def _entries(it: RangeCounts) -> tuple[object, ...]:
    same = (it.run, it.topic_id, it.remote_topic, it.remote_topic_id, it.end)
    return (*same, it.records, sum(it.reasons.values()), it.digest)


def of_serial(certificates: Sequence[Certificate], serial: int | None) -> Certificate:
    """The certificate with a serial, by default the newest.

    Raises:
        FerryError: if there is none with this serial.
    """
    for one in reversed(certificates):
        if serial in (None, one.header.serial):
            return one
    first, last = (certificates[at].header.serial for at in (0, -1))
    raise InputError(f"There is no certificate {serial}", advice=f"There are {first} to {last}.")
