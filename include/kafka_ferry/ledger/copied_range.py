"""A copied range as ledger records have it: what one transaction accounted for of one partition."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from kafka_ferry.as_json import FirstErrorOnly
from kafka_ferry.batches import Segment
from kafka_ferry.batches.epochs import EpochSpan
from kafka_ferry.model.positions import ProducerState

# Kafka's integer types, for which the ledger's table has columns.
Int32 = Annotated[int, Field(ge=0, lt=2**31)]
Int64 = Annotated[int, Field(ge=0, lt=2**63)]


class LedgerModel(FirstErrorOnly, BaseModel):
    """A part of a ledger record; what a later release has added to it is ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class CopiedRange(LedgerModel):
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
        last_crc: the CRC of the source's batch that had the last offset, by which a source shows that was restored from
            a backup; -1 where there was none, it is not known, or the batch was of an old message format.
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
    partition: Int32
    remote_topic: str
    remote_topic_id: str
    start: Int64
    end: Int64
    records: Int64
    bytes: Int64
    batches: Int64
    reasons: dict[str, Int64] = {}
    rebuilt: dict[str, Int64] = {}
    segments: tuple[Segment, ...] = ()
    digest: str
    lost: tuple[tuple[int, int], ...] = ()
    leader_epoch: int = Field(-1, ge=-1, lt=2**31)
    epochs: tuple[EpochSpan, ...] = ()
    last_crc: int = Field(-1, ge=-1, lt=2**32)
    rewound_from: int = Field(-1, ge=-1, lt=2**63)
    preserved: bool = False
    producer: ProducerState | None = None
    adopted: Int64 = 0
    origins: tuple[str, ...] = ()
    begin: str = ""
    transform: str = ""
    schema_ids: str = ""
    compared: tuple[tuple[int, int], ...] = ()
    remote_epoch: int = Field(-1, ge=-1, lt=2**31)
    letters: tuple[Segment, ...] = ()
    rule_counts: dict[str, Int64] = {}

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
        # Of segments, the last one has the numbers of records: what follows them is an offset too.
        if any(first + run[2] >= 2**63 for run in runs if len(run) > 2 for first in run[:2]):
            raise ValueError("an end that is not an offset")
        return runs

    @field_validator("epochs")
    @classmethod
    def _are_epochs(cls, epochs: tuple[EpochSpan, ...]) -> tuple[EpochSpan, ...]:
        if not all(
            0 <= it.start < 2**63 and 0 <= it.end < 2**63 and -1 <= it.epoch < 2**31
            for it in epochs
        ):
            raise ValueError("a number that is not an epoch or an offset")
        return epochs

    @field_validator("producer")
    @classmethod
    def _is_producer(cls, producer: ProducerState | None) -> ProducerState | None:
        if producer and not (
            -1 <= producer.producer_id < 2**63
            and -1 <= producer.epoch < 2**31
            and -1 <= producer.sequence < 2**31
            and -1 <= producer.unfilled_to < 2**63
        ):
            raise ValueError("a number that is not a producer's")
        return producer
