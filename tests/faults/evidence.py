"""What to know of a partition that differs: which records, and what the ledger says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from kafka_sandbox.broker import Broker
from tests.support.builders import ConsumedRecord, read_all
from tests.support.flows import content

_AROUND = 60


def differences(
    source: Broker,
    topic: str,
    target: Broker,
    remote_topic: str,
    ledger: Sequence[dict[str, object]],
) -> Iterator[str]:
    """Lines about each partition of ``topic`` whose records differ; none where all is well."""
    here, there = read_all(source.bootstrap, topic), read_all(target.bootstrap, remote_topic)
    want, have = content(here), content(there)
    for number in sorted(want):
        left, right = want[number], have.get(number, [])
        if left == right:
            continue
        lost, extra = Counter(left) - Counter(right), Counter(right) - Counter(left)
        yield (
            f"{topic}-{number}: {len(left)} records on the source, {len(right)} on the target, "
            f"{lost.total()} lost, {extra.total()} too many"
        )
        at = next(
            (at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b),
            min(len(left), len(right)),
        )
        yield from _steps(here[number][at:], there.get(number, [])[at:])
        for row in sorted(
            (row for row in ledger if (row["topic"], row["partition"]) == (topic, number)),
            key=lambda row: (row["start"], row["end"]),
        )[:_AROUND]:
            shown = ("ledger_offset", "run", "writer", "start", "end", "records", "segments")
            yield f"  ledger: { {name: row[name] for name in shown} }"


def _steps(left: Sequence[ConsumedRecord], right: Sequence[ConsumedRecord]) -> Iterator[str]:
    """How to make the source's records from the target's, by offsets, from the first difference on."""
    a, b = ([(r.key, r.value, r.timestamp) for r in side[:3000]] for side in (left, right))
    for kind, i, j, k, m in SequenceMatcher(None, a, b, autojunk=False).get_opcodes()[:_AROUND]:
        yield f"  {kind}: source {_offsets(left[i:j])}, target {_offsets(right[k:m])}"


def _offsets(records: Sequence[ConsumedRecord]) -> str:
    return f"[{records[0].offset}..{records[-1].offset}]" if records else "nothing"
