"""A folder to hand over: the certificates of what was written in a span of time, and all that checks them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import kafka_ferry.certificates
from kafka_ferry.certificates import Certificate
from kafka_ferry.certificates.chain import unsigned_beginning, unsigned_text
from kafka_ferry.clock import now_ms
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import FerryError, InputError
from kafka_ferry.ledger.queries.accepted_losses import accepted_losses
from kafka_ferry.ledger.queries.copied_ranges import windows
from kafka_ferry.ledger.queries.copied_topics import CopiedSince, copies_since
from kafka_ferry.ledger.rows import RangeKey, Release
from kafka_ferry.model import LogBounds, TopicPartition, Window
from kafka_ferry.model.ranges import Settled
from kafka_ferry.plan.backfill.windows import (
    Span,
    gaps,
    merge_spans,
    whole_spans,
    within,
)
from kafka_ferry.report.templates import template
from kafka_ferry.runs.certificates import faults_of, find_certificates, require_no_fault
from kafka_ferry.runs.certified_ranges import CertifiedRange, certified_ranges
from kafka_ferry.runs.former_copies import FormerCopy, former_copies
from kafka_ferry.runs.plan.first_starts import first_offsets, first_records
from kafka_ferry.runs.provenance.branches import Branches
from kafka_ferry.runs.provenance.selection import selection_now
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.runs.state.step_time import step_time

if TYPE_CHECKING:
    from kafka_ferry.certificates.chain import PublicKeys
    from kafka_ferry.config import Flow

PAGE: Final = "index.html"
_TRANSFORM: Final = "transform"
_NOT_TOLD: Final = ("topics", "fingerprint", "copied")
_CHECKER: Final = "check_certificates.py"


@dataclass(frozen=True)
class CertifiedSpan:
    """What certificates say of one source partition's offsets that were written in a window.

    Attributes:
        source: the source partition.
        remote_topics: the remote topics that have them, by the certificates; several where the topic was renamed
            (``topics.rename``) or backfilled.
        offsets: from the window's first offset up to the first one after it.
        serials: the certificates with any of them.
        missing: those of the offsets that no certificate has, or only in ranges of which not all was read back.
        unread: these ranges.
    """

    source: TopicPartition
    remote_topics: tuple[str, ...]
    offsets: Span
    serials: tuple[int, ...]
    missing: tuple[Span, ...]
    unread: tuple[CertifiedRange, ...] = ()

    @property
    def unread_texts(self) -> tuple[str, ...]:
        """What was not read back of each of these ranges, sentences."""
        return tuple(
            f"Certificate {it.serial} has {self.source} [{it.offsets[0]}, {it.offsets[1]}), but "
            f"{it.unread:,} of its records were gone before they were read back: expired on the target, or accepted "
            "as missing."
            for it in self.unread
        )


class WindowPart(NamedTuple):
    """A part of a window, and a partition's offsets that were written then.

    Attributes:
        offsets: from the first one in that part of the window up to the first one after it.
        window: the part.
    """

    offsets: Span
    window: Window


@dataclass(frozen=True)
class Export:
    """What was written into a folder.

    Attributes:
        certificates: the certificates, without a hole between the first one and the last one.
        spans: what they say of each source partition with records of the window.
        gone: topics that the flow has copied and the source no longer has, so that it is unknown which of their
            records are of the window.
        asked_at: when the source was asked for the window's offsets, in milliseconds since 1970: it may have got
            more of them since, if the window was not over.
        former: copies of recreated topics, and copies that were given up, in the window or since.
        unsigned: the serials of the certificates from before the flow had a key: what they say counts for nothing.
        diverged: the source partitions whose logs were truncated below what was copied, or restored from a backup, and
            not copied again since.
        unknown: of which partitions that could not be found out, a sentence each.
    """

    certificates: tuple[Certificate, ...]
    spans: tuple[CertifiedSpan, ...]
    gone: tuple[str, ...]
    asked_at: int
    diverged: tuple[TopicPartition, ...] = ()
    unknown: tuple[str, ...] = ()
    former: tuple[FormerCopy, ...] = ()
    unsigned: tuple[int, ...] = ()

    @property
    def unsigned_text(self) -> str:
        """Which certificates are not signed and not here, a sentence; "" for none."""
        return unsigned_text(self.unsigned)

    @property
    def missing(self) -> tuple[CertifiedSpan, ...]:
        """The spans of partitions with offsets that no certificate has."""
        return tuple(span for span in self.spans if span.missing)

    def headline(self, window: Window) -> str:
        """Whether all of the window's offsets are certified."""
        if self.missing:
            return "Proof is missing"
        return f"All of these offsets{' so far' if self.asked_at < window.until_ms else ''} are certified"

    @property
    def rules(self) -> tuple[tuple[str, str], ...]:
        """The transform rules of its certificates: the topics' patterns of each, and what it does."""
        texts = dict.fromkeys(
            one.header.rules[_TRANSFORM]
            for one in self.certificates
            if _TRANSFORM in one.header.rules
        )
        rules = [rule for text in texts for rule in json.loads(text)]
        told = (
            (
                ", ".join(rule["topics"]),
                ", ".join(
                    f"{name}: {value}" for name, value in rule.items() if name not in _NOT_TOLD
                ),
            )
            for rule in rules
        )
        return tuple(dict.fromkeys(told))


