"""The files of a run: for its later steps, for a retry, and for people."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import ClassVar, Final, TypeVar

from kafka_ferry.as_json import AsJson
from kafka_ferry.clock import now_ms
from kafka_ferry.errors import FerryError, GroupsFailed, NotApplied
from kafka_ferry.groups.moves import GroupMoves, lost_since
from kafka_ferry.model import Plan, read_plan, save_plan
from kafka_ferry.model.results.failures import RangesFailed
from kafka_ferry.model.results.steps import StepPart, StepRecord
from kafka_ferry.report.measures import VerifiedUntil
from kafka_ferry.report.run_report import RunReport
from kafka_ferry.report.summary import RunSummary
from kafka_ferry.runs.state.history import remember
from kafka_ferry.runs.state.stored_recounts import StoredRecounts, recounts_of
from kafka_ferry.state import StateFolder, folder_name
from kafka_ferry.verify import PartitionRow, RangeRow, TopicRow, Verdict

log = logging.getLogger(__name__)

_DAMAGED: Final = "No run has written it so. Find out who writes there, delete it, and run again."
_T = TypeVar("_T", bound=AsJson)
STEPS: Final = ("plan", "sync_topics", "mirror", "verify", "sync_groups", "publish")
"""A run's steps, in their order."""
REPORT: Final = "report.html"
REPORT_DATA: Final = "report.json"
GROUPS_SEEN: Final = "groups-seen.json"
RECONCILIATION: Final = "reconciliation.json"
_GROUPS: Final = "groups.json"
_VERIFIED: Final = "verified-until.json"
_APPROVED_BY: Final = "approved-by.txt"
# What the files of a step and of its shards begin with.
_OF_PARTS: Final = ("step", "attempt", "recounts")


@dataclass(frozen=True)
class Reconciliation(AsJson):
    """The reconciliation table and the expectations' results on it.

    Attributes:
        ranges: the ranges that were read back.
        partitions: their partitions.
        verdict: the results.
        topics: the remote topics.
        oldest_proof: when the range was read back that was not read for the longest time, in milliseconds
            since 1970; 0 where that is not known.
    """

    WHAT: ClassVar = "a reconciliation"

    ranges: tuple[RangeRow, ...] = ()
    partitions: tuple[PartitionRow, ...] = ()
    verdict: Verdict | None = None
    topics: tuple[TopicRow, ...] = ()
    oldest_proof: int = 0


