"""What may go wrong: the kinds of faults by name, each with what it does at a request that it fits.

Each does what Kafka's documents allow, and says where it does harm that a run may refuse to go on from.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Final

from kafka_ferry.model.ranges import TopicPartition
from tests.simulation.brokers.log import Stored
from tests.simulation.brokers.messages import name_of, unapplied, with_code
from tests.simulation.fault import FaultKind, Injection, Lost, Unanswered

# What the protocol lists for each request, beside NONE.
ERRORS: Final[Mapping[str, tuple[int, ...]]] = {
    "Fetch": (6, 3, 56, 9, 74, 78, -1),
    "ListOffsets": (6, 3, 56, 9, 78, -1),
    "OffsetForLeaderEpoch": (6, 3, 56, 74, 75),
    "Produce": (6, 3, 19, 56, 7, 20, 48),
    "InitProducerId": (14, 15, 16, 51),
    "AddPartitionsToTxn": (14, 15, 16, 51),
    "AddOffsetsToTxn": (14, 15, 16, 51),
    "EndTxn": (14, 15, 16, 51),
    "TxnOffsetCommit": (14, 15, 16, -1),
    "OffsetFetch": (14, 15, 16),
    "FindCoordinator": (15,),
    "DescribeProducers": (6, 3),
    "CreateTopics": (7, 41),
}
_WRITES: Final = (
    *("InitProducerId", "AddPartitionsToTxn", "Produce"),
    *("AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"),
)
_TXN_STATE, _APPENDED, _STORAGE_ERROR = 48, 20, 56
# A plan looks at the ledger later than that.
_LOOK_S: Final = 0.02
# These come after the request was applied.
_APPLIED: Final = frozenset({7, _APPENDED})
_LOOKS: Final = frozenset({"Fetch", "ListOffsets", "OffsetForLeaderEpoch", "DescribeProducers"})


def _lose_request(injection: Injection) -> Any:
    injection.note(f"{_name(injection)} is lost")
    raise Lost


def _lose_answer(injection: Injection) -> Any:
    injection.note(f"the answer to {_name(injection)} is lost")
    injection.apply()
    raise Lost


def _delay_request(injection: Injection) -> Any:
    seconds = injection.random.choice((0.01, 1.0, 35.0))
    injection.note(f"{_name(injection)} arrives {seconds} s later, its connection is gone")
    world = injection.history.world
    world.at(world.now + seconds, injection.apply)
    raise Lost


def _hang(injection: Injection) -> Any:
    injection.note(f"no answer to {_name(injection)}, which was applied")
    injection.apply()
    raise Unanswered


def _name(injection: Injection) -> str:
    return f"{name_of(injection.request)} to {injection.cluster.alias}-{injection.node}"


def _refuse(injection: Injection) -> Any:
    name = name_of(injection.request)
    code = injection.random.choice(ERRORS[name])
    if code == _TXN_STATE and not injection.request.transactional_id:
        code = _APPENDED
    injection.note(f"{_name(injection)} is answered with error {code}")
    # A leader that has not replicated it yet may be followed by one that lacks it.
    is_kept = name in _LOOKS or (code in _APPLIED and injection.random.random() < 0.5)
    return with_code(injection.apply() if is_kept else unapplied(injection.request), code)


def _shorten(injection: Injection) -> Any:
    answer = injection.apply()
    for topic in answer.responses:
        for data in topic.partitions:
            if data.records:
                keep = injection.random.choice((len(data.records) // 2, len(data.records) - 1))
                data.records = bytes(data.records)[: max(keep, 70)]
    injection.note(f"{_name(injection)} is answered in part")
    return answer


def _move_leader(injection: Injection) -> None:
    tp = injection.random.choice(injection.cluster.partitions() or [None])
    if tp:
        injection.cluster.move_leader(tp)
        injection.note(f"{tp} on {injection.cluster.alias} gets another leader")


def _lose_leader(injection: Injection) -> None:
    cluster = injection.cluster
    # Where a marker is soon to be written, more often: of data, of the ledger, or of positions.
    open_ = [it for it in cluster.transactions.by_id.values() if it.partitions or it.groups]
    parts = sorted({tp for it in open_ for tp in it.partitions})
    kinds = [
        [tp for tp in parts if not tp.topic.startswith("ferry-")],
        [tp for tp in parts if tp.topic.startswith("ferry-")],
        [TopicPartition(of, -1) for of in sorted({of for it in open_ for of in it.groups})],
    ]
    near = injection.random.choice([it for it in kinds if it] or [cluster.partitions()])
    is_near = injection.random.random() < 0.7
    tp = injection.random.choice((near if is_near else cluster.partitions()) or [None])
    if tp:
        seconds = injection.random.choice((0.05, 0.7, 2.0, 7.0, 30.0, 100.0))
        cluster.leaderless[tp] = injection.history.world.now + seconds
        injection.note(f"{tp} on {injection.cluster.alias} has no leader for {seconds} s")


def _move_coordinator(injection: Injection) -> None:
    target = injection.target
    groups = [it for it in sorted(target.groups.offsets) if it.startswith("ferry.")]
    keys = groups * 2 + sorted(target.transactions.by_id)
    if keys:
        key, stale_s = (
            injection.random.choice(keys),
            injection.random.choice((0.0, 1.0, 30.0, 300.0)),
        )
        target.move_coordinator(key, stale_s)
        injection.note(
            f"{key} has another coordinator, which the old one notices {stale_s} s later"
        )


def _freeze(injection: Injection) -> Any:
    seconds = injection.random.choice((0.5, 3.0, 20.0, 45.0))
    injection.cluster.frozen[injection.node] = injection.history.world.now + seconds
    injection.note(f"{injection.cluster.alias}-{injection.node} freezes for {seconds} s")
    world, cluster, node = injection.history.world, injection.cluster, injection.node

    def thaw() -> None:
        if cluster.frozen.get(node, 0.0) <= world.now:
            cluster.frozen.pop(node, None)

    world.at(world.now + seconds, thaw)
    if injection.random.random() < 0.5:
        injection.apply()
    raise Unanswered


def _fill_disk(injection: Injection) -> Any:
    """A folder of logs that cannot be written to goes offline with all of its partitions (KIP-112)."""
    cluster, node, chosen = injection.cluster, injection.node, injection.random
    led = [tp for tp in cluster.partitions() if cluster.leader(tp) == node]
    offline = chosen.sample(led, chosen.randint(len(led) // 2, len(led)))
    is_replicated = chosen.random() < 0.5
    seconds = chosen.choice((0.7, 7.0, 30.0, 300.0))
    for tp in offline:
        if is_replicated:
            cluster.move_leader(tp)
        else:
            cluster.leaderless[tp] = injection.history.world.now + seconds
    what = "others lead" if is_replicated else f"none leads for {seconds} s"
    injection.note(
        f"{_name(injection)} fills a disk: {what} {len(offline)} of {len(led)} partitions"
    )
    return with_code(unapplied(injection.request), _STORAGE_ERROR)


def _isolate(injection: Injection) -> None:
    cluster, node = injection.cluster, injection.node
    seconds = injection.random.choice((2.0, 30.0, 300.0))
    cluster.isolate(node, seconds)
    injection.note(f"{cluster.alias}-{node} is cut off from the others for {seconds} s")


def _step_clock(injection: Injection) -> None:
    seconds = injection.random.choice((-3600, -5, 5, 3600, 90_000))
    injection.history.world.clock_off += seconds
    injection.note(f"the machine's clock steps by {seconds} s")


def _cut(
    injection: Injection, among: Container[TopicPartition] | None = None
) -> tuple[TopicPartition, Sequence[Stored]] | None:
    """Lose the end of a partition's log; gives what is lost."""
    cluster = injection.cluster

    def fits(tp: TopicPartition) -> bool:
        is_there = bool(cluster.topics[tp.topic].logs[tp.partition].stored)
        return is_there and (among is None or tp in among)

    tp = injection.partition(cluster, fits)
    if not tp:
        return None
    log = cluster.topics[tp.topic].logs[tp.partition]
    lost = injection.random.choice(injection.random.choice((log.stored, log.stored[-6:]))).base
    end, stable, stored = log.end, log.stable, log.stored
    cluster.move_leader(tp, lose_from=lost)
    injection.note(
        f"unclean election of {tp} on {cluster.alias}: [{log.end}, {end}) is lost (stable to {stable})"
    )
    for way in injection.history.ways:
        if cluster is way.source:
            way.replaced[tp] = injection.history.world.now
    if cluster is injection.source:
        # Where the abort's marker is lost, the producer's next transaction takes the records in.
        injection.history.aborted -= {value for _, value in log.unaborted()}
        # The new branch is soon as long as the lost one, a little shorter or longer.
        injection.history.write_up_to(tp, end + injection.random.choice((-end, -end, -1, 0, 1, 5)))
    if among is not None or injection.random.random() < 0.3:
        # The broker that has led before is preferred, and has followed the new log meanwhile.
        cluster.move_leader(tp)
    return tp, [it for it in stored if it.base >= lost]


