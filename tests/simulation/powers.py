"""What may go wrong: named powers, each of which strikes at one request that it fits.

Each does what Kafka's documents allow, and says where it does harm that a run may refuse to go on from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka_ferry.model.ranges import TopicPartition
from tests.simulation.brokers.cluster import SimCluster
from tests.simulation.brokers.log import Stored
from tests.simulation.brokers.messages import name_of, unapplied, with_code
from tests.simulation.strikes import Lost, Power, Strike, Unanswered

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
_TXN_STATE, _APPENDED = 48, 20
# A plan looks at the ledger later than that.
_LOOK_S: Final = 0.02
# These come after the request was applied.
_APPLIED: Final = frozenset({7, _APPENDED})
_LOOKS: Final = frozenset({"Fetch", "ListOffsets", "OffsetForLeaderEpoch", "DescribeProducers"})


def _lose_request(strike: Strike) -> Any:
    strike.tell(f"{_name(strike)} is lost")
    raise Lost


def _lose_answer(strike: Strike) -> Any:
    strike.tell(f"the answer to {_name(strike)} is lost")
    strike.apply()
    raise Lost


def _delay_request(strike: Strike) -> Any:
    seconds = strike.random.choice((0.01, 1.0, 35.0))
    strike.tell(f"{_name(strike)} arrives {seconds} s later, its connection is gone")
    world = strike.history.world
    world.at(world.now + seconds, lambda: _late(strike))
    raise Lost


def _late(strike: Strike) -> None:
    strike.apply()


def _hang(strike: Strike) -> Any:
    strike.tell(f"no answer to {_name(strike)}, which was applied")
    strike.apply()
    raise Unanswered


def _name(strike: Strike) -> str:
    return f"{name_of(strike.request)} to {strike.cluster.alias}-{strike.node}"


def _refuse(strike: Strike) -> Any:
    name = name_of(strike.request)
    code = strike.random.choice(ERRORS[name])
    if code == _TXN_STATE and not strike.request.transactional_id:
        code = _APPENDED
    strike.tell(f"{_name(strike)} is answered with error {code}")
    # A leader that has not replicated it yet may be followed by one that lacks it.
    is_kept = name in _LOOKS or (code in _APPLIED and strike.random.random() < 0.5)
    return with_code(strike.apply() if is_kept else unapplied(strike.request), code)


def _shorten(strike: Strike) -> Any:
    answer = strike.apply()
    for topic in answer.responses:
        for data in topic.partitions:
            if data.records:
                keep = strike.random.choice((len(data.records) // 2, len(data.records) - 1))
                data.records = bytes(data.records)[: max(keep, 70)]
    strike.tell(f"{_name(strike)} is answered in part")
    return answer


def _move_leader(strike: Strike) -> Any:
    tp = strike.random.choice(strike.cluster.partitions() or [None])
    if tp:
        strike.cluster.move_leader(tp)
        strike.tell(f"{tp} on {strike.cluster.alias} gets another leader")
    return strike.apply()


def _lose_leader(strike: Strike) -> Any:
    cluster = strike.cluster
    # Where a marker is soon to be written, more often: of data, of the ledger, or of positions.
    open_ = [it for it in cluster.transactions.by_id.values() if it.partitions or it.groups]
    parts = sorted({tp for it in open_ for tp in it.partitions})
    kinds = [
        [tp for tp in parts if not tp.topic.startswith("ferry-")],
        [tp for tp in parts if tp.topic.startswith("ferry-")],
        [TopicPartition(of, -1) for of in sorted({of for it in open_ for of in it.groups})],
    ]
    near = strike.random.choice([it for it in kinds if it] or [cluster.partitions()])
    is_near = strike.random.random() < 0.7
    tp = strike.random.choice((near if is_near else cluster.partitions()) or [None])
    if tp:
        seconds = strike.random.choice((0.05, 0.7, 2.0, 7.0, 30.0, 100.0))
        cluster.leaderless[tp] = strike.history.world.now + seconds
        strike.tell(f"{tp} on {strike.cluster.alias} has no leader for {seconds} s")
    return strike.apply()


def _move_coordinator(strike: Strike) -> Any:
    target = strike.target
    groups = [it for it in sorted(target.groups.offsets) if it.startswith("ferry.")]
    keys = groups * 2 + sorted(target.transactions.by_id)
    if keys:
        key, stale_s = strike.random.choice(keys), strike.random.choice((0.0, 1.0, 30.0, 300.0))
        target.move_coordinator(key, stale_s)
        strike.tell(f"{key} has another coordinator, which the old one notices {stale_s} s later")
    return strike.apply()


def _freeze(strike: Strike) -> Any:
    seconds = strike.random.choice((0.5, 3.0, 20.0, 45.0))
    strike.cluster.frozen[strike.node] = strike.history.world.now + seconds
    strike.tell(f"{strike.cluster.alias}-{strike.node} freezes for {seconds} s")
    world, cluster, node = strike.history.world, strike.cluster, strike.node

    def thaw() -> None:
        if cluster.frozen.get(node, 0.0) <= world.now:
            cluster.frozen.pop(node, None)

    world.at(world.now + seconds, thaw)
    if strike.random.random() < 0.5:
        strike.apply()
    raise Unanswered


def _step_clock(strike: Strike) -> Any:
    seconds = strike.random.choice((-3600, -5, 5, 3600, 90_000))
    strike.history.world.clock_off += seconds
    strike.tell(f"the machine's clock steps by {seconds} s")
    return strike.apply()


def _cut(strike: Strike, cluster: SimCluster) -> tuple[TopicPartition, Sequence[Stored]] | None:
    """Lose the end of a partition's log; gives what is lost."""
    tp = strike.partition(
        cluster, lambda tp: bool(cluster.topics[tp.topic].logs[tp.partition].stored)
    )
    if not tp:
        return None
    log = cluster.topics[tp.topic].logs[tp.partition]
    lost = strike.random.choice(strike.random.choice((log.stored, log.stored[-6:]))).base
    end, stable, stored = log.end, log.stable, log.stored
    cluster.move_leader(tp, lose_from=lost)
    strike.tell(
        f"unclean election of {tp} on {cluster.alias}: [{log.end}, {end}) is lost (stable to {stable})"
    )
    if cluster is strike.source:
        strike.history.replaced[tp] = strike.history.world.now
        # Where the abort's marker is lost, the producer's next transaction takes the records in.
        strike.history.aborted -= {value for _, value in log.unaborted()}
        # The new branch is soon as long as the lost one, a little shorter or longer.
        strike.history.write_up_to(tp, end + strike.random.choice((-end, -end, -1, 0, 1, 5)))
    if strike.random.random() < 0.3:
        # The broker that has led before is preferred, and has followed the new log meanwhile.
        cluster.move_leader(tp)
    return tp, [it for it in stored if it.base >= lost]


