"""A backfill in a run: the input of its plan, and the proof of what it has copied."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_ferry.batches import Reason
from kafka_ferry.clock import now_ms
from kafka_ferry.config.types.values import is_topic_name
from kafka_ferry.control import ClusterControl
from kafka_ferry.copy import copy_for_flow
from kafka_ferry.ledger.queries.copied_ranges import CopiedSpan, spans_into
from kafka_ferry.ledger.queries.copied_topics import backfilled_ids
from kafka_ferry.model import Plan, TopicPartition
from kafka_ferry.plan import selection_of
from kafka_ferry.plan.backfill.make_plan import plan_backfill
from kafka_ferry.plan.backfill.separate_topic import places_of, separate_topic
from kafka_ferry.plan.backfill.topic_backfill import WindowFacts
from kafka_ferry.plan.backfill.windows import Accounted, settled_spans
from kafka_ferry.runs.plan.discover import discover
from kafka_ferry.runs.plan.first_starts import first_offsets, first_records
from kafka_ferry.runs.plan.remote_records import foreign_records
from kafka_ferry.runs.provenance.log_mismatches import log_mismatches

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.copy import Outcome
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.model import ClusterState, RunOptions, Topic
    from kafka_ferry.model.ranges import Range, Settled

_FURTHEST_MS = 2**63 - 1
_OLDEST_MS = 0
_LEFT_OUT: Final = (Reason.FILTERED, Reason.DEAD_LETTERED, Reason.RETURNED)


def make_backfill_plan(flow: Flow, ledger: LedgerTable, run: str, options: RunOptions) -> Plan:
    """Find out what a backfill has to copy; changes nothing on either cluster.

    Raises:
        SameCluster, ClusterUnreachable, AccessDenied: as ``discover``.
        ConfigError, FerryError: as ``plan_backfill``.
    """
    state = discover(flow, ledger)
    facts = _facts(flow, ledger, state, options)
    return plan_backfill(flow, state, facts, run=run, at=now_ms(), options=options)


def _facts(
    flow: Flow, ledger: LedgerTable, state: ClusterState, options: RunOptions
) -> WindowFacts:
    window, wanted = options.window, options.topic_filter
    assert window
    partitions = [
        tp for tp in state.source.logs.bounds if wanted is None or wanted.matches(tp.topic)
    ]
    firsts, unread = first_offsets(flow.source, dict.fromkeys(partitions, window.since_ms))
    lasts: dict[TopicPartition, int] = {}
    if flow.backfill_disorder_ms >= 0:
        too_young = min(window.until_ms + flow.backfill_disorder_ms, _FURTHEST_MS)
        lasts, unread_too = first_records(flow.source, firsts, too_young)
        unread |= unread_too
    begun = [tp for tp in partitions if state.source.logs.bounds[tp].start > 0]
    oldest, unread_too = first_offsets(flow.source, dict.fromkeys(begun, _OLDEST_MS))
    unread |= unread_too
    cut = frozenset(tp for tp in begun if oldest.get(tp) == firsts.get(tp))
    separate = _separate_topics(flow, state)
    topic_ids = {topic.topic_id for topic in (*state.target.topics.values(), *separate.values())}
    known = backfilled_ids(ledger, separate) if state.positions.ledger_end else frozenset()
    target = ClusterControl(flow.target)
    strange = [topic for topic in separate.values() if topic.topic_id not in known]
    foreign, unreadable = foreign_records(flow, target, strange)
    known_spans = _known_spans(
        flow,
        ledger,
        state,
        # From there on the ledger is asked: of a log that is cut, what is deleted too.
        firsts | dict.fromkeys(cut, 0),
        topic_ids - state.ledger.released,
        selection_of(flow, state).names,
        window.since_ms,
    )
    return WindowFacts(
        firsts=firsts,
        lasts=lasts,
        unread={tp: str(error) for tp, error in unread.items()},
        cut=cut,
        older=known_spans.older,
        settled=known_spans.settled,
        left_out=known_spans.left_out,
        separate=separate,
        foreign=foreign | unreadable.keys(),
        mismatched=frozenset(
            tp.topic for tp in log_mismatches(flow, target, ledger, separate.values())
        ),
    )


def _separate_topics(flow: Flow, state: ClusterState) -> dict[str, Topic]:
    """The backfill topics that the target has, whatever the flow's options say now."""
    remote = {*selection_of(flow, state).names.values(), *state.target.topics}
    # A broker refuses to describe what no topic can be called.
    names = {*filter(is_topic_name, map(separate_topic, remote))}
    return dict(ClusterControl(flow.target).topics(names)) if names else {}


