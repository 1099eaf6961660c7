"""Random requests to a cluster, and what it answers: the simulated one has to answer as real brokers do.

Ids, times and whatever else differs between any two clusters is left out of the answers, and a request that a
coordinator cannot take yet (CONCURRENT_TRANSACTIONS) is made again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
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
from tests.simulation.brokers.messages import message

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
        """The coordinator of a transactional id, or, without one, of the group."""
        if not who:
            return self._cluster.coordinator(self._topic, GROUP)
        return self._cluster.coordinator(self._id(who), TRANSACTION)

    def _coordinated(self, who: str, kind: Any, **fields: object) -> Any:
        """The answer of a transactional id's coordinator, once it has one."""
        for _ in range(200):
            answer = self._coordinator(who).call(message(kind, None, fields))
            if _code_of(answer) not in _LATER:
                break
            time.sleep(0.02)
        return answer

    def _producer(self, choices: dict[str, Any]) -> dict[str, object]:
        """A request's fields for the transactional id and its producer, whose epoch may be old."""
        known = self._known[choices["who"]]
        return {
            "transactional_id": self._id(choices["who"]),
            "producer_id": known.id,
            "producer_epoch": known.epoch - choices["stale"],
        }

    def _topics(self, partition: Mapping[str, object]) -> list[Mapping[str, object]]:
        return [{"name": self._topic, "partitions": [partition]}]

    def _start(self, choices: dict[str, Any]) -> object:
        who, fields = choices["who"], self._producer(choices)
        known = self._known[who]
        if choices["new"] or known.id < 0 or known.epoch - choices["stale"] < 0:
            fields |= {"producer_id": -1, "producer_epoch": -1}
        answer = self._coordinated(
            who, InitProducerIdRequest, transaction_timeout_ms=60_000, **fields
        )
        if not answer.error_code:
            known.id, known.epoch = answer.producer_id, answer.producer_epoch
            known.sequences.clear()
        return answer.error_code, answer.producer_epoch

    def _join(self, choices: dict[str, Any]) -> object:
        fields = {f"v3_and_below_{name}": it for name, it in self._producer(choices).items()}
        topics = [{"name": self._topic, "partitions": [choices["partition"]]}]
        fields["v3_and_below_topics"] = topics
        return _code_of(self._coordinated(choices["who"], AddPartitionsToTxnRequest, **fields))

    def _group(self, choices: dict[str, Any]) -> object:
        fields = self._producer(choices) | {"group_id": self._topic}
        return self._coordinated(choices["who"], AddOffsetsToTxnRequest, **fields).error_code

    def _offsets(self, choices: dict[str, Any]) -> object:
        entry = {
            "partition_index": choices["partition"],
            "committed_offset": choices["records"],
            "committed_leader_epoch": -1,
            "committed_metadata": "here",
        }
        fields = {"group_id": self._topic, "generation_id": -1, "member_id": ""}
        fields |= {"group_instance_id": None, "topics": self._topics(entry)}
        fields |= self._producer(choices)
        return _code_of(self._coordinated("", TxnOffsetCommitRequest, **fields))

    def _end(self, choices: dict[str, Any]) -> object:
        """EndTxn, and its markers."""
        fields = self._producer(choices) | {"committed": choices["commit"]}
        code = self._coordinated(choices["who"], EndTxnRequest, **fields).error_code
        for _ in range(200):
            if not str(self._transaction(choices)[1]).startswith("Prepare"):
                break
            time.sleep(0.02)
        return code

    def _transaction(self, choices: dict[str, Any]) -> tuple[int, str]:
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

    def _ask(self, number: int, kind: Any, **fields: object) -> Any:
        """What a partition's leader says of it."""
        answer = self._leader(number).call(message(kind, None, fields))
        topics = answer.responses if kind in (ProduceRequest, FetchRequest) else answer.topics
        parts = topics[0].partition_responses if kind is ProduceRequest else topics[0].partitions
        return parts[0]

    def _sent(self, number: int, encoded: bytes, name: str | None) -> tuple[int, int]:
        topic = {"name": self._topic, "partition_data": [{"index": number, "records": encoded}]}
        fields = {"transactional_id": name, "acks": -1, "timeout_ms": 10_000, "topic_data": [topic]}
        entry = self._ask(number, ProduceRequest, **fields)
        if not entry.error_code:
            self._ends[number] = max(self._ends[number], entry.base_offset + 1)
        return entry.error_code, entry.base_offset

    def _fetch(self, choices: dict[str, Any], offset: int | None = None) -> object:
        """Fetch, around the log's ends too."""
        number = choices["partition"]
        at = int(choices["share"] * (self._ends[number] + 3)) if offset is None else offset
        entry = {
            "partition": number,
            "current_leader_epoch": -1,
            "fetch_offset": at,
            "last_fetched_epoch": choices["epoch"],
            "log_start_offset": -1,
            "partition_max_bytes": 1_000_000,
        }
        topic = {"topic_id": as_uuid(self._topic_id), "partitions": [entry]}
        fields = {"replica_id": -1, "min_bytes": 0, "max_bytes": 1_000_000, "max_wait_ms": 0}
        fields |= {"isolation_level": int(choices["commit"]), "session_id": 0, "session_epoch": -1}
        data = self._ask(number, FetchRequest, topics=[topic], forgotten_topics_data=[], **fields)
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
        return self._listed(choices["partition"], choices["time"], int(choices["commit"]))

    def _listed(self, number: int, wanted: int, isolation: int = 0) -> tuple[int, int, int]:
        entry = {"partition_index": number, "current_leader_epoch": -1, "timestamp": wanted}
        fields = {"replica_id": -1, "isolation_level": isolation, "topics": self._topics(entry)}
        data = self._ask(number, ListOffsetsRequest, **fields)
        return data.error_code, data.offset, min(data.timestamp, _NOW_MS)

    def _epoch(self, choices: dict[str, Any]) -> object:
        number = choices["partition"]
        entry = {"partition": number, "current_leader_epoch": -1}
        entry["leader_epoch"] = max(choices["epoch"], 0)
        topics = [{"topic": self._topic, "partitions": [entry]}]
        data = self._ask(number, OffsetForLeaderEpochRequest, replica_id=-1, topics=topics)
        return data.error_code, data.leader_epoch, data.end_offset

    def _delete(self, choices: dict[str, Any]) -> object:
        """DeleteRecords, rarely far."""
        number = choices["partition"]
        to = int(choices["share"] * self._ends[number] / 2)
        topics = self._topics({"partition_index": number, "offset": to})
        data = self._ask(number, DeleteRecordsRequest, timeout_ms=10_000, topics=topics)
        return data.error_code, data.low_watermark

    def _producers(self, choices: dict[str, Any]) -> object:
        number = choices["partition"]
        topics = [{"name": self._topic, "partition_indexes": [number]}]
        entry = self._ask(number, DescribeProducersRequest, topics=topics)
        return entry.error_code, sorted(
            (it.producer_epoch, it.last_sequence, it.current_txn_start_offset)
            for it in entry.active_producers
        )

    def _committed(self, choices: dict[str, Any]) -> object:
        """OffsetFetch of what is stable."""
        topics = [{"name": self._topic, "partition_indexes": [choices["partition"]]}]
        fields = {"group_id": self._topic, "topics": topics, "require_stable": True}
        answer = self._cluster.coordinator(self._topic, GROUP).call(
            message(OffsetFetchRequest, None, fields), newest=7
        )
        (entry,) = answer.topics[0].partitions
        return entry.error_code, entry.committed_offset, entry.metadata


def _code_of(answer: Any) -> int:
    """The error code of an answer about one partition, or about none."""
    if topics := getattr(answer, "results_by_topic_v3_and_below", None):
        return int(topics[0].results_by_partition[0].partition_error_code)
    topics = getattr(answer, "topics", None)
    return int(topics[0].partitions[0].error_code if topics else answer.error_code)


def _batch(records: int) -> Any:
    content = Content(b"key", b"value").encode()
    return dense_batch([(0, _AT_MS + at, b"\0", content) for at in range(records)], 0)
