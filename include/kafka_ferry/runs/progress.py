"""Progress of a copy, seen from the positions that the writers commit on the target."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from kafka_ferry.config import Flow
from kafka_ferry.control import read_positions
from kafka_ferry.errors import FerryError
from kafka_ferry.plan import Plan

_EVERY_S: Final = 1.0


@contextmanager
def copying(flow: Flow, plan: Plan, console: Console, *, hidden: bool = False) -> Iterator[None]:
    """Show a bar of the planned offsets while the body copies them.

    Args:
        flow: the flow.
        plan: what is being copied.
        console: where to draw.
        hidden: whether to draw nothing.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("offsets"),
        TimeRemainingColumn(),
    )
    ended = threading.Event()
    with Progress(*columns, console=console, disable=hidden or not plan.offsets) as progress:
        task = progress.add_task(flow.name, total=plan.offsets)

        def watch() -> None:
            while not ended.wait(_EVERY_S):
                progress.update(task, completed=_done(flow, plan))

        watcher = threading.Thread(target=watch, name="progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            progress.update(task, completed=_done(flow, plan))


def _done(flow: Flow, plan: Plan) -> int:
    """Planned offsets that the positions have passed; 0 while the target does not say."""
    try:
        positions = read_positions(flow.target, flow.name)
    except FerryError:
        return 0
    done = 0
    for range_ in plan.ranges:
        position = positions.get(range_.target)
        if position:
            done += min(max(position.offset - range_.start, 0), len(range_))
    return done
