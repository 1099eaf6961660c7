"""What is measured: topics that are copied whole, and topics that grow after they were copied."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from confluent_kafka.admin import AdminClient

from benchmarks.copies.clusters import Clusters
from benchmarks.copies.copiers import Copier, Job
from benchmarks.copies.topics import BenchmarkTopic
from benchmarks.figures.runs import Copied

_MIRRORED_BEFORE = 1_000


class Load(Protocol):
    """Something that one or more copiers copy, in turn and as often as is asked for."""

    @property
    def name(self) -> str:
        """In tables and results."""

    @property
    def copiers(self) -> Sequence[Copier]:
        """Those that copy it."""

    def prepare(self) -> None:
        """Write what must be there before the first copy."""

    def job(self, copier: Copier, repetition: int) -> Job:
        """Make it ready for one more copy, which is the same work each time."""

    def clean(self, job: Job) -> None:
        """Remove what the copy left, if nothing needs it any more."""


@dataclass(frozen=True)
class WholeTopic:
    """A topic that is written once; each copy is made by a flow that has never run before.

    Attributes:
        options: of the flows.
        connector: MirrorMaker 2's properties of the same meaning.
        copied: how many of the records are copied; 0 for all.
    """

    name: str
    copiers: Sequence[Copier]
    clusters: Clusters
    topic: BenchmarkTopic
    records: int
    options: Mapping[str, object] = field(default_factory=dict)
    connector: Mapping[str, str] = field(default_factory=dict)
    copied: int = 0

    def prepare(self) -> None:
        """Write it."""
        source = self.clusters.source.bootstrap
        self.topic.create(source).write(source, self.records)

    def job(self, copier: Copier, repetition: int) -> Job:
        """A source alias that is new, and with it a remote topic and positions of its own."""
        alias = f"{self.topic.name}-{_slug(copier)}-{repetition}"
        copied = self.copied or self.records
        return Job(self.topic.name, alias, copied, copied, self.options, self.connector)

    def clean(self, job: Job) -> None:
        """Delete the remote topic: the disk would fill, and its writes slow the copies after it."""
        remote = f"{job.alias}.{job.topic}"
        admin = AdminClient({"bootstrap.servers": self.clusters.target.bootstrap, "log_level": 3})
        admin.delete_topics([remote])[remote].result()


class GrowingTopics:
    """A topic for each copier, mirrored once before anything is measured, that may grow."""

    def __init__(self, clusters: Clusters, topic: BenchmarkTopic) -> None:
        self._clusters = clusters
        self._like = topic
        self._topics: dict[str, BenchmarkTopic] = {}
        self._all: dict[str, int] = {}

    def prepare(self, copier: Copier) -> None:
        """Write the copier's topic and let it mirror it, if it has not yet."""
        if copier.name not in self._topics:
            like, name = self._like, f"{self._like.name}-{_slug(copier)}"
            topic = BenchmarkTopic(name, like.partitions, like.size, like.batch, like.transaction)
            self._topics[copier.name] = topic.create(self._clusters.source.bootstrap)
            copier.copy(self.grow(copier, _MIRRORED_BEFORE))

    def grow(self, copier: Copier, records: int) -> Job:
        """Append to the copier's topic; what it has to copy then."""
        topic = self._topics[copier.name]
        if records:
            topic.write(self._clusters.source.bootstrap, records)
        self._all[copier.name] = self._all.get(copier.name, 0) + records
        return Job(topic.name, topic.name, records, self._all[copier.name])


@dataclass(frozen=True)
class NewRecords:
    """So many new records, which may be none, of a topic that is mirrored already."""

    name: str
    copiers: Sequence[Copier]
    topics: GrowingTopics
    records: int

    def prepare(self) -> None:
        """Let each copier mirror its topic for the first time."""
        for copier in self.copiers:
            self.topics.prepare(copier)

    def job(self, copier: Copier, repetition: int) -> Job:  # noqa: ARG002 - each is like the last
        """Write them."""
        return self.topics.grow(copier, self.records)

    def clean(self, job: Job) -> None:
        """The next copy goes on in the same topic."""


def everyday_loads(
    clusters: Clusters, ferries: Sequence[Copier], others: Sequence[Copier], records: int, size: int
) -> list[Load]:
    """Nothing new, a little that is new, and much of it; the others run all the time or copy something."""
    growing = GrowingTopics(clusters, BenchmarkTopic("small", 6, size))
    both = [*ferries, *others]
    return [
        NewRecords("nothing new", ferries, growing, 0),
        NewRecords("1,000 new records", both, growing, 1_000),
        WholeTopic(
            f"{records:,} records", both, clusters, BenchmarkTopic("large", 8, size), records
        ),
    ]


def copies(loads: Sequence[Load], repeat: int, limit_s: float = 0) -> Iterator[Copied]:
    """Copy each load with each of its copiers, A B A B ...; everything must be prepared.

    Args:
        loads: what to copy.
        repeat: how often; 0 for as often as ends by ``limit_s``, but at least once.
        limit_s: the moment of ``time.monotonic``.
    """
    repetition, longest = 0, 0.0
    while repetition < repeat or not repeat:
        began = time.monotonic()
        if not repeat and repetition and began + longest > limit_s:
            return
        repetition += 1
        for load in loads:
            for copier in load.copiers:
                job = load.job(copier, repetition)
                # Or this copy would wait for the disk to take what an earlier one wrote.
                os.sync()
                figures, usage = copier.copy(job)
                load.clean(job)
                yield Copied(load.name, copier.name, repetition, figures, usage)
        longest = max(longest, time.monotonic() - began)


def _slug(copier: Copier) -> str:
    return copier.name.lower().replace(" ", "-")