def export_certificates(
    flow: Flow, window: Window, folder: Path, keys: PublicKeys, pem: bytes
) -> Export:
    """Write a window's certificates, the public keys, the checker and a page into a new folder.

    Args:
        flow: the flow.
        window: timestamps of the source's records.
        folder: the folder; it must not exist, or be empty.
        keys: those that certificates have to be signed with, as of ``faults_of``.
        pem: their file.

    Raises:
        CertificateError: the flow's certificates do not hold; nothing is written then.
        InputError: the folder has files, or cannot be written; or no certificate is of the window.
        FerryError: a cluster does not answer.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not empty.", advice="Name a new folder.")
    known = find_certificates(flow)
    require_no_fault(flow, known, keys, list(faults_of(flow, known, keys)))
    unsigned = unsigned_beginning(known.all, keys)
    export = _choose(flow, window, known.all[len(unsigned) :])
    export = replace(export, unsigned=tuple(one.header.serial for one in unsigned))
    if not export.certificates:
        raise InputError(
            f"No certificate of {flow.name} has a record of {window}.",
            advice=_advice(window, unsigned),
        )
    try:
        _write(flow, window, folder, export, pem)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}.") from None
    return export


def _advice(window: Window, unsigned: Sequence[Certificate]) -> str:
    """What to do where no certificate is of the window."""
    if window.since_ms > now_ms():
        return "The window is in the future."
    if unsigned:
        return (
            f"{unsigned_text([one.header.serial for one in unsigned])} `ferry run --verify-all` certifies again what "
            "they are of, with a signature."
        )
    return (
        "Has the source records of these dates? `ferry run --verify-all` certifies what was copied before certificates "
        "were switched on."
    )


def _choose(flow: Flow, window: Window, certificates: Sequence[Certificate]) -> Export:
    asked_at = now_ms()
    with step_time(flow):
        bounds, ids, gone, branches, copies, releases, windows, accepted = _source(flow)
        known = certified_ranges(certificates, branches, windows, accepted)
        moments = _moments(window, chain.from_iterable(known.values()))
        firsts = _known(first_offsets(flow.source, dict.fromkeys(bounds, moments[0])))
        afters = [_known(first_records(flow.source, firsts, moment)) for moment in moments[1:]]
    spans = []
    for source in sorted(firsts):
        edges = [it.get(source, bounds[source].end) for it in (firsts, *afters)]
        parts = [
            WindowPart(offsets, Window(*times))
            for offsets, times in zip(pairwise(edges), pairwise(moments), strict=True)
            if offsets[0] < offsets[1]
        ]
        if parts:
            rows = known[ids[source.topic], source.partition]
            spans.append(_span(source, parts, rows, log_start=bounds[source].start))
    former = former_copies(copies, releases, ids, certificates, window.since_ms)
    planned = {one.header.serial: one.header.planned_at for one in certificates}
    serials_all = {serial for span in spans for serial in span.serials}
    # Of records of these dates, whatever became of them.
    serials_all |= {
        serial for copy in former for serial in copy.serials if planned[serial] >= window.since_ms
    }
    kept = [
        one
        for one in certificates
        if serials_all and min(serials_all) <= one.header.serial <= max(serials_all)
    ]
    diverged = {it for it in firsts if (ids[it.topic], it.partition) in branches.diverged}
    return Export(
        *(tuple(kept), tuple(spans), tuple(gone), asked_at, tuple(sorted(diverged))),
        *(branches.unknown, tuple(former)),
    )


def _moments(window: Window, ranges: Iterable[CertifiedRange]) -> list[int]:
    """The times between which the same backfills have copied, from the window's start to its end."""
    edges = {at for it in ranges for at in it.times if window.since_ms < at < window.until_ms}
    return sorted({window.since_ms, window.until_ms} | edges)


