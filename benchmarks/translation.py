"""Times the offset map of a million segments: ``python -m benchmarks.translation``. Needs no broker."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from kafka_ferry.batches import Segment
from kafka_ferry.groups.translation import OffsetMap
from kafka_ferry.ledger import CopiedRange


def ranges(segments: int, per_range: int) -> list[CopiedRange]:
    """A history in which every other offset has a record, and each range ends with a marker."""
    return [
        CopiedRange.model_construct(
            start=2 * some[0],
            end=2 * (some[-1] + 1),
            records=len(some),
            bytes=0,
            digest="",
            rewound_from=-1,
            batches=1,
            preserved=False,
            segments=tuple(Segment(2 * at, at + number, 1) for at in some),
        )
        for number, some in enumerate(
            range(first, min(first + per_range, segments))
            for first in range(0, segments, per_range)
        )
    ]


def main(
    segments: Annotated[int, typer.Option(help="In one partition.")] = 1_000_000,
    questions: Annotated[int, typer.Option(help="Spread over its history.")] = 100_000,
) -> None:
    """Prints how long the map takes to be made, and to be asked in both directions."""
    copied = ranges(segments, per_range=1_000)
    began = time.perf_counter()
    made = OffsetMap.of(copied)
    print(f"{time.perf_counter() - began:8.3f} s    made of {segments:,} segments")
    for direction, ask in (("source to target", made.translate), ("back", made.reverse)):
        began = time.perf_counter()
        ask(0)
        first = time.perf_counter() - began
        step = max(1, segments // questions)
        began = time.perf_counter()
        for offset in range(0, segments, step):
            ask(offset)
        each = (time.perf_counter() - began) / (segments // step)
        print(f"{first:8.3f} s    first question, {direction}")
        print(f"{each * 1e6:8.1f} us   each further one")


if __name__ == "__main__":
    typer.run(main)
