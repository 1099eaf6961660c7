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
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from kafka_ferry.batches import Segment
from kafka_ferry.batches.epochs import EpochSpan
from kafka_ferry.errors import FerryError
from kafka_ferry.model.changes import AclChange, QuotaChange, UserChange
from kafka_ferry.model.cluster_state import Mark
from kafka_ferry.model.positions import ProducerState
from kafka_ferry.model.run_options import Window
from kafka_ferry.model.waits import NO_WAITS, Waits

VERSION: Final = 1
_LEDGER: Final = "ferry-ledger."
_INTERNAL: Final = ".internal"

# Kafka's integer types, for which the ledger's table has columns.
_Int32 = Annotated[int, Field(ge=0, lt=2**31)]
_Int64 = Annotated[int, Field(ge=0, lt=2**63)]


class LedgerError(FerryError):
    """A ledger record, or the table made from them, cannot be read.

    Attributes:
        transient: whether a later attempt may succeed.
    """

    def __init__(self, message: str, *, advice: str = "", transient: bool = False) -> None:
        super().__init__(message, advice=advice)
        self.transient = transient


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class CopiedRange(_Model):
    """The source offsets ``[start, end)`` of one partition that one transaction accounted for.

    ``end - start == records + sum(reasons.values())``, always. That is not checked here, where an error
    would stop every run, but by the verification, which names the range.

    Attributes:
        topic: the source's topic.
        topic_id: its id on the source (KIP-516).
        partition: the partition, on both clusters.
        remote_topic: the topic on the target.
        remote_topic_id: its id on the target.
        start: first source offset.
        end: source offset after the last one.
        records: records written to the target.
        bytes: bytes of their batches, including headers, as compressed.
        batches: batches written.
        reasons: offsets without a record on the target, by reason.
        rebuilt: batches that could not be copied unopened, by reason.
        segments: the offset map, ascending in both offsets.
        digest: of the batches as they were sent, or as adopted ones are on the target (``RangeDigest``).
        lost: the intervals ``(start, end)`` of source offsets that retention or DeleteRecords had
            taken before they were copied; their sum is ``reasons["lost"]``.
        leader_epoch: the source's leader epoch of the last batch, of an empty range of the last one before it; of
            one that ends without a batch as ``ConvertedBatch`` has it; -1 where it is not known.
        epochs: the leader epochs of its batches, each with the source offsets from and to which they are of it;
            none where all are of ``leader_epoch``, or where that is not known.
        rewound_from: the position before it was set back to ``start``, because the source's log
            had been truncated to there (an unclean leader election); -1 where it was not.
        preserved: whether the records kept their offsets. They were written before this entry then,
            and not in its transaction.
        producer: the producer that wrote them then, as of ``end``.
        adopted: how many of the records were written by an earlier attempt, whose entry is missing, or
            by another mirror: they were compared with the source's one by one.
        origins: the ids of all clusters that the topic's records came through, the source's too.
        begin: what ``topics.start`` said, where copying of the partition began by that at ``start``.
        transform: the fingerprint of the rule that the records went through; "" where they were copied as
            they are.
        schema_ids: which parts of the records got the ids of schemas on the target, such as ``key+value``, with
            the fingerprint of how; "" where none did.
        compared: the intervals ``(start, end)`` of *target* offsets that were compared when the range was taken
            over from another mirror; records there that are in no segment are the other mirror's duplicates, or
            the source no longer had them.
        remote_epoch: the *target's* leader epoch of what was compared last then; -1 where it is not known, or the
            flow has written the range itself.
        letters: where the dead letter topic has its dead-lettered records, by source offsets: written in the same
            transaction.
        rule_counts: what the rule did, in how many records (``batches.rule_counts``); those that it has left out have
            the reason ``filtered``.
    """

    topic: str
    topic_id: str
    partition: _Int32
    remote_topic: str
    remote_topic_id: str
    start: _Int64
    end: _Int64
    records: _Int64
    bytes: _Int64
    batches: _Int64
    reasons: dict[str, _Int64] = {}
    rebuilt: dict[str, _Int64] = {}
    segments: tuple[Segment, ...] = ()
    digest: str
    lost: tuple[tuple[int, int], ...] = ()
    leader_epoch: int = Field(-1, ge=-1, lt=2**31)
    epochs: tuple[EpochSpan, ...] = ()
    rewound_from: int = Field(-1, ge=-1, lt=2**63)
    preserved: bool = False
    producer: ProducerState | None = None
    adopted: _Int64 = 0
    origins: tuple[str, ...] = ()
    begin: str = ""
    transform: str = ""
    schema_ids: str = ""
    compared: tuple[tuple[int, int], ...] = ()
    remote_epoch: int = Field(-1, ge=-1, lt=2**31)
    letters: tuple[Segment, ...] = ()
    rule_counts: dict[str, _Int64] = {}

    @property
    def target_end(self) -> int:
        """The *target* offset up to which it accounts for the log; -1 where it says nothing of that."""
        ends = [target + records for _, target, records in self.segments]
        return max([*ends, *(end for _, end in self.compared)], default=-1)

    @field_validator("segments", "lost", "compared", "letters")
    @classmethod
    def _are_offsets(cls, runs: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        if not all(0 <= number < 2**63 for run in runs for number in run):
            raise ValueError("a number that is not an offset")
        return runs


class _Entry(_Model):
    version: Literal[1] = VERSION
    flow: str
    run: str
    at: _Int64 = Field(description="milliseconds since 1970")


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
    writers: _Int32 = Field(gt=0)
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
    writer: _Int32
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
    writer: _Int32
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


class ReleasedTopic(_Model):
    """A topic on the target by its id, which excludes others of the same name."""

    remote_topic: str
    remote_topic_id: str = Field(min_length=1)


class ReleaseEntry(_Entry):
    """The flow has given remote topics up: what was copied to them no longer counts."""

    type: Literal["release"] = "release"
    remote_topics: tuple[ReleasedTopic, ...]


class AcceptedRange(_Model):
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

    ledger_offset: _Int64
    topic: str
    partition: _Int32
    start: _Int64
    records: _Int64
    digest: str
    reason: str = ""
    missing: tuple[tuple[_Int64, _Int64], ...] = ()

    @field_validator("missing")
    @classmethod
    def _ascend(cls, spans: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        ends = [offset for span in spans for offset in span]
        if ends != sorted(ends):
            raise ValueError("intervals that do not ascend")
        return spans

    def missing_from(self, log_start: int) -> int:
        """How many of its records were missing at *target* offsets from ``log_start`` on."""
        return sum(max(0, end - max(start, log_start)) for start, end in self.missing)


class VerificationEntry(_Entry):
    """Every range in the ledger before the ledger offset ``through`` was verified.

    Attributes:
        through: that offset.
        ranges: how many ranges this verification has read back.
        records: how many records.
        again: ledger offsets ``[start, end)`` whose ranges had been verified before and were read back again,
            as far as the target still has them.
        accepted: ranges that are left as they are from here on; an entry with any has read nothing back.
    """

    type: Literal["verification"] = "verification"
    through: _Int64
    ranges: _Int64
    records: _Int64
    again: tuple[tuple[_Int64, _Int64], ...] = ()
    accepted: tuple[AcceptedRange, ...] = ()


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
    configs: dict[str, dict[str, str]] = {}
    pending: dict[str, dict[str, str | None]] = {}
    creations: dict[str, dict[str, str] | None] = {}
    source_cluster_id: str = ""
    acls: tuple[AclChange, ...] = ()
    quotas: tuple[QuotaChange, ...] = ()
    users: tuple[UserChange, ...] = ()
    missed: dict[str, _Int64] = {}

    @field_validator("users")
    @classmethod
    def _iterate_as_kafka_does(cls, users: tuple[UserChange, ...]) -> tuple[UserChange, ...]:
        if not all(0 <= user.iterations < 2**31 for user in users):
            raise ValueError("a number that is not a number of iterations")
        return users


class SyncedOffset(_Model):
    """One offset that was committed for a group on the target.

    Attributes:
        source: what the group had committed on the source; -1 once the target's was deleted.
        target: what was committed on the target for it.
        source_cluster_id: that of its entry.
        refuted: whether that was another mirror, by an offset map that the records contradict.
    """

    source: int = Field(ge=-1, lt=2**63)
    target: int = Field(ge=-1, lt=2**63)
    source_cluster_id: str = Field("", exclude=True)
    refuted: bool = False


class GroupsEntry(_Entry):
    """What a run has committed for groups on the target; the newest entry about a partition counts.

    Attributes:
        synced: by group, remote topic's id and partition.
        source_cluster_id: the cluster on which the groups had committed.
    """

    type: Literal["groups"] = "groups"
    synced: dict[str, dict[str, dict[_Int32, SyncedOffset]]] = {}
    source_cluster_id: str = ""


class FilesEntry(_Entry):
    """Files that a step of a run has left in the state folder, for a later step that signs what they say.

    Attributes:
        digests: by the file's name in the run's folder, SHA-256 of its content, in hexadecimal.
    """

    type: Literal["files"] = "files"
    digests: dict[str, str]


class UnreadableRecord(_Model):
    """A record of the ledger's topic that is no entry.

    Attributes:
        offset: its offset.
        digest: ``content_digest`` of its value: another record at this offset is not meant.
    """

    offset: _Int64
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

Entry = (
    AppliedEntry
    | BackfillEntry
    | FilesEntry
    | GroupsEntry
    | OwnershipEntry
    | ReleaseEntry
    | RunEntry
    | SetAsideEntry
    | TransactionEntry
    | VerificationEntry
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
        return _ENTRY.validate_json(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise LedgerError(
            f"{at}: not a ledger record of version {VERSION}: {key}: {first['msg']}.",
            advice="Was it written by a newer release, or by another program? `ferry repair --ledger` shows what it "
            "hides, and sets it aside.",
        ) from error


def content_digest(value: bytes | None) -> str:
    """A digest of a record's value: XXH3 (128 bits, hexadecimal); a null value has another than an empty one."""
    return xxhash.xxh3_128_hexdigest(b"\0" if value is None else b"\1" + value)
