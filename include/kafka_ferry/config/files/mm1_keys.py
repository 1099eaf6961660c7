"""What the properties of MirrorMaker 1's clients become here, of all Kafka releases since 0.7.

Sources: ``kafka.consumer.ConsumerConfig``, ``kafka.producer.ProducerConfig`` and related classes of 0.7.2
and 0.8.2; the Java clients' ``ConsumerConfig`` and ``ProducerConfig`` after them.
"""

from __future__ import annotations

from typing import Final

from kafka_ferry.config.client.translate import KAFKA_PYTHON

ZOOKEEPER: Final = ("zookeeper.connect", "zk.connect")
"""Where clients before 0.9 found the brokers."""

BROKER_LISTS: Final = ("bootstrap.servers", "metadata.broker.list", "broker.list")
"""The properties that name brokers, today's first; 0.7's ``broker.list`` has ids before the hosts."""

RENAMED: Final = {
    "socket.timeout.ms": "request.timeout.ms",
    "socket.buffersize": "receive.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "buffer.size": "send.buffer.bytes",
    "connect.timeout.ms": "socket.connection.setup.timeout.ms",
    "refresh.leader.backoff.ms": "retry.backoff.ms",
}
"""Properties that have another name in the Java client; today's name wins where both are set."""

CARRIED: Final = frozenset({*KAFKA_PYTHON, "retry.backoff.max.ms", "retry.backoff.ms"})
"""The properties that are used here, other than those to connect and log in."""

_REASONS: Final = {
    "positions are kept on the target, in the same transactions as the records": """
        groupid group.id autocommit.enable auto.commit.enable enable.auto.commit
        autocommit.interval.ms auto.commit.interval.ms offsets.storage dual.commit.enabled
        offsets.channel.backoff.ms offsets.channel.socket.timeout.ms offsets.commit.max.retries
    """,
    "each partition belongs to one writer, and no consumer group assigns them": """
        consumerid consumer.id group.instance.id group.protocol group.remote.assignor
        heartbeat.interval.ms max.poll.interval.ms partition.assignment.strategy
        rebalance.backoff.ms rebalance.max.retries rebalance.retries.max session.timeout.ms
    """,
    "the flow's fetch.max.bytes says how much is read at a time": """
        backoff.increment.ms consumer.timeout.ms fetch.max.bytes fetch.max.wait.ms
        fetch.message.max.bytes fetch.min.bytes fetch.size fetch.wait.max.ms fetcher.backoff.ms
        max.partition.fetch.bytes max.poll.records num.consumer.fetchers queued.max.message.chunks
        queued.max.messages queuedchunks.max
    """,
    "batches are copied as they are, and never opened for it": """
        callback.handler callback.handler.props event.handler event.handler.props
        interceptor.classes key.deserializer key.serializer key.serializer.class serializer.class
        shallowiterator.enable value.deserializer value.serializer
    """,
    "every checksum is checked": "check.crcs",
    "batches keep the compression that they have on the source": """
        compressed.topics compression.codec compression.gzip.level compression.lz4.level
        compression.type compression.zstd.level
    """,
    "batches keep their size; join.batches.below joins small ones, and transaction.max.bytes and "
    "transaction.max.ms limit the data in flight": """
        batch.num.messages batch.size block.on.buffer.full buffer.memory linger.ms producer.type
        queue.buffering.max.messages queue.buffering.max.ms queue.enqueue.timeout.ms
        queue.enqueueTimeout.ms queue.size queue.time
    """,
    "records stay in the partition that they have on the source": """
        partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms
        partitioner.class partitioner.ignore.keys
    """,
    "records are written in transactions, acknowledged by all in-sync replicas": """
        acks enable.idempotence max.in.flight.requests.per.connection request.required.acks
        transaction.timeout.ms transactional.id
    """,
    "transient failures are retried; other failures are named and fail the run": """
        delivery.timeout.ms max.block.ms message.send.max.retries num.retries retries
    """,
    "the target topic's own limit applies; on.rejected.record decides about the records that it refuses": """
        max.message.size max.request.size
    """,
    "remote topics are created with the source's partitions and configs": (
        "allow.auto.create.topics"
    ),
    "metadata is read again in each run, and after each error": """
        metadata.max.age.ms metadata.max.idle.ms reconnect.interval reconnect.time.interval.ms
        topic.metadata.refresh.interval.ms
    """,
    "each run has a report instead": """
        auto.include.jmx.reporter enable.metrics.push metric.reporters metrics.num.samples
        metrics.recording.level metrics.sample.window.ms
    """,
    "brokers are found through bootstrap.servers": """
        zk.connect zk.connectiontimeout.ms zk.read.num.retries zk.sessiontimeout.ms zk.synctime.ms
        zookeeper.connect zookeeper.connection.timeout.ms zookeeper.session.timeout.ms
        zookeeper.sync.time.ms
    """,
}

WITHOUT_MEANING: Final = {name: why for why, names in _REASONS.items() for name in names.split()}
"""Properties without effect here, each with the reason or what replaces it."""
