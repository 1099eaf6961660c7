"""The ledger's accounts: how many source offsets were copied, and why the others have no record, in sums."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_ferry.ledger.rows import copied_rows

if TYPE_CHECKING:
    from kafka_ferry.ledger.table import LedgerTable

By = Literal["run", "topic", "partition"]
_COLUMNS: Final = ["type", "at", "start", "end", "records", "rewound_from", "reasons"]
_SUMS: Final = ("offsets", "copied", "rewound", "rewinds")
_BACKFILL: Final = "backfill"


@dataclass(frozen=True, slots=True)
class Account:
    """What the ledger says of the source offsets of a run, a topic or a partition.

    ``offsets`` is always ``copied`` and all reasons together, unless the ledger contradicts itself. A
    backfill reads offsets that the flow's own runs have read too, so the two are never summed.

    Attributes:
        name: the run, the topic or the partition's number.
        backfill: whether it is of backfills only; else of none.
        first_at: when the first of its transactions was committed, in milliseconds since 1970.
        last_at: when the last one was.
        offsets: source offsets.
        copied: those that are records on the target, or were.
        rewound: offsets that had been copied from a branch of the log that the source has since lost.
        rewinds: how many times that has happened.
        reasons: the other offsets, by reason.
    """

    name: str
    backfill: bool = False
    first_at: int = 0
    last_at: int = 0
    offsets: int = 0
    copied: int = 0
    rewound: int = 0
    rewinds: int = 0
    reasons: dict[str, int] = field(default_factory=dict, hash=False)


def accounts(
    ledger: LedgerTable, by: By, *, topic: str | None = None, partition: int | None = None
) -> list[Account]:
    """The accounts, by the time of their first transaction.

    Args:
        ledger: the ledger, as it was last projected.
        by: of what there is an account each; a second one where there are backfills too.
        topic: only this topic of the source; None for all.
        partition: only this partition of it; None for all.
    """
    wanted = copied_rows()
    if topic is not None:
        wanted &= pc.field("topic") == topic
    if partition is not None:
        wanted &= pc.field("partition") == partition
    rows = ledger.read(wanted, [*_COLUMNS, by]).combine_chunks()
    table = _summable(rows, by)
    sums = [(name, "sum") for name in _SUMS]
    grouped = table.group_by(["name", "backfill"], use_threads=False).aggregate(
        [*sums, ("at", "min"), ("at", "max")]
    )
    reasons: dict[tuple[str, bool], dict[str, int]] = defaultdict(dict)
    for row in sums_of_reasons(table, ["name", "backfill"]):
        of = reasons[row["name"], row["backfill"]]
        of[row["reason"]] = of.get(row["reason"], 0) + row["offsets_sum"]
    unsorted = [
        Account(
            row["name"],
            row["backfill"],
            row["at_min"],
            row["at_max"],
            offsets=row["offsets_sum"],
            copied=row["copied_sum"],
            rewound=row["rewound_sum"],
            rewinds=row["rewinds_sum"],
            reasons=reasons[row["name"], row["backfill"]],
        )
        for row in grouped.to_pylist()
    ]
    return sorted(unsorted, key=lambda account: (account.first_at, account.name))


def _summable(rows: pa.Table, by: By) -> pa.Table:
    is_rewind = pc.greater_equal(rows["rewound_from"], 0)
    cut = pc.max_element_wise(pc.subtract(rows["rewound_from"], rows["start"]), 0)
    return pa.table(
        {
            "name": pc.cast(rows[by], pa.string()),
            "backfill": pc.equal(rows["type"], _BACKFILL),
            "at": rows["at"],
            "offsets": pc.subtract(rows["end"], rows["start"]),
            "copied": rows["records"],
            "rewound": pc.if_else(is_rewind, cut, 0),
            "rewinds": pc.cast(is_rewind, pa.int64()),
            "reasons": rows["reasons"],
        }
    )


def sums_of_reasons(table: pa.Table, keys: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The sums of ``reasons`` by ``keys``, a row for each reason; several rows for a very long table."""
    for batch in table.select([*keys, "reasons"]).to_batches():
        reasons = batch.column("reasons")
        ends = reasons.offsets.to_numpy()
        rows = pa.array(np.repeat(np.arange(len(reasons)), np.diff(ends)))
        flat = {name: batch.column(name).take(rows) for name in keys}
        flat["reason"] = reasons.keys.slice(ends[0], ends[-1] - ends[0])
        flat["offsets"] = reasons.items.slice(ends[0], ends[-1] - ends[0])
        by_reason = pa.table(flat).group_by([*keys, "reason"], use_threads=False)
        sums = by_reason.aggregate([("offsets", "sum")])
        yield from sums.to_pylist()