class _KnownSpans(NamedTuple):
    """What the ledger knows of *source* partitions.

    Attributes:
        settled: what is settled.
        older: the offset before which each had all its records before the window, where the ledger says it.
        left_out: how many of the settled offsets have no record on the target although they could, by reason.
    """

    settled: Mapping[TopicPartition, Sequence[Settled]]
    older: Mapping[TopicPartition, int]
    left_out: Mapping[TopicPartition, Counter[str]]


def _known_spans(
    flow: Flow,
    ledger: LedgerTable,
    state: ClusterState,
    firsts: Mapping[TopicPartition, int],
    topic_ids: set[str],
    remote_names: Mapping[str, str],
    since_ms: int,
) -> _KnownSpans:
    """What the ledger knows of the partitions in ``firsts``, in their remote topics of today, as far as these exist."""
    if not firsts or not state.positions.ledger_end:
        return _KnownSpans({}, {}, {})
    ids = {state.source.topics[tp.topic].topic_id for tp in firsts}
    copied = {tp.topic for tp in firsts} & remote_names.keys()
    places = {name: places_of(remote_names[name]) for name in copied}
    rules = {name: flow.fingerprint_of(name) for name in copied}
    ranges: dict[TopicPartition, list[Accounted]] = defaultdict(list)
    left_out: dict[TopicPartition, Counter[str]] = defaultdict(Counter)
    older: dict[TopicPartition, int] = {}
    for span in spans_into(ledger, ids, topic_ids, after=min(firsts.values())):
        if span.source not in firsts:
            continue
        if span.rewound_from >= 0 and span.source in older:
            older[span.source] = min(older[span.source], span.start)
        if span.at <= since_ms:
            older[span.source] = max(older.get(span.source, 0), span.end)
        if span.remote_topic in places.get(span.topic, ()):
            ranges[span.source] += accounts_of(span, rules[span.topic])
            if span.end > firsts[span.source] and not _is_of_another_rule(span, rules[span.topic]):
                left_out[span.source].update({it: span.reasons.get(it, 0) for it in _LEFT_OUT})
        elif span.rewound_from >= 0:
            # The source's log was truncated, whichever copy shows it.
            ranges[span.source].append(Accounted(span.start, span.start, is_rewind=True))
    settled = {source: settled_spans(of_partition) for source, of_partition in ranges.items()}
    return _KnownSpans(settled, older, left_out)


def pin_positions(flow: Flow, run: str, pins: Sequence[Range]) -> list[Outcome]:
    """Commit where the flow's first run would have begun, so that the next one still begins there.

    Args:
        flow: the flow.
        run: the run's id.
        pins: empty ordinary ranges.

    Returns:
        The outcome of each.
    """
    outcomes: list[Outcome] = []
    owner = attrgetter("owner")
    for _, group in groupby(sorted(pins, key=owner), key=owner):
        outcomes += copy_for_flow(flow, run, list(group))
    return outcomes


def accounts_of(span: CopiedSpan, rule: str) -> Iterator[Accounted]:
    """What a range of the ledger settles: all of it but what the source had deleted before.

    Where another rule than the topic's ``rule``, by its fingerprint, has left records out, only those that were copied.
    """
    # Another mirror may have put it into other partitions: a takeover has found all of it, and no places.
    start = 0 if span.compared and not span.segments else span.start
    is_rewind = span.rewound_from >= 0
    if _is_of_another_rule(span, rule):
        yield Accounted(start, start, span.window, is_rewind=is_rewind)
        for it in span.segments:
            yield Accounted(it.source, it.source + it.records, span.window)
        return
    for lost_start, lost_end in span.lost:
        yield Accounted(start, lost_start, span.window, is_rewind=is_rewind)
        start, is_rewind = lost_end, False
    yield Accounted(start, span.end, span.window, is_rewind=is_rewind)


def _is_of_another_rule(span: CopiedSpan, rule: str) -> bool:
    return span.transform != rule and span.reasons.get(Reason.FILTERED, 0) > 0