def _lose_end(injection: Injection) -> None:
    _cut(injection)


def _cut_fetched(injection: Injection) -> None:
    """Lose the end of a log that is read, while more requests for it are on their way."""
    asked = injection.request.topics
    names = {it.topic_id: injection.cluster.name_of(it.topic_id) for it in asked}
    _cut(
        injection,
        {TopicPartition(names[it.topic_id], of.partition) for it in asked for of in it.partitions},
    )


def _return_branch(injection: Injection) -> None:
    """The replica that has what another one lacked comes back, and leads, once that one is lost."""
    history, source = injection.history, injection.source
    if cut := _cut(injection):
        tp, branch = cut
        topic_id, base = source.topic_id(tp.topic), branch[0].base

        def epoch_before() -> int:
            log = source.log(tp)
            return max((it for it, at in log.epochs if at < base), default=-1) if log else -1

        follows = epoch_before()

        def put_back() -> None:
            log = source.log(tp)
            # The log that it ends may be lost by now, too.
            is_there = log and log.start <= base <= log.end and epoch_before() == follows
            if history.adversary.is_over or not is_there or source.topic_id(tp.topic) != topic_id:
                return
            source.move_leader(tp, lose_from=base)
            assert log
            if log.end == base:
                log.put_back(branch)
                history.returned.add(tp)
                history.replaced[tp] = history.world.now
                history.note(f"!! the lost branch of {tp} on {source.alias} leads: to {log.end}")

        history.world.at(history.world.now + injection.random.choice((0.5, 30.0, 700.0)), put_back)


