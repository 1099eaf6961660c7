"""What a plan says of topics and partitions: left out, refused, unusual, at risk."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Skipped:
    """A source topic that the flow does not mirror, and why."""

    topic: str
    reason: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A topic or partition that cannot be mirrored as things are; the run copies the others and then fails.

    Attributes:
        topic: the source's topic, "" for the whole flow.
        reason: what is wrong.
        advice: what to do.
        partition: the partition, None for the whole topic.
    """

    topic: str
    reason: str
    advice: str
    partition: int | None = None

    @property
    def where(self) -> str:
        """The topic or partition by name, "" for the whole flow."""
        return _where(self.topic, self.partition) if self.topic else ""

    def __str__(self) -> str:
        where = f"{self.where}: " if self.topic else ""
        return f"{where}{self.reason} {self.advice}".rstrip()


@dataclass(frozen=True, slots=True)
class Note:
    """A remark on a topic or partition that fails nothing.

    Attributes:
        topic: the source's topic, "" for the whole flow.
        message: the remark, in sentences.
        partition: the partition, None for the whole topic.
        of_first_copy: whether it is about where the first copy begins: a backfill copies what is older.
        of_deleted: whether it is about records of a backfill's window that the source has deleted.
    """

    topic: str
    message: str
    partition: int | None = None
    of_first_copy: bool = False
    of_deleted: bool = False

    def __str__(self) -> str:
        return (
            f"{_where(self.topic, self.partition)}: {self.message}" if self.topic else self.message
        )


@dataclass(frozen=True, slots=True)
class Risk:
    """A topic whose records the source may delete before they are copied.

    Attributes:
        topic: the source's topic.
        partition: the partition where the most is at risk.
        partitions: in how many partitions records are at risk.
        offsets: how many offsets are at risk, in all of them; 0 if only future ones are.
        message: what may happen, and when.
        advice: what to do.
    """

    topic: str
    partition: int
    partitions: int
    offsets: int
    message: str
    advice: str

    def __str__(self) -> str:
        more = f" So in {self.partitions:,} of its partitions." if self.partitions > 1 else ""
        return f"{self.topic}-{self.partition}: {self.message}{more} {self.advice}"


@dataclass(frozen=True, slots=True)
class PlanRemarks:
    """All that a plan says of topics and partitions.

    Attributes:
        skipped: topics that are not mirrored.
        refused: topics and partitions that should be and cannot.
        notes: what is unusual but does not stop the run.
        risks: partitions whose records the source may delete before they are copied.
        unapplied: what could not be changed on the target, a sentence each; records are copied anyway,
            and then the run fails.
    """

    skipped: tuple[Skipped, ...] = ()
    refused: tuple[Refusal, ...] = ()
    notes: tuple[Note, ...] = ()
    risks: tuple[Risk, ...] = ()
    unapplied: tuple[str, ...] = ()


def _where(topic: str, partition: int | None) -> str:
    return topic if partition is None else f"{topic}-{partition}"