def _lose_end(strike: Strike, cluster: SimCluster) -> Any:
    _cut(strike, cluster)
    return strike.apply()


def _return_branch(strike: Strike) -> Any:
    """The replica that has what another one lacked comes back, and leads, once that one is lost."""
    history, source = strike.history, strike.source
    if cut := _cut(strike, source):
        tp, branch = cut
        topic_id = source.topic_id(tp.topic)

        def put_back() -> None:
            log = source.log(tp)
            is_there = log and log.start <= branch[0].base <= log.end
            if history.adversary.is_over or not is_there or source.topic_id(tp.topic) != topic_id:
                return
            source.move_leader(tp, lose_from=branch[0].base)
            assert log
            if log.end == branch[0].base:
                log.put_back(branch)
                history.returned.add(tp)
                history.replaced[tp] = history.world.now
                history.tell(f"!! the lost branch of {tp} on {source.alias} leads: to {log.end}")

        history.world.at(history.world.now + strike.random.choice((0.5, 30.0, 700.0)), put_back)
    return strike.apply()


def _cut_internal(strike: Strike) -> Any:
    target = strike.target
    moment = strike.random.choice(strike.history.moments or [0.0])
    which = strike.random.choice(("ledger", "positions", "both"))
    if which != "positions":
        for tp in target.partitions():
            if tp.topic.startswith("ferry-ledger"):
                log, ms = target.topics[tp.topic].logs[tp.partition], strike.history.wall_ms(moment)
                later = [it.base for it in log.stored if it.batch.header.max_timestamp >= ms]
                if later:
                    target.move_leader(tp, lose_from=later[0])
                    strike.history.lost_marks = True
    if which != "ledger":
        target.groups.go_back(moment)
    now, began = strike.history.world.now, strike.history.began
    strike.history.is_cut_unseen |= now > began + _LOOK_S
    strike.tell(f"unclean election: {which} cut back to what was there at {moment:.3f}")
    return strike.apply()


def _lose_group(strike: Strike) -> Any:
    for name in [*strike.target.groups.offsets]:
        if name.startswith("ferry."):
            del strike.target.groups.offsets[name]
    strike.tell("the flow's group expires on the target")
    return strike.apply()


def _expire_ids(strike: Strike) -> Any:
    strike.target.transactions.forget()
    for tp in strike.target.partitions():
        log = strike.target.topics[tp.topic].logs[tp.partition]
        log.producers = {of: it for of, it in log.producers.items() if it.open_from >= 0}
    strike.tell("idle transactional ids and producer ids expire on the target")
    return strike.apply()


def _move_start(strike: Strike, cluster: SimCluster) -> Any:
    tp = strike.partition(cluster)
    if tp:
        log = cluster.topics[tp.topic].logs[tp.partition]
        bounds = [at for it in log.stored for at in (it.base, it.base + 1)] or [log.end]
        any_ = strike.random.randint(log.start, log.stable)
        to = strike.random.choice((any_, log.stable, log.end, strike.random.choice(bounds)))
        strike.history.removed |= {value for offset, value in log.records() if offset < to}
        log.move_start(to)
        strike.tell(f"the log of {tp} on {cluster.alias} starts at {log.start}")
    return strike.apply()


