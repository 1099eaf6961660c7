"""The format of the records in ``ferry-ledger.{source}.internal``. docs/ledger.md describes it.

Ten kinds of record, each a JSON object with a version and a type:

- ``ownership``: remote topics that the flow marks as its own, and how offsets are kept in them;
- ``applied``: configs, ACLs, quotas and users that a run has set on the target;
- ``release``: remote topics that the flow gives up, so that they are copied again;
- ``run``: a run began, and with how many writers;
- ``transaction``: a transaction of one writer, in which this record itself was written, so that the
  record exists exactly if the data and the positions do;
- ``backfill``: the same for a backfill, which moves no position;
- ``groups``: what a run has committed for groups on the target;
- ``verification``: everything before a ledger offset was read back and found complete;
- ``files``: the digests of the files in the state folder that a step has left for a later one;
- ``set-aside``: records of the topic that are none of these, and are passed over from here on.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import xxhash
from pydantic import Field, TypeAdapter, field_validator

from kafka_ferry.as_json import read_checked, why_wrong
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger.copied_range import CopiedRange, Int32, Int64, LedgerModel
from kafka_ferry.model.changes import AclChange, QuotaChange, UserChange
from kafka_ferry.model.cluster_state import Mark
from kafka_ferry.model.run_options import Window
from kafka_ferry.model.waits import NO_WAITS, Waits

VERSION: Final = 1
_LEDGER: Final = "ferry-ledger."
_INTERNAL: Final = ".internal"


class LedgerError(FerryError):
    """A ledger record, or the table made from them, cannot be read.

    Attributes:
        transient: whether a later attempt may succeed.
    """

    def __init__(self, message: str, *, advice: str = "", transient: bool = False) -> None:
        super().__init__(message, advice=advice)
        self.transient = transient


class _Entry(LedgerModel):
    version: Literal[1] = VERSION
    flow: str
    run: str
    at: Int64 = Field(description="milliseconds since 1970")


class RunEntry(_Entry):
    """A run of the flow began; a run that finds a newer run's entry here has been fenced.

    Attributes:
        writers: the number of writers.
        assignment: how the target's partitions are assigned to them, where that is not the default.
        file: the flow's file, by its name and its folder's.
        topics: which topics the file selects, and their names on the target.
        isolation_level: by which of the source's records it copies.
    """

    type: Literal["run"] = "run"
    writers: Int32 = Field(gt=0)
    assignment: str = ""
    file: str = ""
    topics: str = ""
    isolation_level: str = ""


class TransactionEntry(_Entry):
    """One committed transaction of one writer.

    Attributes:
        writer: the writer's number.
        ranges: what it accounted for.
        waits: what the writer's copying waited for since its last entry.
    """

    type: Literal["transaction"] = "transaction"
    writer: Int32
    ranges: tuple[CopiedRange, ...]
    waits: Waits = NO_WAITS


class BackfillEntry(_Entry):
    """One committed transaction of a backfill's writer.

    Its ranges lie below the positions at the time, and may overlap other ranges: they account for the
    records whose timestamps are in the window, and move no position.

    Attributes:
        since: the window's first timestamp, in milliseconds since 1970.
        until: the first one after it.
        waits: as of a transaction.
    """

    type: Literal["backfill"] = "backfill"
    writer: Int32
    since: Annotated[int, Field(ge=-(2**63), lt=2**63)]
    until: Annotated[int, Field(ge=-(2**63), lt=2**63)]
    ranges: tuple[CopiedRange, ...]
    waits: Waits = NO_WAITS

    @property
    def window(self) -> Window:
        """The timestamps of the records that it accounts for."""
        return Window(self.since, self.until)


class OwnershipEntry(_Entry):
    """The flow owns remote topics from here on."""

    type: Literal["ownership"] = "ownership"
    marks: tuple[Mark, ...]


class ReleasedTopic(LedgerModel):
    """A topic on the target by its id, which excludes others of the same name."""

    remote_topic: str
    remote_topic_id: str = Field(min_length=1)


class ReleaseEntry(_Entry):
    """The flow has given remote topics up: what was copied to them no longer counts."""

    type: Literal["release"] = "release"
    remote_topics: tuple[ReleasedTopic, ...]


class AcceptedRange(LedgerModel):
    """A range that is no longer what was copied, and that a person has decided to leave as it is.

    Attributes:
        ledger_offset: the ledger's record of it.
        topic: the source's topic.
        partition: the partition.
        start: its first source offset.
        records: how many of its records the target still had, with those that had expired there.
        digest: of their batches.
        reason: why, in that person's words.
        missing: the intervals ``(start, end)`` of *target* offsets at which it lacked them, ascending. Once a part of
            the range has expired, only those after the log's start explain what is missing.
    """

    ledger_offset: Int64
    topic: str
    partition: Int32
    start: Int64
    records: Int64
    digest: str
    reason: str = ""
    missing: tuple[tuple[Int64, Int64], ...] = ()

    @field_validator("missing")
    @classmethod
    def _ascend(cls, spans: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        ends = [offset for span in spans for offset in span]
        if ends != sorted(ends):
            raise ValueError("intervals that do not ascend")
        return spans

    def missing_count(self, log_start: int) -> int:
        """How many of its records were missing at *target* offsets from ``log_start`` on."""
        return sum(max(0, end - max(start, log_start)) for start, end in self.missing)


class VerificationEntry(_Entry):
    """Every range in the ledger before the ledger offset ``through`` was verified, but for those in ``gone``.

    Attributes:
        through: that offset.
        ranges: how many ranges this verification has read back.
        records: how many records.
        again: ledger offsets ``[start, end)`` whose ranges had been verified before and were read back again,
            as far as the target still has them.
        accepted: ranges that are left as they are from here on; an entry with any proves nothing.
        failed: ledger offsets ``[start, end)`` of which ranges, proved before, were found wrong; an entry with any
            proves nothing. They are read back again until a later entry has them in ``again``.
        gone: ids of remote topics that were deleted or given up before they were read back: nothing was looked at of
            their ranges.
    """

    type: Literal["verification"] = "verification"
    through: Int64
    ranges: Int64
    records: Int64
    again: tuple[tuple[Int64, Int64], ...] = ()
    accepted: tuple[AcceptedRange, ...] = ()
    failed: tuple[tuple[Int64, Int64], ...] = ()
    gone: tuple[str, ...] = ()


class AppliedEntry(_Entry):
    """What a run has set or unset on the target other than topics; the newest entry about an object counts.

    An entry is written before a change, so that a crash never makes the flow's own change look like
    another client's, and another one after it.

    Attributes:
        configs: by remote topic's id, all configs that the flow has set there, or is about to.
        pending: by remote topic's id, the earlier values of those that are about to be set: they are the
            flow's own too, until a later entry about the topic; null where nothing was set.
        creations: by remote topic's name, the configs of topics that are about to be created; null once
            that is settled, and the id says more.
        source_cluster_id: the source's cluster.
        acls: ACLs that the flow has created, or is about to, or with ``revoke`` deleted.
        quotas: quotas that the flow is about to set, or to delete where they have no value; once it
            has, again, with the new value as the one before.
        users: SCRAM credentials that the flow has created, or is about to, or with ``delete`` deleted.
        missed: by remote topic's id, since when its source topic is missing; 0 when it is back.
    """

    type: Literal["applied"] = "applied"
    configs: dict[str, dict[str, str]] = Field({})
    pending: dict[str, dict[str, str | None]] = Field({})
    creations: dict[str, dict[str, str] | None] = Field({})
    source_cluster_id: str = ""
    acls: tuple[AclChange, ...] = ()
    quotas: tuple[QuotaChange, ...] = ()
    users: tuple[UserChange, ...] = ()
    missed: dict[str, Int64] = Field({})

    @field_validator("users")
    @classmethod
    def _iterate_as_kafka_does(cls, users: tuple[UserChange, ...]) -> tuple[UserChange, ...]:
        if not all(0 <= user.iterations < 2**31 for user in users):
            raise ValueError("a number that is not a number of iterations")
        return users


class SyncedOffset(LedgerModel):
    """One offset that was committed for a group on the target.

    Attributes:
        source: what the group had committed on the source; -1 once the target's was deleted.
        target: what was committed on the target for it.
        source_cluster_id: that of its entry.
        source_topic_id: that of its entry, "" where it is unknown.
        at: when its entry was written, in milliseconds since 1970; 0 where that is not known.
        refuted: whether that was another mirror, by an offset map that the records contradict.
    """

    source: int = Field(ge=-1, lt=2**63)
    target: int = Field(ge=-1, lt=2**63)
    source_cluster_id: str = Field("", exclude=True)
    source_topic_id: str = Field("", exclude=True)
    at: int = Field(0, exclude=True)
    refuted: bool = False


class GroupsEntry(_Entry):
    """What a run has committed for groups on the target; the newest entry about a partition counts.

    Attributes:
        synced: by group, remote topic's id and partition.
        source_cluster_id: the cluster on which the groups had committed.
        source_topic_ids: by remote topic's id, that of the topic in which they had.
    """

    type: Literal["groups"] = "groups"
    synced: dict[str, dict[str, dict[Int32, SyncedOffset]]] = Field({})
    source_cluster_id: str = ""
    source_topic_ids: dict[str, str] = Field({})


class FilesEntry(_Entry):
    """Files that a step of a run has left in the state folder, for a later step that signs what they say.

    Attributes:
        digests: by the file's name in the run's folder, SHA-256 of its content, in hexadecimal.
    """

    type: Literal["files"] = "files"
    digests: dict[str, str]


class UnreadableRecord(LedgerModel):
    """A record of the ledger's topic that is no entry.

    Attributes:
        offset: its offset.
        digest: ``content_digest`` of its value: another record at this offset is not meant.
    """

    offset: Int64
    digest: str


class SetAsideEntry(_Entry):
    """Records of the topic that are no entries, and that a person has decided to pass over.

    Attributes:
        records: the records; those of any flow's entry count for all flows of the ledger.
        reason: why, in that person's words.
    """

    type: Literal["set-aside"] = "set-aside"
    records: tuple[UnreadableRecord, ...]
    reason: str = ""


CopyingEntry = TransactionEntry | BackfillEntry
"""The entry of any flow's transaction: its ranges are on the target."""

