"""What a verification found wrong with ranges, and what can be done about each: a person decides.

Nothing can be put back in its place on the target. What is missing can be appended (``append_missing``); a
range can be left as it is, which the ledger records; or its remote topic can be given up and copied again
(``give_up``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kafka_ferry.clock import run_id_now
from kafka_ferry.config.types.problems import did_you_mean
from kafka_ferry.errors import FerryError, InputError
from kafka_ferry.runs.repair.accept import accept_ranges
from kafka_ferry.runs.repair.append_missing import AppendMissing
from kafka_ferry.runs.repair.give_up import Repair
from kafka_ferry.runs.state.newest_verification import newest_verification
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.verify.checks import Check, decisive
from kafka_ferry.verify.counts import count
from kafka_ferry.verify.rows import key_of
from kafka_ferry.verify.verdict import COVERED

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.verify import RangeRow

# What else is wrong with a range cannot be left: other producers' records would count as the flow's own.
_CAN_BE_LEFT: Final = frozenset({"counts", "digests"})
# What fails them are other producers' records around the ranges.
_OF_OTHERS: Final = frozenset({"beyond", "before"})
# For a proposal, both clusters' records of the range are read.
_MOST_PROPOSED: Final = 20


@dataclass(frozen=True, slots=True)
class RangeFinding:
    """A range that is no longer what was copied.

    Attributes:
        name: its partition and first offset on the source, as a person names it: ``orders-3:120``.
        range: the range in words.
        remote_topic: the topic on the target.
        run: the run that copied it.
        ledger_offset: the ledger's record of it.
        problems: what is wrong with it, a sentence each.
        missing: how many of its records are missing for no known reason.
        leave: what leaving it means; "" where it cannot be left.
        rebuild: what copying the topic again means; "" where the flow does not know the topic any more.
        append: what appending the missing records means; "" where that is not possible.
        no_append: why it is not; "" where it is, or nothing is missing.
        is_read: whether it was read back; where it was not, nothing is known to be wrong.
    """

    name: str
    range: str
    remote_topic: str
    run: str
    ledger_offset: int
    problems: tuple[str, ...]
    missing: int
    leave: str = ""
    rebuild: str = ""
    append: str = ""
    no_append: str = ""
    is_read: bool = True


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """A check that failed the verification, of more than a range: what lies after the last one, groups, a user's own.

    Attributes:
        problems: for what it is not true, a sentence each.
        advice: what to do.
        more: what copying the topics again means in which other producers' records lie, or why the run stopped, a text
            each.
    """

    problems: tuple[str, ...]
    advice: str
    more: tuple[str, ...] = ()


class Findings:
    """What the last verification found wrong with ranges.

    Raises:
        FerryError: there was no verification, or its files are gone.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        verification = newest_verification(flow)
        if verification is None:
            raise FerryError(f"No run of {flow.name} was verified.", advice="Run it first.")
        self._verification = verification
        reconciliation = verification.reconciliation
        checks = decisive("ranges", reconciliation.verdict)
        self._rows = {
            _name(row): (row, failed)
            for row in reconciliation.ranges
            if (failed := [check for check in checks if not check.holds(row)])
        }

    @property
    def run_id(self) -> str:
        """The run whose verification it is."""
        return self._verification.run_id

    def of_ranges(self) -> list[RangeFinding]:
        """All findings, each with what can be done about it; the clusters are asked for what that means.

        Raises:
            FerryError: a cluster cannot be read.
        """
        rows = [row for row, _ in self._rows.values()]
        rebuilding = self._rebuild_texts({row.remote_topic for row in rows if row.recount.is_read})
        findings = [
            (row, _finding(row, failed, rebuilding.get(row.remote_topic, "")))
            for row, failed in self._rows.values()
        ]
        if not any(finding.missing for _, finding in findings):
            return [finding for _, finding in findings]
        appending = AppendMissing(self._flow)
        return [
            self._with_append(appending, row, finding)
            if number < _MOST_PROPOSED
            else replace(
                finding, append=f"ferry repair --append {finding.name} says what it means."
            )
            for number, (row, finding) in enumerate(findings)
        ]

    def of_checks(self) -> list[CheckFinding]:
        """The other checks that failed it; the clusters are asked for what copying again means.

        Raises:
            FerryError: a cluster cannot be read.
        """
        rows = self._verification.reconciliation.partitions
        foreign = sorted(
            {row.remote_topic for row in rows if row.log.target_beyond or row.log.target_before}
        )
        failed = list(self._verification.failed_checks())
        is_foreign = any(check.key in _OF_OTHERS for check in failed)
        texts = tuple(self._rebuild_texts(foreign).values()) if is_foreign else ()
        more = dict.fromkeys(_OF_OTHERS, texts) | {COVERED: self._verification.stopped}
        return [
            CheckFinding(check.sentences, check.advice, more.get(check.key, ())) for check in failed
        ]

    def require(self, names: Sequence[str]) -> None:
        """Check that each name is of a finding.

        Raises:
            InputError: one is not.
        """
        for name in names:
            if name not in self._rows:
                listed = ", ".join(self._rows) or "nothing"
                raise InputError(
                    f"The verification of {self.run_id} found nothing wrong with {name}.",
                    advice=did_you_mean(name, self._rows) or f"It found: {listed}.",
                )

    def leave(self, names: Sequence[str], reason: str) -> list[RangeFinding]:
        """Record that ranges are left as they are: they fail no verification as long as nothing more changes.

        Args:
            names: of the findings.
            reason: why, for those who read the ledger.

        Raises:
            FerryError: a name is of no finding, or the finding cannot be left; or the ledger cannot be
                written. Nothing is recorded then.
        """
        self.require(names)
        chosen = []
        for name in names:
            finding = _finding(*self._rows[name], "")
            if not finding.leave:
                problems = "; ".join(finding.problems)
                raise FerryError(
                    f"{name} cannot be left as it is: {problems}.",
                    advice=f"`ferry repair --topic {finding.remote_topic}` shows what copying it again means.",
                )
            chosen.append(finding)
        rows = [self._rows[name][0] for name in names]
        repair = RunContext.of(self._flow, run_id_now("repair"))
        accept_ranges(repair, rows, reason)
        return chosen

    @staticmethod
    def _with_append(
        appending: AppendMissing, row: RangeRow, finding: RangeFinding
    ) -> RangeFinding:
        if not finding.missing:
            return finding
        proposal = appending.proposal_at(key_of(row))
        text = " ".join(proposal.consequences)
        return replace(finding, append=text, no_append=proposal.refusal)

    def _rebuild_texts(self, names: Collection[str]) -> dict[str, str]:
        """By remote topic, what copying it again means."""
        if not names:
            return {}
        states = Repair(self._flow).look(sorted(names))
        return {state.remote_topic: state.consequences(yes=False) for state in states}