def _compact(strike: Strike) -> Any:
    # More often where the request is that it waits for.
    cluster = strike.random.choice((strike.cluster, strike.source, strike.target))
    names = {
        name
        for name, topic in cluster.topics.items()
        if topic.config("cleanup.policy") == "compact"
    }
    tp = strike.partition(cluster, lambda tp: tp.topic in names)
    if tp:
        log = cluster.topics[tp.topic].logs[tp.partition]
        if cluster is strike.source and strike.random.random() < 0.5:
            cluster.move_leader(tp)
            strike.history.write_all_keys(tp)
        # The active segment is never compacted.
        upto = log.stored[-1].base if log.stored else 0
        removed = log.compact(strike.random.choice((upto, (log.start + upto) // 2)))
        strike.history.removed |= {value for _, value in removed}
        strike.tell(f"{tp} on {cluster.alias} is compacted: {len(removed)} records")
    return strike.apply()


def _write_foreign(strike: Strike) -> Any:
    tp = strike.partition(strike.target)
    if tp:
        value = b"foreign %d" % strike.random.randrange(10**6)
        strike.target.produce(tp, [(b"k", value)])
        strike.tell(f"a foreign client writes to {tp} on the target")
    return strike.apply()


def _recreate(strike: Strike, cluster: SimCluster) -> Any:
    written = {tp for it in cluster.transactions.by_id.values() for tp in it.partitions}
    is_near = strike.random.random() < 0.5
    tp = (is_near and strike.partition(cluster, written.__contains__)) or strike.partition(cluster)
    if tp:
        topic = cluster.topics[tp.topic]
        count, configs = len(topic.logs), topic.configs
        strike.history.forget_topic(cluster, tp.topic)
        cluster.delete(tp.topic)
        cluster.create(tp.topic, count, configs)
        strike.tell(f"{tp.topic} on {cluster.alias} is deleted and recreated")
    return strike.apply()


def of_a_process(_: Strike) -> Any:
    raise AssertionError  # No request's: see ``Adversary.happens`` and who calls it.


_STATE: Final = "the target lacks what was proved"
_AT_SOURCE: Final = "the source lacks what was copied"
POWERS: Final[Mapping[str, Power]] = {
    "lose request": Power(_lose_request),
    "lose answer": Power(_lose_answer),
    "delay request": Power(
        _delay_request,
        frozenset(
            {
                "Produce",
                "EndTxn",
                "TxnOffsetCommit",
                "AddPartitionsToTxn",
                "InitProducerId",
                "AddOffsetsToTxn",
            }
        ),
    ),
    "hang": Power(_hang),
    "refuse": Power(_refuse, frozenset(ERRORS)),
    "shorten fetch": Power(_shorten, frozenset({"Fetch"})),
    "move leader": Power(_move_leader),
    "lose leader": Power(_lose_leader),
    "move coordinator": Power(_move_coordinator, side="backup"),
    "freeze broker": Power(_freeze),
    "step clock": Power(_step_clock),
    "cut source": Power(
        lambda it: _lose_end(it, it.source),
        side="primary",
        hurts=_AT_SOURCE,
    ),
    "return branch": Power(_return_branch, side="primary", hurts=_AT_SOURCE),
    "cut target": Power(
        lambda it: _lose_end(it, it.target),
        side="backup",
        hurts=_STATE,
        touches_target=True,
    ),
    "cut internal": Power(_cut_internal, side="backup", hurts=_STATE, touches_target=True),
    "lose group": Power(_lose_group, side="backup"),
    "expire ids": Power(_expire_ids, side="backup"),
    "move source start": Power(
        lambda it: _move_start(it, it.source), side="primary", hurts=_AT_SOURCE
    ),
    "move target start": Power(
        lambda it: _move_start(it, it.target), side="backup", touches_target=True
    ),
    "compact": Power(_compact, touches_target=True),
    "write foreign": Power(
        _write_foreign, side="backup", hurts="foreign records", touches_target=True
    ),
    "recreate source": Power(lambda it: _recreate(it, it.source), side="primary", hurts=_AT_SOURCE),
    "recreate target": Power(
        lambda it: _recreate(it, it.target), side="backup", hurts=_STATE, touches_target=True
    ),
    "kill task": Power(of_a_process),
    "kill driver": Power(of_a_process),
    "pause task": Power(of_a_process),
    "double task": Power(of_a_process),
    "lose result": Power(of_a_process),
    "late task": Power(of_a_process),
    "lose state": Power(of_a_process),
    "lose commit": Power(of_a_process),
    "restore state": Power(of_a_process),
    "second run": Power(of_a_process),
    "other writers": Power(of_a_process),
    "empty remote read": Power(of_a_process),
}

OCCASIONS: Final = frozenset(
    {
        "double task",
        "lose result",
        "late task",
        "lose state",
        "lose commit",
        "restore state",
        "second run",
        "other writers",
        "empty remote read",
    }
)
"""The powers that have one occasion in a run, not one with each request."""