def _known(
    answers: tuple[dict[TopicPartition, int], dict[TopicPartition, FerryError]],
) -> dict[TopicPartition, int]:
    """The offsets, where all partitions can be asked."""
    offsets, unread = answers
    for error in unread.values():
        raise error
    return offsets


def _span(
    source: TopicPartition,
    parts: Sequence[WindowPart],
    rows: Iterable[CertifiedRange],
    *,
    log_start: int,
) -> CertifiedSpan:
    """What certified ranges say of a partition's offsets, one part of the time after the other."""
    (start, _), (_, end) = parts[0].offsets, parts[-1].offsets
    since_ms, until_ms = parts[0].window.since_ms, parts[-1].window.until_ms
    # Where the source has deleted older records, these may be of the window too.
    since = 0 if start == log_start else start
    within_times = [
        row
        for row in rows
        if row.offsets[0] < end and row.offsets[1] > since
        if row.times[0] < until_ms and row.times[1] > since_ms
    ]
    settled = [Settled(*row.offsets, *row.times) for row in within_times if not row.unread]
    missing = merge_spans(
        chain.from_iterable(
            gaps(whole_spans(within(settled, *part), part.window), part.offsets) for part in parts
        )
    )
    unread = (
        row
        for row in within_times
        if row.unread
        if any(first < row.offsets[1] and row.offsets[0] < last for first, last in missing)
    )
    return CertifiedSpan(
        source,
        tuple(dict.fromkeys(row.remote_topic for row in within_times)),
        (start, end),
        tuple(sorted({row.serial for row in within_times})),
        tuple(missing),
        tuple(unread),
    )


class _Source(NamedTuple):
    """The topics that the flow has copied, and those that it selects now, as the source has them.

    Attributes:
        bounds: their logs.
        ids: their ids.
        gone: the copied topics that the source does not have any more.
        branches: which of their certified offsets are of these logs.
        copies: what was ever copied into what.
        releases: the copies that were given up.
        windows: the timestamps ``[since, until)`` of backfills, by the ledger offsets of their records.
        accepted: the source offsets of records that were accepted as missing, by the ranges that have them.
    """

    bounds: Mapping[TopicPartition, LogBounds]
    ids: Mapping[str, str]
    gone: list[str]
    branches: Branches
    copies: Sequence[CopiedSince]
    releases: Sequence[Release]
    windows: Mapping[int, Span]
    accepted: Mapping[RangeKey, Sequence[Span]]


def _source(flow: Flow) -> _Source:
    run = RunContext.of(flow, "")
    run.project_ledger()
    names, source = run.ledger.topics(), ClusterControl(flow.source)
    topics, refused, selection = selection_now(flow, source.topic_names(), names, also=names)
    # What no run has copied yet has no certificate either.
    meant = {*names, *selection.names, *(it.topic for it in selection.refused)}
    for error in (refused[name] for name in sorted(meant & refused.keys())):
        raise error
    topics = {name: topic for name, topic in topics.items() if name in meant}
    bounds = source.log_bounds(
        topics.values(), flow.isolation_level, wait_s=flow.partition_wait_ms / 1000
    )
    ids = {name: topic.topic_id for name, topic in topics.items()}
    branches = Branches.of(flow, run.ledger, ids, by_records=True)
    gone = sorted(names.keys() - topics.keys())
    copies, releases = copies_since(run.ledger), run.ledger.releases()
    accepted = {loss.entry.key: loss.sources for loss in accepted_losses(run.ledger)}
    return _Source(bounds, ids, gone, branches, copies, releases, windows(run.ledger), accepted)


def _write(flow: Flow, window: Window, folder: Path, export: Export, pem: bytes) -> None:
    place = folder / "certificates"
    place.mkdir(parents=True, exist_ok=True)
    for one in export.certificates:
        (place / f"{one.header.serial:08d}.jsonl").write_bytes(one.content())
    (folder / "public.pem").write_bytes(pem)
    checker = files(kafka_ferry.certificates) / "check_certificates.txt"
    (folder / _CHECKER).write_bytes(checker.read_bytes())
    page = template("certificates.html.j2").render(flow=flow, window=window, export=export)
    (folder / PAGE).write_text(page)
