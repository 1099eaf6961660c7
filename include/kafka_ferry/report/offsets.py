"""A flow's source offsets over time, as what is plotted: copied records and each reason, run by run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafka_ferry.batches import Reason
from kafka_ferry.ledger.accounts import Account

MOST_BARS: Final = 120
UNACCOUNTED: Final = "unaccounted"
"""In the place of a reason: offsets for which the ledger has none, which is a fault."""


@dataclass(frozen=True, slots=True)
class OffsetsBar:
    """One bar of the picture: a run, or all runs of a stretch of time where there are many.

    Attributes:
        at: when its last transaction was committed, in milliseconds since 1970.
        runs: how many runs it has.
        run: the last one.
        backfill: whether it is of backfills, which read offsets that other bars have too.
        offsets: source offsets: ``copied`` and all ``reasons`` together.
        copied: records copied.
        lost: offsets that were deleted on the source before they were copied, which are among the reasons.
        rewinds: how many times the source's log was truncated below what had been copied.
        rewound: how many offsets had been copied from there.
        reasons: the offsets without a record, by reason.
    """

    at: int
    runs: int
    run: str
    backfill: bool
    offsets: int
    copied: int
    lost: int = 0
    rewinds: int = 0
    rewound: int = 0
    reasons: dict[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class OffsetsRow:
    """A topic or a partition below the picture.

    Attributes:
        name: the topic, or the partition's number.
        partition: the same as a number, -1 for a topic.
        offsets: source offsets that the flow's own runs have accounted for.
        copied: those that are records on the target, or were.
        left_out: those without a record.
        lost: of these, those that were deleted on the source before they were copied.
        rewinds: how many times the source's log was truncated below what had been copied.
        backfilled: offsets that backfills have read.
        last_at: when the last transaction was committed, in milliseconds since 1970.
        reasons: the offsets without a record, by reason.
    """

    name: str
    partition: int
    offsets: int
    copied: int
    left_out: int
    lost: int
    rewinds: int
    backfilled: int
    last_at: int
    reasons: dict[str, int] = field(default_factory=dict, hash=False)


def bars(accounts: Sequence[Account], most: int = MOST_BARS) -> list[OffsetsBar]:
    """The bars of a picture, by time.

    Args:
        accounts: of runs; those of backfills keep bars of their own.
        most: how many bars there may be, and as many of backfills.
    """
    result = []
    for kind in (False, True):
        of_kind = [account for account in accounts if account.backfill is kind]
        result += [_bar(some) for some in _by_time(of_kind, most)]
    return sorted(result, key=lambda bar: (bar.at, bar.backfill))


def _by_time(accounts: Sequence[Account], most: int) -> Iterable[list[Account]]:
    """The accounts by themselves, or those of equal stretches of time where there are too many."""
    ascending = sorted(accounts, key=lambda account: account.last_at)
    if len(ascending) <= most:
        return [[account] for account in ascending]
    first = ascending[0].last_at
    step = max(1, -(-(ascending[-1].last_at - first + 1) // most))
    stretches: dict[int, list[Account]] = {}
    for account in ascending:
        stretches.setdefault((account.last_at - first) // step, []).append(account)
    return stretches.values()


def _bar(accounts: Sequence[Account]) -> OffsetsBar:
    last = accounts[-1]
    reasons = _told_reasons(accounts)
    return OffsetsBar(
        at=last.last_at,
        runs=len(accounts),
        run=last.name,
        backfill=last.backfill,
        offsets=sum(account.offsets for account in accounts),
        copied=sum(account.copied for account in accounts),
        lost=reasons.get(Reason.LOST, 0),
        rewinds=sum(account.rewinds for account in accounts),
        rewound=sum(account.rewound for account in accounts),
        reasons=reasons,
    )


def offset_rows(accounts: Iterable[Account], *, are_partitions: bool) -> list[OffsetsRow]:
    """The rows of topics, by name, or of partitions, by number."""
    own: dict[str, Account] = {}
    backfills: dict[str, Account] = {}
    for account in accounts:
        (backfills if account.backfill else own)[account.name] = account
    rows = []
    for name in own.keys() | backfills.keys():
        account = own.get(name, Account(name))
        reasons = _told_reasons([account])
        rows.append(
            OffsetsRow(
                name=name,
                partition=int(name) if are_partitions else -1,
                offsets=account.offsets,
                copied=account.copied,
                left_out=sum(reasons.values()),
                lost=reasons.get(Reason.LOST, 0),
                rewinds=account.rewinds,
                backfilled=backfills[name].offsets if name in backfills else 0,
                last_at=max(
                    by_name[name].last_at for by_name in (own, backfills) if name in by_name
                ),
                reasons=reasons,
            )
        )
    return sorted(rows, key=lambda row: (row.partition, row.name))


def _told_reasons(accounts: Iterable[Account]) -> dict[str, int]:
    """The sums of the reasons, so that they and the copied records are all offsets."""
    reasons, rest = Counter[str](), 0
    for account in accounts:
        reasons.update(account.reasons)
        rest += account.offsets - account.copied - sum(account.reasons.values())
    counts = {reason: count for reason, count in sorted(reasons.items()) if count}
    return counts | ({UNACCOUNTED: rest} if rest else {})