StepEntry = (
    AppliedEntry
    | FilesEntry
    | GroupsEntry
    | OwnershipEntry
    | ReleaseEntry
    | RunEntry
    | SetAsideEntry
    | VerificationEntry
)
"""What a step of a run or a command appends, in a transaction of its own."""

Entry = CopyingEntry | StepEntry
_FOREIGN: Final = (
    "Was it written by a newer release, or by another program? `ferry repair --ledger` shows what it hides, and sets "
    "it aside."
)
_ENTRY: Final[TypeAdapter[Entry]] = TypeAdapter(Annotated[Entry, Field(discriminator="type")])


def ledger_topic(source_alias: str) -> str:
    """The name of the ledger on the target, for everything mirrored from ``source_alias``."""
    return f"{_LEDGER}{source_alias}{_INTERNAL}"


def is_ledger_topic(topic: str) -> bool:
    """Whether a topic is a ledger of any source, by its name."""
    return topic.startswith(_LEDGER) and topic.endswith(_INTERNAL)


def source_of_ledger(topic: str) -> str:
    """The alias of the source that a ledger is of."""
    return topic.removeprefix(_LEDGER).removesuffix(_INTERNAL)


def encode(entry: Entry) -> tuple[bytes, bytes]:
    """Key (the flow's name) and value (JSON) of the record for ``entry``."""
    return entry.flow.encode(), entry.model_dump_json(exclude_defaults=False).encode()


def decode(value: bytes, *, at: str) -> Entry:
    """The entry in a ledger record's value.

    Args:
        value: the record's value.
        at: where it was read, for the error's message.

    Raises:
        LedgerError: if it is not an entry of a version that this release knows.
    """
    try:
        return read_checked(_ENTRY, value or b"")
    except ValueError as error:
        raise LedgerError(
            f"{at}: not a ledger record of version {VERSION}: {why_wrong(error)}.", advice=_FOREIGN
        ) from None


def content_digest(value: bytes | None) -> str:
    """A digest of a record's value: XXH3 (128 bits, hexadecimal); a null value has another than an empty one."""
    return xxhash.xxh3_128_hexdigest(b"\0" if value is None else b"\1" + value)
