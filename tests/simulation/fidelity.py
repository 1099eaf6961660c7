"""Random requests to a cluster, and what it answers: the simulated one has to answer as real brokers do.

Ids, times and whatever else differs between any two clusters is left out of the answers, and a request that a
coordinator cannot take yet (CONCURRENT_TRANSACTIONS) is made again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.protocol.admin import DeleteRecordsRequest
from kafka.protocol.admin.transactions import DescribeProducersRequest, DescribeTransactionsRequest
from kafka.protocol.consumer import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)

from kafka_ferry.batches import for_producer, split_batches
from kafka_ferry.batches.record_format.content import Content
from kafka_ferry.batches.record_format.records import dense_batch
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import GROUP, TRANSACTION, WireCluster
from kafka_ferry.wire.partition_leader import as_uuid
from kafka_ferry.wire.partitions.partition_log import leader_of

# Concurrent transactions, and a coordinator that is loading, not available or another one.
_LATER: Final = frozenset({14, 15, 16, 51})
_IDS: Final = ("one", "two")
_TIMES: Final = (-1, -2, -3, -4, 0, 1_700_000_000_500, 1_800_000_000_000)
_AT_MS: Final = 1_700_000_000_000
# A marker has the broker's own time, which is later.
_NOW_MS: Final = 1_780_000_000_000

_NAMES: Final = [
    *["start", "join", "plain", "end"] * 2,
    *["produce", "fetch"] * 3,
    *["group", "offsets", "list", "epoch", "delete", "transaction", "producers", "committed"],
]

Step = tuple[str, dict[str, Any]]


def steps(seed: int, count: int) -> list[Step]:
    """So many requests, by name, with the choices that each makes."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        name = rng.choice(_NAMES)
        choices = {
            "who": rng.choice(_IDS),
            "partition": rng.randrange(2),
            "share": rng.random(),
            "stale": rng.random() < 0.15,
            "new": rng.random() < 0.5,
            "commit": rng.random() < 0.6,
            "records": rng.randint(1, 4),
            "shift": rng.choice((0, 0, 0, 0, -1, 3)),
            "time": rng.choice(_TIMES),
            "epoch": rng.choice((-1, -1, 0, 1, 5)),
        }
        made.append((name, choices))
    return made


@dataclass
class Producer:
    """What a client knows of its producer."""

    id: int = -1
    epoch: int = -1
    sequences: dict[int, int] = field(default_factory=dict)