def _name(row: RangeRow) -> str:
    return f"{row.source}:{row.start}"


def _finding(row: RangeRow, failed: Sequence[Check[Any]], rebuild: str) -> RangeFinding:
    # Of a range that was not read back, nothing is known to be missing.
    missing = max(0, row.ledger.copied - row.recount.found) if row.recount.is_read else 0
    can_be_left = {check.key for check in failed} <= _CAN_BE_LEFT and not row.recount.gone
    return RangeFinding(
        name=_name(row),
        range=str(row),
        remote_topic=row.remote_topic,
        run=row.ledger.run,
        ledger_offset=row.ledger.ledger_offset,
        problems=tuple(check.explain(row) for check in failed),
        missing=missing,
        leave=_leave_text(row, missing) if can_be_left else "",
        rebuild=rebuild if row.recount.is_read else "",
        is_read=row.recount.is_read,
    )


def _leave_text(row: RangeRow, missing: int) -> str:
    has = f"{row.recount.target_records:,} of {count(row.ledger.copied, 'record')}"
    what = (
        f"{count(missing, 'record')} stay missing for every consumer of {row.remote_topic}"
        if missing
        else f"consumers of {row.remote_topic} get other bytes than the source's"
    )
    return (
        f"Nothing is written to {row.remote_topic}: all records keep their order and offsets, and {what}. "
        f"The ledger records that {row} has {has} there. No verification fails for that any more, unless "
        "the range changes again."
    )