def _cut_internal(injection: Injection) -> None:
    target, history = injection.target, injection.history
    # Of topics that others write to, a flow that has lost all that it knew does not know its own copies.
    moments = history.moments[2:] if history.case.both_ways else history.moments or [0.0]
    if not moments:
        return
    moment = injection.random.choice(moments)
    which = injection.random.choice(("ledger", "positions", "both"))
    if which != "positions":
        history.lost_marks |= _cut_since(injection, "ferry-ledger", moment)
    if which != "ledger":
        target.groups.go_back(moment)
    if history.case.certifies and injection.random.random() < 0.5:
        which += ", certificates"
        _cut_since(injection, "ferry-certificates", moment)
    goes_on = any(not task.done for task in history.spark.late)
    history.is_cut_unseen |= goes_on or history.world.now > history.began + _LOOK_S
    injection.note(f"unclean election: {which} truncated to what was there at {moment:.3f}")


def _cut_since(injection: Injection, prefix: str, moment: float) -> bool:
    """Truncate the logs of some topics to what was there at a moment; gives whether that was less."""
    target, ms = injection.target, injection.history.wall_ms(moment)
    is_cut = False
    for tp in [it for it in target.partitions() if it.topic.startswith(prefix)]:
        stored = target.topics[tp.topic].logs[tp.partition].stored
        if later := [it.base for it in stored if it.batch.header.max_timestamp >= ms]:
            target.move_leader(tp, lose_from=later[0])
            is_cut = True
    return is_cut


def _lose_group(injection: Injection) -> None:
    for name in [*injection.target.groups.offsets]:
        if name.startswith("ferry."):
            del injection.target.groups.offsets[name]
    injection.note("the flow's group expires on the target")


def _cut_coordinator(injection: Injection) -> None:
    epochs = injection.random.choice((1, 1, 2, 6))
    injection.target.transactions.go_back(epochs)
    injection.note(
        f"unclean election: coordinators know the last {epochs} epochs of producers no more"
    )


def _expire_ids(injection: Injection) -> None:
    injection.target.transactions.forget()
    for tp in injection.target.partitions():
        log = injection.target.topics[tp.topic].logs[tp.partition]
        log.producers = {of: it for of, it in log.producers.items() if it.open_from >= 0}
    injection.note("idle transactional ids and producer ids expire on the target")


def _move_start(injection: Injection) -> None:
    cluster = injection.cluster
    tp = injection.partition(cluster)
    if tp:
        log = cluster.topics[tp.topic].logs[tp.partition]
        bounds = [at for it in log.stored for at in (it.base, it.base + 1)] or [log.end]
        any_ = injection.random.randint(log.start, log.stable)
        to = injection.random.choice((any_, log.stable, log.end, injection.random.choice(bounds)))
        injection.history.removed |= {value for offset, value in log.records() if offset < to}
        log.move_start(to)
        injection.note(f"the log of {tp} on {cluster.alias} starts at {log.start}")


