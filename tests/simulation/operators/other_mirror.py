"""Another mirror, of the kind of MirrorMaker 1, and the takeover of what it has copied.

It keeps names and timestamps, copies at least once, and its group on the source says how far it came, or a little less.
"""

from __future__ import annotations

from typing import Final

from kafka_ferry.batches import read_records
from kafka_ferry.batches.record_format.records import dense_batch
from kafka_ferry.errors import FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.runs.takeover.takeover import Takeover
from tests.simulation.brokers.coordinators import Committed
from tests.simulation.oracles.runs import Oracles
from tests.simulation.world import Killed, Process

_GROUP: Final = "mirror"
_SETTLE_S: Final = 0.5
_MOST: Final = 5


def copy_before(history: Oracles) -> None:
    """Copy some of what the source has, before the flow has ever run."""
    offsets = {}
    for topic in history.case.topics:
        history.target.create(
            topic.name, topic.partitions, history.source.topics[topic.name].configs
        )
    for source, target in history.pairs():
        if history.is_compacted(source.topic):
            # Where the target has a newer record of a key than the source, that one is copied once more.
            history.doubled.add(source)
        offsets[source] = Committed(_copy(history, source, target), -1, "")
    history.source.groups.commit(_GROUP, offsets)


def _copy(history: Oracles, source: TopicPartition, target: TopicPartition) -> int:
    """Copy a partition up to some record; gives the offset that was committed last."""
    log, there, rng = history.source.log(source), history.target.log(target), history.random
    assert log
    assert there
    shown = {offset for offset, _ in log.shown()}
    records = [it for of in log.stored for it in read_records(of.batch) if it[0] in shown]
    count = rng.choice((0, len(records), rng.randint(0, len(records))))
    at = committed = 0
    while at < count:
        part = records[at : min(at + rng.randint(1, _MOST), count)]
        batch = dense_batch([(n, *it[1:]) for n, it in enumerate(part)], 0)
        code, _ = there.append(batch, history.target.now_ms())
        assert not code
        at += len(part)
        if rng.random() < 0.1:
            # It is killed, and begins again where it has committed.
            at = committed
            history.doubled.add(source)
        else:
            committed = at
    done = committed if rng.random() < 0.7 else rng.randint(0, committed)
    if done < len(records):
        return records[done][0]
    return log.stable if done else 0


def take_over(history: Oracles) -> bool:
    """Let an operator take over what it has copied; gives whether nothing is left to be taken over."""
    takeover = Takeover(history.flow, settle_s=_SETTLE_S)
    try:
        done = history.world.run(Process("operator"), lambda: takeover.from_mirrormaker1(_GROUP))
    except FerryError as error:
        history.note(f"the takeover is refused: {error}")
    except Killed:
        history.note("the takeover is killed")
    else:
        said = "; ".join(f"{it.topic} {it.state} {it.reason}".rstrip() for it in done)
        history.note(f"the takeover: {said}")
        return all(it.state in ("taken over", "up to date") for it in done)
    return False
