"""All that is shown of a flow, read from its runs' files in the state folder: no cluster is asked.

Each version of a file is parsed once (``runs.state.file_cache``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Final, TypeVar

import regex

from kafka_ferry.config import Flow
from kafka_ferry.groups.moves import GroupMoves
from kafka_ferry.ledger.accounts import Account, By, accounts
from kafka_ferry.ledger.queries.copied_ranges import (
    RangeCounts,
    counts_of_partition,
    counts_of_run,
)
from kafka_ferry.ledger.table import LedgerTable
from kafka_ferry.model import Plan, RunOptions, TopicPartition
from kafka_ferry.model.results.steps import StepRecord
from kafka_ferry.report import RunReport
from kafka_ferry.report.offsets import OffsetsBar, OffsetsRow, bars, offset_rows
from kafka_ferry.report.summary import RunSummary
from kafka_ferry.report.views import (
    GroupView,
    PartitionView,
    TopicView,
    group_views,
    latest,
    partition_views,
    topic_views,
)
from kafka_ferry.runs.state.file_cache import LARGE, SMALL
from kafka_ferry.runs.state.flow_state import flow_ledger, flow_state
from kafka_ferry.runs.state.history import HISTORY, parse_history
from kafka_ferry.runs.state.run_folder import (
    GROUPS_SEEN,
    REPORT,
    REPORT_DATA,
    STEPS,
    RunFolder,
)

_T = TypeVar("_T")
_DOCS_NAME: Final = r"(?!\.)[A-Za-z0-9._~+-]{1,200}"
_DOCS_PAGE: Final = regex.compile(
    rf"index\.html|expectations/{_DOCS_NAME}\.html|runs/{_DOCS_NAME}/{_DOCS_NAME}\.html"
)
# Runs for some topics only, or for a window: up to so many newest ones are laid over the last whole run.
_OVERLAID: Final = 8


@dataclass(frozen=True, slots=True)
class StepView:
    """A step of a run.

    Attributes:
        name: the step.
        record: how it ended the last time, None if it never did.
    """

    name: str
    record: StepRecord | None


@dataclass(frozen=True, slots=True)
class RangeView:
    """A range in the ledger, as a run's transaction has committed it.

    Attributes:
        topic: the source's topic.
        partition: the partition, on both clusters.
        remote_topic: the topic on the target.
        start: the first source offset.
        end: the source offset after the last one.
        offsets: ``end - start``.
        records: records copied.
        bytes: bytes of their batches.
        reasons: offsets without a record on the target, by reason.
        rebuilt: batches that could not be copied unopened, by reason.
        at: when it was committed, in milliseconds since 1970.
        writer: the number of the writer.
        verified: whether it was read back and found complete.
        run: the run.
        rewound_from: the position before it was set back to ``start``, because the source's log had been
            truncated; -1 where it was not.
        backfill: whether a backfill has copied it.
    """

    topic: str
    partition: int
    remote_topic: str
    start: int
    end: int
    offsets: int
    records: int
    bytes: int
    reasons: Mapping[str, int]
    rebuilt: Mapping[str, int]
    at: int
    writer: int
    verified: bool
    run: str
    rewound_from: int
    backfill: bool


@dataclass(frozen=True, slots=True)
class RunView:
    """One run.

    Attributes:
        summary: its line in the history; None if it was not published.
        report: its report; None if it was not published, or was deleted.
        options: its options; None if it was not planned.
        steps: how its steps ended.
    """

    summary: RunSummary | None
    report: RunReport | None
    options: RunOptions | None
    steps: tuple[StepView, ...]


class FlowViews:
    """What can be shown of ``flow``; reading never changes anything and never asks a cluster."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._state = flow_state(flow)
        self._runs = self._state.folder("runs")

    def history(self) -> tuple[RunSummary, ...]:
        """The published runs, oldest first."""
        return SMALL.load(self._runs, HISTORY, _history) or ()

    def partitions(self) -> tuple[PartitionView, ...]:
        """All partitions, as the last runs left them, by topic and partition."""
        return tuple(latest(self._views()))

    def topics(self) -> tuple[TopicView, ...]:
        """All topics, by name."""
        return tuple(topic_views(self.partitions()))

    def groups(self) -> tuple[GroupView, ...]:
        """The groups' partitions, as the last run that read groups found them."""
        return LARGE.load(self._runs, GROUPS_SEEN, _groups) or ()

    def report(self, run: str) -> RunReport | None:
        """A run's report, None if it was not published."""
        return LARGE.load(self._folder(run).files, REPORT_DATA, RunReport.from_json)

    def run(self, run: str) -> RunView | None:
        """A run, None if the flow has none of that id."""
        folder = self._folder(run)
        plan = LARGE.load(folder.files, "plan.json", _options)
        summary = next((one for one in reversed(self.history()) if one.run == run), None)
        steps = tuple(StepView(step, folder.step_record(step)) for step in STEPS)
        if plan is None and summary is None and not any(step.record for step in steps):
            return None
        return RunView(summary, self.report(run), plan, steps)

    def ranges(self, run: str) -> tuple[RangeView, ...]:
        """The ranges that a run has committed, by topic, partition and offset."""
        return self._of_ledger(
            lambda ledger: _ranges(ledger, counts_of_run(ledger, run)), "ranges", run
        )

    def ranges_of(self, topic: str, partition: int) -> tuple[RangeView, ...]:
        """The ranges of a partition of the source that runs have committed, the newest first."""
        source = TopicPartition(topic, partition)
        views = self._of_ledger(
            lambda ledger: _ranges(ledger, counts_of_partition(ledger, source)),
            *("ranges of", topic, str(partition)),
        )
        return tuple(sorted(views, key=lambda view: (view.at, view.start), reverse=True))

    def offsets(
        self, topic: str | None = None, partition: int | None = None
    ) -> tuple[OffsetsBar, ...]:
        """The source offsets over time: of the flow, a topic or a partition of it."""
        return self._accounts(bars, "run", topic, partition)

    def offsets_rows(self, topic: str | None = None) -> tuple[OffsetsRow, ...]:
        """The source offsets of each topic, or of each partition of a topic."""
        if topic is None:
            return self._accounts(partial(offset_rows, are_partitions=False), "topic")
        return self._accounts(partial(offset_rows, are_partitions=True), "partition", topic)

    def _accounts(
        self,
        make: Callable[[list[Account]], list[_T]],
        by: By,
        topic: str | None = None,
        partition: int | None = None,
    ) -> tuple[_T, ...]:
        return self._of_ledger(
            lambda ledger: tuple(make(accounts(ledger, by, topic=topic, partition=partition))),
            *("accounts", by, repr((topic, partition))),
        )

    def _of_ledger(
        self, make: Callable[[LedgerTable], tuple[_T, ...]], *key: str
    ) -> tuple[_T, ...]:
        """What ``make`` makes of the ledger, once for each state of it."""
        ledger = flow_ledger(self._flow)
        key, stamp = (self._state.location, *key), (ledger.next_offset, 0)
        made: tuple[_T, ...] = LARGE.get(key, stamp, lambda: make(ledger))
        return made

    def report_page(self, run: str) -> bytes | None:
        """The page that ``publish`` wrote of a run, None if there is none."""
        return self._folder(run).files.read(REPORT)

    def docs_page(self, name: str) -> bytes | None:
        """A file of the flow's Data Docs, None if there is none.

        Args:
            name: the path below their folder. Only pages are shown, at the places where ``data_docs`` writes them.
        """
        if not _DOCS_PAGE.fullmatch(name):
            return None
        return self._state.folder("data_docs").read(name)

    @property
    def has_docs(self) -> bool:
        """Whether there are Data Docs."""
        return self._state.folder("data_docs").stamp("index.html") is not None

    def _folder(self, run: str) -> RunFolder:
        return RunFolder(self._runs, run)

    def _views(self) -> list[tuple[PartitionView, ...]]:
        """From the last run of the whole flow, and from the runs of a part of it since.

        By when they were planned: an older run that is published again has not looked at the partitions again.
        """
        views: list[tuple[PartitionView, ...]] = []
        # Of two runs of one id, the report is of the newer one.
        runs = {one.run: one for one in sorted(self.history(), key=attrgetter("planned_at"))}
        for summary in sorted(runs.values(), key=attrgetter("planned_at"), reverse=True):
            files = self._folder(summary.run).files
            rows = LARGE.load(files, REPORT_DATA, _partitions) or ()
            views.insert(0, rows)
            if (summary.scope.is_whole and rows) or len(views) > _OVERLAID:
                break
        return views


def _history(content: bytes) -> tuple[RunSummary, ...]:
    return tuple(parse_history(content))


def _partitions(content: bytes) -> tuple[PartitionView, ...]:
    return tuple(partition_views(RunReport.from_json(content)))


def _groups(content: bytes) -> tuple[GroupView, ...]:
    return tuple(group_views(GroupMoves.from_json(content)))


def _options(content: bytes) -> RunOptions:
    return Plan.from_json(content).options


def _ranges(ledger: LedgerTable, ranges: Iterable[RangeCounts]) -> tuple[RangeView, ...]:
    through = ledger.verified_through()
    views = [
        RangeView(
            topic=it.topic,
            partition=it.partition,
            remote_topic=it.remote_topic,
            start=it.start,
            end=it.end,
            offsets=it.end - it.start,
            records=it.records,
            bytes=it.bytes,
            reasons=it.reasons,
            rebuilt=it.rebuilt,
            at=it.at,
            writer=it.writer,
            verified=it.ledger_offset < through,
            run=it.run,
            rewound_from=it.rewound_from,
            backfill=it.is_backfill,
        )
        for it in ranges
    ]
    return tuple(sorted(views, key=lambda view: (view.topic, view.partition, view.start)))
