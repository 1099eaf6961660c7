"""Shows a copy's progress: a bar on a terminal, or a few log lines and a table at the end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from kafka_ferry.clock import duration_text
from kafka_ferry.config import Flow
from kafka_ferry.errors import FerryError
from kafka_ferry.model import Plan
from kafka_ferry.model.waits import NO_WAITS
from kafka_ferry.report.plan_text import bytes_text, topics_table
from kafka_ferry.retry import retry_for
from kafka_ferry.runs.mirror.progress_counts import CopiedCounts, ProgressCounts

if TYPE_CHECKING:
    from kafka_ferry.runs.run import Run

log = logging.getLogger(__name__)

_BAR_EVERY_S: Final = 1.0
_LINES_EVERY_S: Final = 10.0
_LOOK_S: Final = 2.0
_LAST_LOOK_S: Final = 5.0
_TOPICS_AT_ONCE: Final = 10


@contextmanager
def progress_bar(
    flow: Flow, plan: Plan, console: Console, *, hidden: bool = False
) -> Iterator[None]:
    """Show a bar of the planned offsets while the body copies them.

    Args:
        flow: the flow.
        plan: what is being copied.
        console: where to draw; nothing is drawn where that is no terminal, but a file or a pipe.
        hidden: whether to draw nothing.
    """
    if hidden or not (plan.offsets and console.is_terminal):
        yield
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("offsets"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[waited]}", style="dim"),
    )
    tally = ProgressCounts(flow, plan)
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(flow.name, total=plan.offsets, waited="")

        def show() -> None:
            waited = tally.waits.text(flow.source.alias, flow.target.alias)
            progress.update(task, completed=tally.whole.done, waited=waited)

        with _watch(tally, _BAR_EVERY_S, show):
            yield


@contextmanager
def log_progress(run: Run, shard: int | None = None) -> Iterator[None]:
    """Write lines to the log while the body copies, and at the end a table of the topics.

    Args:
        run: the run; nothing is written for a run that was not planned.
        shard: which shard of it; None for all of it.
    """
    try:
        plan = run.stored_plan()
        tally = ProgressCounts(run.flow, plan, shard)
    except FerryError:
        # The step itself reports it.
        yield
        return
    if not tally.topics:
        yield
        return
    name = run.flow.name if shard is None else plan.shard_names[shard]
    lines = _Lines(name, tally, run.flow)
    try:
        with _watch(tally, _LINES_EVERY_S, lines.write):
            yield
    finally:
        for line in summary_lines(tally.topics):
            log.info("%s", line)


@contextmanager
def _watch(tally: ProgressCounts, every_s: float, show: Callable[[], None]) -> Iterator[None]:
    """Call ``show`` now and then while the body runs, and at its end."""
    ended = threading.Event()

    def look() -> None:
        # What cannot be read now, the next attempt may read.
        with suppress(FerryError), retry_for(_LOOK_S):
            tally.update()
        show()

    def watch() -> None:
        while not ended.wait(every_s):
            look()
        look()

    watcher = threading.Thread(target=watch, name="progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        # A cluster that does not answer is not waited for: this only shows something.
        watcher.join(_LAST_LOOK_S)


class _Lines:
    """Writes lines about what has changed since the last ones."""

    def __init__(self, name: str, tally: ProgressCounts, flow: Flow) -> None:
        self._name, self._tally = name, tally
        self._aliases = flow.source.alias, flow.target.alias
        self._last_waits = NO_WAITS
        self._began = self._last_at = time.monotonic()
        self._last: dict[str, tuple[int, int]] = dict.fromkeys(tally.topics, (0, 0))
        self._first: dict[str, int] = {}

    def write(self) -> None:
        """Write them: a line for each topic with progress, and one for the total."""
        now = time.monotonic()
        since_s, self._last_at = max(now - self._last_at, 0.001), now
        topics = self._tally.topics
        moved = [
            topic
            for topic, progress in topics.items()
            if self._last[topic] != (progress.done, progress.bytes)
        ]
        moved.sort(key=lambda topic: -topics[topic].bytes + self._last[topic][1])
        sent = sum(topics[topic].bytes - self._last[topic][1] for topic in moved)
        for topic in moved[:_TOPICS_AT_ONCE] if len(topics) > 1 else ():
            rate = (topics[topic].bytes - self._last[topic][1]) / since_s
            log.info("  %s", progress_line(topic, topics[topic], rate, self._left_s(topics[topic])))
        if len(moved) > _TOPICS_AT_ONCE:
            log.info("  and %d more topics", len(moved) - _TOPICS_AT_ONCE)
        whole = self._tally.whole
        name = self._name if len(topics) > 1 else f"{self._name}, {next(iter(topics))}"
        line = progress_line(name, whole, sent / since_s, self._left_s(whole))
        waits = self._tally.waits
        waited = waits.since(self._last_waits).text(*self._aliases)
        log.info("%s", f"{line} ({waited})" if waited and whole.left else line)
        self._last_waits = waits
        self._last = {topic: (progress.done, progress.bytes) for topic, progress in topics.items()}

    def _left_s(self, copied: CopiedCounts) -> float | None:
        """Estimates how many seconds are left at the speed so far; None before it has begun."""
        passed = time.monotonic() - self._began
        return copied.left * passed / copied.done if copied.done else None


def progress_line(name: str, copied: CopiedCounts, bytes_per_s: float, left_s: float | None) -> str:
    """The progress of something, in one line.

    Args:
        name: its name.
        copied: what was copied of it.
        bytes_per_s: its recent speed.
        left_s: about how many seconds are left, None where unknown.
    """
    share = 100 * copied.done // copied.planned if copied.planned else 100
    parts = [f"{share} %", f"{copied.records:,} records", bytes_text(copied.bytes)]
    if not copied.left:
        parts.append("done")
    elif left_s is None:
        parts.append("nothing copied yet")
    else:
        parts += [f"{bytes_text(bytes_per_s)}/s", f"about {duration_text(left_s)} left"]
    return f"{name}: {', '.join(parts)}"


def summary_lines(topics: Mapping[str, CopiedCounts]) -> Iterator[str]:
    """What was copied, as a table: the topics with the most bytes, and the total."""
    heading = ("topic", "partitions", "records", "bytes", "offsets left")
    return topics_table(heading, topics, lambda copied: copied.bytes, _row)


def _row(name: str, several: Sequence[CopiedCounts]) -> tuple[str, ...]:
    copied = CopiedCounts.together(several)
    counts = (f"{copied.partitions:,}", f"{copied.records:,}", bytes_text(copied.bytes))
    return (name, *counts, f"{copied.left:,}")