def _compact(injection: Injection) -> None:
    # More often where the request is that it waits for.
    cluster = injection.random.choice((injection.cluster, injection.source, injection.target))
    names = {
        name
        for name, topic in cluster.topics.items()
        if topic.config("cleanup.policy") == "compact"
    }
    tp = injection.partition(cluster, lambda tp: tp.topic in names)
    if tp:
        log = cluster.topics[tp.topic].logs[tp.partition]
        if cluster is injection.source and injection.random.random() < 0.5:
            cluster.move_leader(tp)
            injection.history.write_all_keys(tp)
        # The active segment is never compacted.
        upto = log.stored[-1].base if log.stored else 0
        removed = log.compact(injection.random.choice((upto, (log.start + upto) // 2)))
        injection.history.removed |= {value for _, value in removed}
        injection.note(f"{tp} on {cluster.alias} is compacted: {len(removed)} records")


def _write_foreign(injection: Injection) -> None:
    tp = injection.partition(injection.target)
    if tp:
        value = b"foreign %d" % injection.random.randrange(10**6)
        injection.target.produce(tp, [(b"k", value)])
        injection.note(f"a foreign client writes to {tp} on the target")


def _grow(injection: Injection) -> None:
    history = injection.history
    topic = injection.random.choice(history.case.topics)
    # Where a flow begins at the ends of logs, what new partitions hold is its own word.
    if topic.name in injection.source.topics and not (
        history.case.backfills or history.case.both_ways
    ):
        history.grown[topic.name] += 1
        injection.source.grow(topic.name, history.partitions(topic))
        injection.note(f"{topic.name} on the source has {history.partitions(topic)} partitions now")


def _delete(injection: Injection) -> None:
    if tp := injection.partition(injection.source):
        logs = injection.source.topics[tp.topic].logs
        injection.history.removed |= {value for log in logs for _, value in log.shown()}
        injection.source.delete(tp.topic)
        injection.note(f"{tp.topic} on the source is deleted")


def _recreate(injection: Injection) -> None:
    cluster = injection.cluster
    written = {tp for it in cluster.transactions.by_id.values() for tp in it.partitions}
    is_near = injection.random.random() < 0.5
    tp = (is_near and injection.partition(cluster, written.__contains__)) or injection.partition(
        cluster
    )
    if tp:
        topic = cluster.topics[tp.topic]
        count, configs = len(topic.logs), topic.configs
        injection.history.forget_topic(cluster, tp.topic)
        cluster.delete(tp.topic)
        cluster.create(tp.topic, count, configs)
        injection.note(f"{tp.topic} on {cluster.alias} is deleted and recreated")


def of_a_process(_: Injection) -> Any:
    raise AssertionError  # No request's: see ``Adversary.happens`` and who calls it.


_STATE: Final = "the target lacks what was proved"
_AT_SOURCE: Final = "the source lacks what was copied"
FAULT_KINDS: Final[Mapping[str, FaultKind]] = {
    "lose request": FaultKind(_lose_request),
    "lose answer": FaultKind(_lose_answer),
    "delay request": FaultKind(_delay_request, frozenset(_WRITES)),
    "hang": FaultKind(_hang),
    "refuse": FaultKind(_refuse, frozenset(ERRORS)),
    "shorten fetch": FaultKind(_shorten, frozenset({"Fetch"})),
    "move leader": FaultKind(_move_leader),
    "lose leader": FaultKind(_lose_leader),
    "move coordinator": FaultKind(_move_coordinator, side="backup"),
    "freeze broker": FaultKind(_freeze),
    "fill disk": FaultKind(_fill_disk, frozenset({"Produce"})),
    "isolate broker": FaultKind(_isolate, side="primary"),
    "step clock": FaultKind(_step_clock),
    "cut source": FaultKind(_lose_end, side="primary", hurts=_AT_SOURCE),
    "cut fetched": FaultKind(_cut_fetched, frozenset({"Fetch"}), side="primary", hurts=_AT_SOURCE),
    "return branch": FaultKind(_return_branch, side="primary", hurts=_AT_SOURCE),
    "cut target": FaultKind(_lose_end, side="backup", hurts=_STATE, touches_target=True),
    "cut internal": FaultKind(_cut_internal, side="backup", hurts=_STATE, touches_target=True),
    "lose group": FaultKind(_lose_group, side="backup"),
    "cut coordinator": FaultKind(_cut_coordinator, side="backup"),
    "expire ids": FaultKind(_expire_ids, side="backup"),
    "move source start": FaultKind(_move_start, side="primary", hurts=_AT_SOURCE),
    "move target start": FaultKind(_move_start, side="backup", touches_target=True),
    "compact": FaultKind(_compact, touches_target=True),
    "write foreign": FaultKind(
        _write_foreign, side="backup", hurts="foreign records", touches_target=True
    ),
    "grow source": FaultKind(_grow, side="primary"),
    "delete source": FaultKind(_delete, side="primary", hurts=_AT_SOURCE),
    "recreate source": FaultKind(_recreate, side="primary", hurts=_AT_SOURCE),
    "recreate target": FaultKind(_recreate, side="backup", hurts=_STATE, touches_target=True),
    **dict.fromkeys(
        ("kill task", "kill driver", "pause task", "strand task"), FaultKind(of_a_process)
    ),
    **dict.fromkeys(
        (
            "double task",
            "lose result",
            "late task",
            "lose marker",
            "lose commit",
            "restore state",
            "second run",
            "other writers",
            "empty remote read",
        ),
        FaultKind(of_a_process, once_a_run=True),
    ),
}
