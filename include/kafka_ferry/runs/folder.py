"""What a run leaves in its folder: for its later steps, for a retry, and for people."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import ClassVar, Final, TypeVar

import regex

from kafka_ferry.as_json import AsJson
from kafka_ferry.errors import FerryError, GroupsFailed, RangesFailed, StepFailed
from kafka_ferry.groups.moves import GroupMoves
from kafka_ferry.plan import Plan, read_plan, save_plan
from kafka_ferry.report.measures import VerifiedUntil
from kafka_ferry.state import StateFolder
from kafka_ferry.verify import PartitionRow, RangeRow, Verdict

_T = TypeVar("_T", bound=AsJson)
REPORT: Final = "report.html"
_RECONCILIATION: Final = "reconciliation.json"
_GROUPS: Final = "groups.json"
_GROUPS_SEEN: Final = "groups-seen.json"
_VERIFIED: Final = "verified-until.json"


@dataclass(frozen=True, slots=True)
class StepRecord(AsJson):
    """How a step ended.

    Attributes:
        seconds: how long it took.
        error: what it raised, None if it succeeded.
        failures: the same, a sentence for each partition or group where it concerns some.
        transient: whether the same step may succeed later without a change.
        exit_code: the command line's exit status for the error, 0 without one.
    """

    WHAT: ClassVar = "the record of a step"

    seconds: float
    error: str | None = None
    failures: tuple[str, ...] = ()
    transient: bool = False
    exit_code: int = 0


@dataclass(frozen=True)
class Reconciliation(AsJson):
    """The reconciliation table and what the expectations said of it."""

    WHAT: ClassVar = "a reconciliation"

    ranges: tuple[RangeRow, ...] = ()
    partitions: tuple[PartitionRow, ...] = ()
    verdict: Verdict | None = None


class RunFolder:
    """The files of one run.

    Args:
        runs: the flow's folder of runs.
        run: the run's id; characters that some file system forbids are replaced in the folder's name.
    """

    def __init__(self, runs: StateFolder, run: str) -> None:
        self._runs = runs
        self.files = runs.folder(regex.sub(r"[^A-Za-z0-9._-]", "-", run))

    @property
    def report_path(self) -> Path | None:
        """The report page on this machine, None if there is none."""
        local = self.files.local_path
        return local / REPORT if local and (local / REPORT).exists() else None

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Record how the step ``name`` ended, whatever happens."""
        self.forget(name)
        began = monotonic()
        raised: BaseException | None = None
        try:
            yield
        except BaseException as error:
            raised = error
            raise
        finally:
            record = _record(round(monotonic() - began, 3), raised)
            self.files.write(f"step-{name}.json", record.to_json())

    def forget(self, *steps: str) -> None:
        """Forget how steps ended and what they found, since they are about to be repeated."""
        self.files.delete(f"step-{step}.json" for step in steps)
        if "verify" in steps:
            # An older verdict would stand in the report of a verification that never got to one.
            self.files.delete([_RECONCILIATION])
        if "sync_groups" in steps:
            self.files.delete([_GROUPS])

    def step_record(self, name: str) -> StepRecord | None:
        """How the step ended the last time, None if it never did."""
        return self._load(f"step-{name}.json", StepRecord)

    def failure(self, name: str) -> FerryError | None:
        """What the step raised the last time, None if it succeeded or never ended."""
        record = self.step_record(name)
        if record is None or record.error is None:
            return None
        return StepFailed(record.error, transient=record.transient, exit_code=record.exit_code)

    def save_plan(self, plan: Plan) -> None:
        """Store the plan for the later steps."""
        save_plan(self.files, plan)

    def plan(self) -> Plan:
        """The run's plan.

        Raises:
            FerryError: if the run was not planned.
        """
        return read_plan(self.files)

    def save_reconciliation(self, found: Reconciliation) -> None:
        """Store what the verification found."""
        self.files.write(_RECONCILIATION, found.to_json())

    def reconciliation(self) -> Reconciliation | None:
        """What the verification found, None if there was none."""
        return self._load(_RECONCILIATION, Reconciliation)

    def save_groups(self, moves: GroupMoves) -> None:
        """Store what became of the groups; beside the runs too, for when the source is gone."""
        stored = moves.to_json()
        self.files.write(_GROUPS, stored)
        if moves.groups:
            self._runs.write(_GROUPS_SEEN, stored)

    def groups(self) -> GroupMoves | None:
        """What became of the groups, None if nobody has looked at them."""
        return self._load(_GROUPS, GroupMoves)

    def groups_seen(self) -> GroupMoves | None:
        """The groups as the last run of the flow that saw any found them; None if none ever did."""
        stored = self._runs.read(_GROUPS_SEEN)
        return None if stored is None else GroupMoves.from_json(stored)

    def save_verified_until(self, verified: VerifiedUntil) -> None:
        """Store until when the flow's copy was proved complete, beside the runs."""
        self._runs.write(_VERIFIED, verified.to_json())

    def verified_until(self) -> VerifiedUntil:
        """Until when it was, by the last run that was measured."""
        stored = self._runs.read(_VERIFIED)
        return VerifiedUntil.from_json(stored) if stored else VerifiedUntil()

    def _load(self, name: str, kind: type[_T]) -> _T | None:
        stored = self.files.read(name)
        return None if stored is None else kind.from_json(stored)


def _record(seconds: float, raised: BaseException | None) -> StepRecord:
    if raised is None:
        return StepRecord(seconds)
    if isinstance(raised, FerryError):
        text = str(raised)
        failures: tuple[str, ...] = (text,)
        if isinstance(raised, RangesFailed | GroupsFailed):
            failures = raised.failures
        return StepRecord(seconds, text, failures, raised.transient, raised.exit_code)
    text = f"{type(raised).__name__}: {raised}"
    return StepRecord(seconds, text, (text,), transient=True, exit_code=1)