class RunFolder:
    """The files of one run.

    Args:
        runs: the flow's folder of runs.
        run: the run's id (``folder_name`` makes the folder's name of it); "" for the files beside the runs only.

    Attributes:
        files: the folder itself.
        recounts: what was read back before the step ``verify``, for it.
    """

    def __init__(self, runs: StateFolder, run: str) -> None:
        self._runs = runs
        self.files = runs.folder(folder_name(run) if run else "")
        self.recounts = StoredRecounts(self.files)

    @property
    def report_path(self) -> Path | None:
        """The report page on this machine, None if there is none."""
        local = self.files.local_path
        return local / REPORT if local and (local / REPORT).exists() else None

    @property
    def report_address(self) -> str:
        """Where the report page is, or would be: a path of this machine, or a URI without the store's options."""
        return str(self.files.local_path or self.files.uri.rstrip("/")) + f"/{REPORT}"

    @contextmanager
    def step(self, step: str, shard: int | None = None) -> Iterator[None]:
        """Record how a step or its shard ended, whatever happens, unless it was restarted meanwhile.

        A process that has outlived its task may end long after another one has finished the step.
        """
        self.forget(step, shard=shard)
        part, attempt = StepPart(step, shard), uuid.uuid4().bytes
        self.files.write(_attempt(part), attempt)
        began = monotonic()
        raised: BaseException | None = None
        try:
            yield
        except BaseException as error:
            raised = error
            raise
        finally:
            record = _record(part, round(monotonic() - began, 3), raised)
            if self.files.read(_attempt(part)) == attempt:
                self.files.write(_record_of(part), record.to_json())

    def forget(self, *steps: str, shard: int | None = None) -> None:
        """Forget how steps, or a shard of them, ended and what they found, since they are about to be repeated."""
        names = self.files.names()
        files = (_record_of, _attempt, recounts_of)
        theirs = {name(StepPart(step, shard)) for step in steps for name in files}
        if shard is None:
            of_shards = tuple(f"{kind}-{step}-" for step in steps for kind in _OF_PARTS)
            theirs |= {name for name in names if name.startswith(of_shards)}
        if "plan" in steps:
            # The next one is not approved yet.
            theirs.add(_APPROVED_BY)
        if "verify" in steps:
            # Otherwise an old verdict would be in the report of a verification that never got to one.
            theirs.add(RECONCILIATION)
        if "sync_groups" in steps:
            theirs.add(_GROUPS)
        # In a store, to delete what is not there takes requests too.
        self.files.delete(theirs.intersection(names))

    def step_record(self, step: str, shard: int | None = None) -> StepRecord | None:
        """How a step or its shard ended the last time, None if it never did.

        For a step with shards, the records of all shards that have ended, as one.
        """
        record = self._load(_record_of(StepPart(step, shard)), StepRecord)
        if record or shard is not None:
            return record
        return _together(step, self.step_records(f"{step}-"))

    def step_records(self, beginning: str = "") -> list[StepRecord]:
        """How steps and shards ended, by shard.

        Args:
            beginning: that of the names of their parts.
        """
        names = self.files.names(".json")
        records = (
            self._load(name, StepRecord) for name in names if name.startswith(f"step-{beginning}")
        )
        return sorted(filter(None, records), key=lambda record: record.part.shard or 0)

    def failure(self, step: str, shard: int | None = None) -> FerryError | None:
        """What a step or its shard raised the last time, None if it succeeded or never ended."""
        record = self.step_record(step, shard)
        return record.failure if record else None

    def save_plan(self, plan: Plan) -> None:
        """Store the plan for the later steps."""
        save_plan(self.files, plan)

    def plan(self) -> Plan:
        """The run's plan.

        Raises:
            FerryError: if the run was not planned.
        """
        return read_plan(self.files)

    def known_plan(self) -> Plan | None:
        """The run's plan; None if it was not planned, or the file is damaged."""
        try:
            return self.plan()
        except FerryError:
            return None

    def save_approval(self, user: str, digest: str) -> None:
        """Store who has approved the plan with that digest."""
        self.files.write(_APPROVED_BY, f"{digest}\n{user}".encode())

    def approver(self) -> str:
        """Who has approved a plan; "" if that was not asked for."""
        return self._approval()[1]

    def approved_digest(self) -> str:
        """The digest of the plan that a user has approved: the run may be planned again while the answer comes."""
        return self._approval()[0]

    def _approval(self) -> tuple[str, str]:
        digest, _, user = (self.files.read(_APPROVED_BY) or b"").decode().partition("\n")
        return digest, user

    def save_reconciliation(self, reconciliation: Reconciliation) -> None:
        """Store what the verification found."""
        self.files.write(RECONCILIATION, reconciliation.to_json())

    def reconciliation(self) -> Reconciliation | None:
        """What the verification found, None if there was none."""
        return self._load(RECONCILIATION, Reconciliation)

    def report(self) -> RunReport | None:
        """The run's report, None if it was not published."""
        return self._load(REPORT_DATA, RunReport)

    def save_groups(self, moves: GroupMoves) -> None:
        """Store what became of the groups; also next to the runs, for when the source is gone."""
        self.files.write(_GROUPS, moves.to_json())
        if moves.groups:
            earlier = self.groups_seen()
            with_gone = replace(moves, gone=lost_since(earlier, moves)) if earlier else moves
            self._runs.write(GROUPS_SEEN, with_gone.to_json())

    def groups(self) -> GroupMoves | None:
        """What became of the groups, None if no step has read them."""
        return self._load(_GROUPS, GroupMoves)

    def groups_seen(self) -> GroupMoves | None:
        """The groups as the flow's last run that read any found them; None if no run did."""
        return self._load_beside(GROUPS_SEEN, GroupMoves)

    def save_verified_until(self, verified: VerifiedUntil) -> None:
        """Store until when the flow's copy was proved complete, next to the runs."""
        self._runs.write(_VERIFIED, verified.to_json())

    def verified_until(self) -> VerifiedUntil:
        """Until when the copy was proved complete, by the last run that was measured."""
        stored = self._load_beside(_VERIFIED, VerifiedUntil) or VerifiedUntil()
        return stored.known_at(now_ms())

    def remember(self, summary: RunSummary) -> None:
        """Add the run to the flow's history, next to the runs."""
        remember(self._runs, summary)

    def _load_beside(self, name: str, kind: type[_T]) -> _T | None:
        """Reads a file next to the runs: a damaged one must not fail every run."""
        stored = self._runs.read(name)
        try:
            return None if stored is None else kind.from_json(stored)
        except FerryError as error:
            log.warning("%s in %s is ignored: %s", name, self._runs.location, error)
            return None

    def _load(self, name: str, kind: type[_T]) -> _T | None:
        stored = self.files.read(name)
        try:
            return None if stored is None else kind.from_json(stored)
        except FerryError as error:
            reason = f"{name} in {self.files.location} cannot be read: {error.message}"
            raise FerryError(reason, advice=_DAMAGED) from error


def _together(step: str, parts: Sequence[StepRecord]) -> StepRecord | None:
    """The records of a step's shards as one: they run in parallel."""
    if not parts:
        return None
    failed = [part for part in parts if part.error is not None]
    return StepRecord(
        StepPart(step),
        seconds=max(part.seconds for part in parts),
        error="\n".join(part.error or "" for part in failed) if failed else None,
        failures=tuple(chain.from_iterable(part.failures for part in failed)),
        refused=tuple(chain.from_iterable(part.refused for part in failed)),
        details=tuple(dict.fromkeys(chain.from_iterable(part.other_errors for part in failed))),
        transient=bool(failed) and all(part.transient for part in failed),
        exit_code=failed[0].exit_code if failed else 0,
    )


def _record_of(part: StepPart) -> str:
    """The file that says how a step or shard ended."""
    return f"step-{part}.json"


def _attempt(part: StepPart) -> str:
    """The file that names the last attempt at a step or shard."""
    return f"attempt-{part}"


def _record(part: StepPart, seconds: float, raised: BaseException | None) -> StepRecord:
    if raised is None:
        return StepRecord(part, seconds)
    if not isinstance(raised, FerryError):
        text = f"{type(raised).__name__}: {raised}"
        return StepRecord(part, seconds, text, transient=True, exit_code=1)
    record = StepRecord(
        part, seconds, str(raised), transient=raised.transient, exit_code=raised.exit_code
    )
    if isinstance(raised, RangesFailed):
        return replace(record, failures=raised.failures, refused=raised.refused)
    if isinstance(raised, GroupsFailed | NotApplied):
        return replace(record, details=raised.failures)
    return record