class Side:
    """A cluster that is asked.

    Args:
        cluster: connections to it.
        topic: a topic of its own with two partitions.
        topic_id: the topic's id.
    """

    def __init__(self, cluster: WireCluster, topic: str, topic_id: str) -> None:
        self._cluster, self._topic, self._topic_id = cluster, topic, topic_id
        self._known = {name: Producer() for name in _IDS}
        self._ends = [0, 0]

    def answers(self, asked: list[Step]) -> list[tuple[str, object]]:
        """What it says to each request, and at last what its logs hold."""
        said: list[tuple[str, object]] = []
        for name, choices in asked:
            said.append((name, getattr(self, f"_{name}")(choices)))
        return said + [("log", self._log(number)) for number in range(2)]

    def _id(self, who: str) -> str:
        return f"{self._topic}.{who}"

    def _leader(self, partition: int) -> Any:
        return self._cluster.connection(
            leader_of(self._cluster, TopicPartition(self._topic, partition))
        )

    def _coordinator(self, who: str) -> Any:
        return self._cluster.coordinator(self._id(who), TRANSACTION)

    def _patiently(self, ask: Callable[[], tuple[int, Any]]) -> tuple[int, Any]:
        for _ in range(200):
            code, answer = ask()
            if code not in _LATER:
                break
            time.sleep(0.02)
        return code, answer

    def _start(self, choices: dict[str, Any]) -> object:
        """InitProducerId."""
        known = self._known[choices["who"]]
        producer, epoch = (-1, -1) if choices["new"] else (known.id, known.epoch - choices["stale"])
        if producer < 0 or epoch < 0:
            producer, epoch = -1, -1

        def ask() -> tuple[int, Any]:
            answer = self._coordinator(choices["who"]).call(
                InitProducerIdRequest(
                    transactional_id=self._id(choices["who"]),
                    transaction_timeout_ms=60_000,
                    producer_id=producer,
                    producer_epoch=epoch,
                )
            )
            return answer.error_code, answer

        code, answer = self._patiently(ask)
        if not code:
            known.id, known.epoch = answer.producer_id, answer.producer_epoch
            known.sequences.clear()
        return code, answer.producer_epoch

    def _join(self, choices: dict[str, Any]) -> object:
        """AddPartitionsToTxn."""
        known = self._known[choices["who"]]

        def ask() -> tuple[int, Any]:
            answer = self._coordinator(choices["who"]).call(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self._id(choices["who"]),
                    v3_and_below_producer_id=known.id,
                    v3_and_below_producer_epoch=known.epoch - choices["stale"],
                    v3_and_below_topics=[
                        AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
                            name=self._topic, partitions=[choices["partition"]]
                        )
                    ],
                )
            )
            (topic,) = answer.results_by_topic_v3_and_below
            return topic.results_by_partition[0].partition_error_code, None

        return self._patiently(ask)[0]

    def _group(self, choices: dict[str, Any]) -> object:
        """AddOffsetsToTxn."""
        known = self._known[choices["who"]]

        def ask() -> tuple[int, Any]:
            answer = self._coordinator(choices["who"]).call(
                AddOffsetsToTxnRequest(
                    transactional_id=self._id(choices["who"]),
                    producer_id=known.id,
                    producer_epoch=known.epoch - choices["stale"],
                    group_id=self._topic,
                )
            )
            return answer.error_code, None

        return self._patiently(ask)[0]

    def _offsets(self, choices: dict[str, Any]) -> object:
        """TxnOffsetCommit."""
        known, kind = self._known[choices["who"]], TxnOffsetCommitRequest
        topic = kind.TxnOffsetCommitRequestTopic
        request = kind(
            transactional_id=self._id(choices["who"]),
            group_id=self._topic,
            producer_id=known.id,
            producer_epoch=known.epoch - choices["stale"],
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=[
                topic(
                    name=self._topic,
                    partitions=[
                        topic.TxnOffsetCommitRequestPartition(
                            partition_index=choices["partition"],
                            committed_offset=choices["records"],
                            committed_leader_epoch=-1,
                            committed_metadata="here",
                        )
                    ],
                )
            ],
        )

        def ask() -> tuple[int, Any]:
            request.API_VERSION = 3
            answer = self._cluster.coordinator(self._topic, GROUP).call(request)
            return answer.topics[0].partitions[0].error_code, None

        return self._patiently(ask)[0]

    def _end(self, choices: dict[str, Any]) -> object:
        """EndTxn, and its markers."""
        known = self._known[choices["who"]]

        def ask() -> tuple[int, Any]:
            answer = self._coordinator(choices["who"]).call(
                EndTxnRequest(
                    transactional_id=self._id(choices["who"]),
                    producer_id=known.id,
                    producer_epoch=known.epoch - choices["stale"],
                    committed=choices["commit"],
                )
            )
            return answer.error_code, None

        code, _ = self._patiently(ask)
        for _ in range(200):
            if not str(self._transaction(choices)[1]).startswith("Prepare"):
                break
            time.sleep(0.02)
        return code

    def _transaction(self, choices: dict[str, Any]) -> tuple[int, str]:
        """DescribeTransactions."""
        name = self._id(choices["who"])
        answer = self._coordinator(choices["who"]).call(
            DescribeTransactionsRequest(transactional_ids=[name])
        )
        (state,) = answer.transaction_states
        return state.error_code, state.transaction_state

    def _produce(self, choices: dict[str, Any]) -> object:
        """Produce, in a transaction."""
        known, number = self._known[choices["who"]], choices["partition"]
        if known.id < 0:
            return None
        sequence = max(known.sequences.get(number, 0) + choices["shift"], 0)
        encoded = for_producer(
            _batch(choices["records"]),
            producer_id=known.id,
            epoch=max(known.epoch - choices["stale"], 0),
            sequence=sequence,
        )
        code, base = self._sent(number, encoded, self._id(choices["who"]))
        if not code:
            known.sequences[number] = sequence + choices["records"]
        return code, base

    def _plain(self, choices: dict[str, Any]) -> object:
        """Produce, without any producer id."""
        return self._sent(choices["partition"], _batch(choices["records"]).encode(), None)

    def _sent(self, number: int, encoded: bytes, name: str | None) -> tuple[int, int]:
        topic = ProduceRequest.TopicProduceData
        answer = self._leader(number).call(
            ProduceRequest(
                transactional_id=name,
                acks=-1,
                timeout_ms=10_000,
                topic_data=[
                    topic(
                        name=self._topic,
                        partition_data=[topic.PartitionProduceData(index=number, records=encoded)],
                    )
                ],
            )
        )
        (entry,) = answer.responses[0].partition_responses
        if not entry.error_code:
            self._ends[number] = max(self._ends[number], entry.base_offset + 1)
        return entry.error_code, entry.base_offset

    def _fetch(self, choices: dict[str, Any], offset: int | None = None) -> object:
        """Fetch, around the log's ends too."""
        topic, number = FetchRequest.FetchTopic, choices["partition"]
        at = int(choices["share"] * (self._ends[number] + 3)) if offset is None else offset
        answer = self._leader(number).call(
            FetchRequest(
                replica_id=-1,
                min_bytes=0,
                max_bytes=1_000_000,
                max_wait_ms=0,
                isolation_level=int(choices["commit"]),
                session_id=0,
                session_epoch=-1,
                topics=[
                    topic(
                        topic_id=as_uuid(self._topic_id),
                        partitions=[
                            topic.FetchPartition(
                                partition=number,
                                current_leader_epoch=-1,
                                fetch_offset=at,
                                last_fetched_epoch=choices["epoch"],
                                log_start_offset=-1,
                                partition_max_bytes=1_000_000,
                            )
                        ],
                    )
                ],
                forgotten_topics_data=[],
            )
        )
        (data,) = answer.responses[0].partitions
        # How many more come depends on where segments end.
        batches = [*split_batches(bytes(data.records or b""))][:1]
        end = max((it.header.next_offset for it in batches), default=0)
        diverging = data.diverging_epoch
        return (
            at,
            data.error_code,
            data.high_watermark,
            data.last_stable_offset,
            data.log_start_offset,
            [
                (it.header.base_offset, it.header.next_offset, it.header.attributes)
                for it in batches
            ],
            [it.header.leader_epoch for it in batches],
            sorted(
                it.first_offset for it in data.aborted_transactions or () if it.first_offset < end
            ),
            (diverging.epoch, diverging.end_offset) if diverging else (-1, -1),
        )

    def _log(self, number: int) -> object:
        choices = {"partition": number, "commit": True, "epoch": -1}
        at = self._listed(number, -2)[1]
        return self._fetch(choices, at)

    def _list(self, choices: dict[str, Any]) -> object:
        """ListOffsets."""
        return self._listed(choices["partition"], choices["time"], int(choices["commit"]))

    def _listed(self, number: int, wanted: int, isolation: int = 0) -> tuple[int, int, int]:
        topic = ListOffsetsRequest.ListOffsetsTopic
        answer = self._leader(number).call(
            ListOffsetsRequest(
                replica_id=-1,
                isolation_level=isolation,
                topics=[
                    topic(
                        name=self._topic,
                        partitions=[
                            topic.ListOffsetsPartition(
                                partition_index=number, current_leader_epoch=-1, timestamp=wanted
                            )
                        ],
                    )
                ],
            )
        )
        (entry,) = answer.topics[0].partitions
        return entry.error_code, entry.offset, min(entry.timestamp, _NOW_MS)

    def _epoch(self, choices: dict[str, Any]) -> object:
        """OffsetForLeaderEpoch."""
        topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        answer = self._leader(choices["partition"]).call(
            OffsetForLeaderEpochRequest(
                replica_id=-1,
                topics=[
                    topic(
                        topic=self._topic,
                        partitions=[
                            topic.OffsetForLeaderPartition(
                                partition=choices["partition"],
                                current_leader_epoch=-1,
                                leader_epoch=max(choices["epoch"], 0),
                            )
                        ],
                    )
                ],
            )
        )
        (entry,) = answer.topics[0].partitions
        return entry.error_code, entry.leader_epoch, entry.end_offset

    def _delete(self, choices: dict[str, Any]) -> object:
        """DeleteRecords, rarely far."""
        topic, number = DeleteRecordsRequest.DeleteRecordsTopic, choices["partition"]
        answer = self._leader(number).call(
            DeleteRecordsRequest(
                timeout_ms=10_000,
                topics=[
                    topic(
                        name=self._topic,
                        partitions=[
                            topic.DeleteRecordsPartition(
                                partition_index=number,
                                offset=int(choices["share"] * self._ends[number] / 2),
                            )
                        ],
                    )
                ],
            )
        )
        (entry,) = answer.topics[0].partitions
        return entry.error_code, entry.low_watermark

    def _producers_of(self, number: int) -> Any:
        answer = self._leader(number).call(
            DescribeProducersRequest(
                topics=[
                    DescribeProducersRequest.TopicRequest(
                        name=self._topic, partition_indexes=[number]
                    )
                ]
            )
        )
        return answer.topics[0].partitions[0]

    def _producers(self, choices: dict[str, Any]) -> object:
        """DescribeProducers."""
        entry = self._producers_of(choices["partition"])
        return entry.error_code, sorted(
            (it.producer_epoch, it.last_sequence, it.current_txn_start_offset)
            for it in entry.active_producers
        )

    def _committed(self, choices: dict[str, Any]) -> object:
        """OffsetFetch of what is stable."""
        answer = self._cluster.coordinator(self._topic, GROUP).call(
            OffsetFetchRequest(
                group_id=self._topic,
                topics=[
                    OffsetFetchRequest.OffsetFetchRequestTopic(
                        name=self._topic, partition_indexes=[choices["partition"]]
                    )
                ],
                require_stable=True,
            ),
            newest=7,
        )
        (entry,) = answer.topics[0].partitions
        return entry.error_code, entry.committed_offset, entry.metadata


def _batch(records: int) -> Any:
    content = Content(b"key", b"value").encoded()
    return dense_batch([(0, _AT_MS + at, b"\0", content) for at in range(records)], 0)
