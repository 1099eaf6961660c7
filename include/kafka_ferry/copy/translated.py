"""The translated write protocol: one Kafka transaction holds batches, positions and the ledger record.

Promises, beyond those of ``copy.writer.Writer``:

(a) a transaction holds, for each of its partitions, the batches, the next source offset (committed
    in the flow's group under the *target* partition) and its part of one ledger record; they
    appear together or not at all;
(b) a partition never has a hole: if a batch was refused and a later one accepted, the transaction
    is aborted and written again up to the refused batch;
(c) exactly one batch of a partition is in a produce request, and requests to one broker are
    answered in order, so that order within a partition is kept.

Not promised: the target offsets. They are what the target gives, and the ledger records them.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from kafka_ferry.batches import (
    Batch,
    Passage,
    for_producer,
    next_sequence,
    single_record,
)
from kafka_ferry.clock import now_ms
from kafka_ferry.copy.lanes import Lane, Sent
from kafka_ferry.copy.takeover import transactional_id
from kafka_ferry.copy.writer import Failure, StartOver
from kafka_ferry.errors import BrokerError, FerryError
from kafka_ferry.ledger import TransactionEntry, encode, ledger_topic
from kafka_ferry.patience import patiently
from kafka_ferry.plan.positions import Position, PositionMetadata, position_group, position_of
from kafka_ferry.plan.ranges import Range, TopicPartition
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.faults import NONE, error_name, fault, is_transient
from kafka_ferry.wire.transactions import CommittedOffset, TransactionalProducer, committed_offsets

# The broker handles one request of a connection at a time and remembers five batches of a producer.
_IN_FLIGHT: Final = 5
_REQUEST_BYTES: Final = 4 * 1024 * 1024
# About 400 KB of JSON: a ledger record must stay below the default max.message.bytes.
_MAX_SEGMENTS: Final = 10_000
# A partition whose leader does not come back must not hold the others back for ever.
_MAX_STUMBLES: Final = 6
# OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER, INVALID_TXN_STATE,
# INVALID_PRODUCER_ID_MAPPING, UNKNOWN_PRODUCER_ID, TRANSACTION_ABORTABLE: the transaction is void.
_VOID: Final = frozenset({45, 46, 48, 49, 59, 120})


class TranslatedWriter:
    """Writes one writer number's partitions in transactions.

    Args:
        alias: the target's alias.
        settings: kafka-python's configuration for it.
        flow: the flow's name, ``source->target``.
        source_alias: the source's alias, which names the ledger.
        run: the run's id.
        number: the writer's number.
        timeout_ms: after so long without an end the broker aborts a transaction.
    """

    def __init__(
        self,
        alias: str,
        settings: Mapping[str, object],
        *,
        flow: str,
        source_alias: str,
        run: str,
        number: int,
        timeout_ms: int,
    ) -> None:
        self.failures: dict[TopicPartition, Failure] = {}
        self._flow, self._run, self._number = flow, run, number
        self._group = position_group(flow)
        self._ledger = TopicPartition(ledger_topic(source_alias), 0)
        self._data = WireCluster(alias, settings)
        self._coordination = WireCluster(alias, settings)
        self._producer = TransactionalProducer(
            self._coordination, transactional_id(flow, number), timeout_ms=timeout_ms
        )
        self._lanes: dict[TopicPartition, Lane] = {}
        self._in_flight: dict[int, deque[dict[TopicPartition, Sent]]] = defaultdict(deque)
        self._refreshed: dict[TopicPartition, tuple[Range, Position]] = {}
        self._refused: dict[TopicPartition, Failure] = {}
        self._stumbles: Counter[TopicPartition] = Counter()
        self._unsealed_bytes = self._unsealed_runs = 0
        # Why the open transaction cannot be committed, once that is known.
        self._void = ""

    @property
    def unsealed_bytes(self) -> int:
        """Bytes written since the last ``seal``."""
        return self._unsealed_bytes

    @property
    def must_seal(self) -> bool:
        """Whether the ledger record of the transaction gets long."""
        return self._unsealed_runs > _MAX_SEGMENTS

    def take_over(self, ranges: Sequence[Range]) -> Mapping[TopicPartition, Position]:
        """See ``Writer.take_over``."""
        self._forget_transaction()
        for source in self._refused:
            # What was accepted before the refusal may be void: it is written again, up to there.
            self.failures.pop(source, None)
        self._data.close()
        if self._producer.producer_id < 0:
            self._producer.start()
        else:
            self._producer.start_over()
        by_target = {range_.target: range_ for range_ in ranges}
        self._open_lanes(by_target)
        committed = committed_offsets(self._coordination, self._group, by_target)
        positions = {
            tp: position_of(found.offset, found.metadata) for tp, found in committed.items()
        }
        for tp, position in positions.items():
            self._check_identity(by_target[tp], position)
        return {by_target[tp].source: position for tp, position in positions.items()}

    def _open_lanes(self, by_target: Mapping[TopicPartition, Range]) -> None:
        wanted = [*by_target, self._ledger]
        leaders = patiently(lambda: self._data.leaders(wanted))
        self._lanes = {
            tp: Lane(leader.node, by_target.get(tp), leader.topic_id)
            for tp, leader in leaders.items()
            if leader.node >= 0
        }
        if self._ledger not in self._lanes:
            raise fault(leaders[self._ledger].error, f"Looking for the ledger {self._ledger.topic}")
        for tp, range_ in by_target.items():
            if tp not in self._lanes and range_.source not in self.failures:
                self._stumble(range_, range_.start, leaders[tp].error)
        self._raise_if_void()

    def _check_identity(self, range_: Range, position: Position) -> None:
        lane = self._lanes.get(range_.target)
        if lane and position.remote_topic_id not in ("", lane.remote_topic_id):
            message = "the target's topic was deleted and made anew since; its history is gone."
            self.failures[range_.source] = Failure(
                range_, position.offset, message, transient=False
            )

    def write(self, range_: Range, passage: Passage) -> None:
        """See ``Writer.write``."""
        lane = self._lanes.get(range_.target)
        if lane is None or range_.source in self.failures:
            return
        refused = self._refused.get(range_.source)
        if refused and passage.end > refused.offset:
            self.failures[range_.source] = refused
            return
        lane.waiting.append(passage)
        self._unsealed_bytes += passage.batch.header.size if passage.batch else 0
        self._unsealed_runs += len(passage.runs)

    def send(self) -> None:
        """See ``Writer.send``."""
        with _void_unless_known():
            self._pump()

    def refresh(self, range_: Range, position: Position) -> None:
        """See ``Writer.refresh``."""
        if range_.target in self._lanes:
            self._refreshed[range_.target] = (range_, position)

    def seal(self) -> Mapping[TopicPartition, int]:
        """See ``Writer.seal``."""
        with _void_unless_known():
            self._drain()
            moved = {tp: lane for tp, lane in self._lanes.items() if lane.tally and lane.range}
            if moved:
                self._write_ledger(moved)
            self._commit_positions(moved)
            new_positions = {
                lane.range.source: lane.tally.end
                for lane in moved.values()
                if lane.range and lane.tally
            }
            if moved or self._refreshed:
                self._producer.end(commit=True)
        self._stumbles.clear()
        self._forget_transaction()
        return new_positions

    def close(self) -> None:
        """See ``Writer.close``."""
        self._data.close()
        self._coordination.close()

    def _forget_transaction(self) -> None:
        self._in_flight.clear()
        self._refreshed.clear()
        self._void = ""
        self._unsealed_bytes = self._unsealed_runs = 0
        for lane in self._lanes.values():
            lane.in_transaction, lane.tally = False, None
            lane.waiting.clear()
            lane.sent.clear()

    def _pump(self) -> None:
        """Send all that waits, one batch of a partition in a request, several requests at once."""
        while waiting := [tp for tp, lane in self._lanes.items() if lane.waiting]:
            self._join_transaction(waiting)
            requests: dict[int, dict[TopicPartition, Sent]] = defaultdict(dict)
            sizes: Counter[int] = Counter()
            for tp in waiting:
                lane = self._lanes[tp]
                while lane.waiting and lane.waiting[0].batch is None:
                    lane.sent.append(Sent(lane.waiting.popleft()))
                lane.settle()
                if lane.waiting and sizes[lane.node] < _REQUEST_BYTES:
                    sent = Sent(lane.waiting.popleft())
                    lane.sent.append(sent)
                    requests[lane.node][tp] = sent
                    sizes[lane.node] += sent.passage.batch.header.size if sent.passage.batch else 0
            for node, request in requests.items():
                self._send(node, request)

    def _join_transaction(self, waiting: Sequence[TopicPartition]) -> None:
        new = [
            tp
            for tp in waiting
            if not self._lanes[tp].in_transaction
            and any(passage.batch for passage in self._lanes[tp].waiting)
        ]
        if not new:
            return
        refused = self._producer.add_partitions(new)
        for tp, code in refused.items():
            lane = self._lanes[tp]
            if lane.range:
                self._refuse(lane, lane.waiting[0], code, "")
        if refused:
            # The broker adds all partitions of a request or none.
            raise StartOver(
                f"{len(refused)} partition(s) were not let into the transaction.", excludes=True
            )
        for tp in new:
            self._lanes[tp].in_transaction = True

    def _send(self, node: int, request: dict[TopicPartition, Sent]) -> None:
        encoded = {}
        for tp, sent in request.items():
            lane = self._lanes[tp]
            batch = sent.passage.batch
            assert batch is not None
            encoded[tp] = for_producer(
                batch,
                producer_id=self._producer.producer_id,
                epoch=self._producer.epoch,
                sequence=lane.sequence,
            )
            lane.sequence = next_sequence(lane.sequence, batch.header.records)
        self._data.connection(node).send(self._producer.produce_request(encoded))
        self._in_flight[node].append(request)
        if len(self._in_flight[node]) >= _IN_FLIGHT:
            self._receive(node)

    def _receive(self, node: int) -> None:
        self._receive_one(node)
        if self._void:
            # Who else stumbles is counted too, or a few bad partitions would use up all tries.
            self._receive_rest()
        self._raise_if_void()

    def _receive_rest(self) -> None:
        for node, requests in self._in_flight.items():
            while requests:
                self._receive_one(node)

    def _receive_one(self, node: int) -> None:
        response = self._data.connection(node).receive()
        request = self._in_flight[node].popleft()
        for topic in response.responses:
            for answer in topic.partition_responses:
                tp = TopicPartition(topic.name, answer.index)
                words = answer.error_message or ""
                self._judge(
                    self._lanes[tp], request[tp], answer.error_code, answer.base_offset, words
                )

    def _judge(self, lane: Lane, sent: Sent, code: int, base_offset: int, words: str) -> None:
        refused = self._refused.get(lane.range.source) if lane.range else None
        behind_refused = refused is not None and sent.passage.start >= refused.offset
        if code == NONE and behind_refused:
            raise StartOver(f"{refused} A later batch was accepted.", excludes=True)
        if code == NONE:
            sent.base_offset = base_offset
            lane.settle()
        elif behind_refused:
            return
        elif code in _VOID:
            self._void = self._void or f"Writing {lane.range or self._ledger}: {error_name(code)}."
        elif is_transient(code) and lane.range:
            self._stumble(lane.range, sent.passage.start, code)
        else:
            error = fault(code, f"Writing {lane.range or self._ledger}")
            if lane.range is None or not isinstance(error, BrokerError):
                raise error
            self._refuse(lane, sent.passage, code, words)

    def _refuse(self, lane: Lane, passage: Passage, code: int, words: str) -> None:
        """Record that the target does not take ``passage``; what was accepted before it stays."""
        range_ = lane.range
        assert range_ is not None
        message = f"the target refused the batch of offsets [{passage.start}, {passage.end}): {error_name(code)}"
        failure = Failure(
            range_, passage.start, f"{message}{': ' if words else ''}{words}.", is_transient(code)
        )
        self._refused[range_.source] = self.failures[range_.source] = failure
        lane.waiting.clear()

    def _stumble(self, range_: Range, offset: int, code: int) -> None:
        """Count a transient error of one partition; the transaction is void for it."""
        self._void = self._void or f"{range_.target}: {error_name(code)}."
        self._stumbles[range_.source] += 1
        if self._stumbles[range_.source] >= _MAX_STUMBLES:
            message = f"the target kept answering {error_name(code)}."
            self.failures[range_.source] = Failure(range_, offset, message, transient=True)

    def _raise_if_void(self) -> None:
        if self._void:
            raise StartOver(self._void)

    def _drain(self) -> None:
        self._pump()
        self._receive_rest()
        self._raise_if_void()
        for lane in self._lanes.values():
            lane.settle()

    def _write_ledger(self, moved: Mapping[TopicPartition, Lane]) -> None:
        entry = TransactionEntry(
            flow=self._flow,
            run=self._run,
            at=now_ms(),
            writer=self._number,
            ranges=tuple(lane.copied() for lane in moved.values()),
        )
        record = single_record(*encode(entry), entry.at)
        self._lanes[self._ledger].waiting.append(_ledger_passage(record))
        self._drain()
        self._lanes[self._ledger].tally = None

    def _commit_positions(self, moved: Mapping[TopicPartition, Lane]) -> None:
        positions: dict[TopicPartition, tuple[Range, int]] = {
            tp: (range_, position.offset) for tp, (range_, position) in self._refreshed.items()
        }
        positions |= {
            tp: (lane.range, lane.tally.end)
            for tp, lane in moved.items()
            if lane.range and lane.tally
        }
        if not positions:
            return
        offsets = {
            tp: CommittedOffset(
                offset,
                PositionMetadata(
                    range_.topic_id, self._lanes[tp].remote_topic_id, self._run, now_ms()
                ).encode(),
            )
            for tp, (range_, offset) in positions.items()
        }
        self._producer.add_group(self._group)
        for tp, code in self._producer.commit_offsets(self._group, offsets).items():
            range_, offset = positions[tp]
            message = f"its position could not be committed: {error_name(code)}."
            self.failures[range_.source] = Failure(range_, offset, message, is_transient(code))
            raise StartOver(f"{range_.target}: {message}", excludes=True)


def _ledger_passage(record: Batch) -> Passage:
    return Passage(0, 1, record, ((0, 1),))


@contextmanager
def _void_unless_known() -> Iterator[None]:
    """Turn errors after which nobody knows what was written into ``StartOver``."""
    try:
        yield
    except StartOver:
        raise
    except FerryError as error:
        if not error.transient:
            raise
        raise StartOver(error.message, advice=error.advice) from error
