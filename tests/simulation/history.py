"""One history: a case from a seed, played under an adversary, and what is wrong with it by the oracles."""

from __future__ import annotations

import json
import logging
import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.errors import FerryError, VerificationFailed
from kafka_ferry.model import RunOptions
from kafka_ferry.model.positions import position_group, position_of
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.run_options import Window
from kafka_ferry.runs import Run
from tests.simulation.adversary import OCCASIONS, POWERS, Adversary, Fault
from tests.simulation.cluster import SimCluster
from tests.simulation.connection import Network
from tests.simulation.coordinators import Committed
from tests.simulation.seams import Spark, simulated
from tests.simulation.world import BEGAN, Endless, Killed, Process, World

_SHM: Final = Path("/dev/shm")
_STEPS: Final = ("plan", "sync_topics", "mirror", "verify", "sync_groups", "publish")
_MORE_RUNS: Final = 4
OFTEN: Final = (1, 2, 3, 5, 8, 13, 30, 80, 200)
RARE: Final = (1, 1, 2, 3)
# By side, the steps and requests between which something begins or ends.
MOMENTS: Final[Mapping[str, Sequence[str]]] = {
    "primary": (
        "plan ListOffsets",
        "plan Fetch",
        "mirror Fetch",
        "mirror Fetch",
        "mirror Metadata",
        "mirror OffsetForLeaderEpoch",
        "verify ListOffsets",
        "sync_groups OffsetFetch",
    ),
    "backup": (
        "plan OffsetFetch",
        "plan ListOffsets",
        "sync_topics Metadata",
        "mirror FindCoordinator",
        "mirror InitProducerId",
        "mirror DescribeProducers",
        "mirror OffsetFetch",
        "mirror AddPartitionsToTxn",
        "mirror AddOffsetsToTxn",
        "mirror Produce",
        "mirror Produce",
        "mirror TxnOffsetCommit",
        "mirror EndTxn",
        "mirror EndTxn",
        "verify Fetch",
        "verify Produce",
        "publish Produce",
    ),
}
_GROUP: Final = "application"
_BESIDE: Final = "-beside"
_KEYS: Final = 12


@dataclass(frozen=True)
class TopicCase:
    """A topic of a case.

    Attributes:
        compacted: whether it compacts.
        tiered: whether its older records are in remote storage only.
    """

    name: str
    partitions: int
    compacted: bool = False
    tiered: bool = False


@dataclass(frozen=True)
class Case:
    """All that decides a history.

    Attributes:
        records: of each partition in each run.
        options: the flow's.
        transactions: the share of batches that belong to transactions of the source.
        quiet_from: the run from which on nothing new is written.
        backfills: whether the first run begins at the logs' ends, and backfills bring what was before.
        answer_bytes: how much brokers give at a time (``fetch.max.bytes``); 0 for all that is asked for.
        distance_s: how long a request takes at least to the source.
        producers: how many write a partition's transactions on the source, one after the other; 0 for a new one each.
        offset_bytes: how much one request may commit of a group (``max.message.bytes``).
    """

    seed: int
    topics: tuple[TopicCase, ...]
    runs: int
    records: int
    options: Mapping[str, object]
    transactions: float
    faults: tuple[Fault, ...]
    quiet_from: int = 9
    backfills: bool = False
    answer_bytes: int = 0
    distance_s: float = 0.0
    producers: int = 0
    offset_bytes: int = 1_048_576

    @classmethod
    def of(cls, seed: int, powers: tuple[str, ...] = tuple(POWERS), faults: int = 5) -> Case:
        """The case of a seed."""
        rng = random.Random(seed)
        kinds = [(False, rng.random() < 0.3), (rng.random() < 0.4, rng.random() < 0.5)]
        backfills = rng.random() < 0.25
        topics = tuple(
            TopicCase(name, rng.randint(1, 4), compacted and not backfills, tiered)
            for name, (compacted, tiered) in zip(("orders", "users"), kinds, strict=True)
        )
        options: dict[str, object] = {
            "auto.offset.reset": "latest" if backfills else "earliest",
            "writers": rng.randint(1, 3),
            "on.source.truncation": rng.choice(("fail", "continue")),
            "on.source.divergence": rng.choice(("fail", "continue", "continue")),
            "on.source.topic.recreated": rng.choice(("fail", "append")),
            "on.target.topic.lost": rng.choice(("fail", "recopy")),
            "on.position.moved": rng.choice(("fail", "ledger")),
            "partition.wait.ms": rng.choice((5_000, 60_000)),
            "join.batches.below": rng.choice((0, 32768)),
            "sync.group.offsets.enabled": rng.random() < 0.4,
            "offsets": "translated"
            if backfills
            else rng.choice(("translated", "auto", {"orders": "preserved"})),
            "fill": rng.choice(("auto", "transactions")),
            "transaction.max.bytes": rng.choice((1, 1_000, 67_108_864, 67_108_864)),
        }
        # Few kinds in a history, so that each meets itself and each other more often (swarm testing).
        kinds_of_faults = rng.sample(powers, min(len(powers), rng.choice((1, 2, 3, 5))))
        chosen: list[Fault] = []
        for power in rng.choices(kinds_of_faults, k=faults):
            chosen.append(_aimed(rng, power, chosen))
        return cls(
            seed,
            topics,
            3,
            rng.choice((20, 50)),
            options,
            rng.choice((0.0, 0.3)),
            tuple(chosen),
            rng.choice((1, 2, 9, 9)),
            backfills,
            rng.choice((0, 0, 1_024, 400)),
            rng.choice((0.0, 0.0, 0.02)),
            rng.choice((1, 2)),
            rng.choice((700, 1_048_576, 1_048_576)),
        )


def _aimed(rng: random.Random, power: str, before: Sequence[Fault]) -> Fault:
    """A fault at a boundary more often than anywhere: at the requests of a step's turn, or where another one is."""
    pick, run = rng.getrandbits(32), rng.choice((0, 0, 1, 1, 2))
    if power in OCCASIONS:
        return Fault(power, rng.choice(RARE), pick, run)
    if rng.random() < 0.25:
        return Fault(power, rng.choice(OFTEN), pick, run)
    kind = POWERS[power]
    fits = [
        (side, it)
        for side, moments in MOMENTS.items()
        for it in moments
        if kind.side in ("", side) and (not kind.fits or it.split()[1] in kind.fits)
    ]
    near = [it for it in before if any(it.at == moment for _, moment in fits)]
    if near and rng.random() < 0.5:
        other = rng.choice(near)
        return Fault(power, other.nth + rng.choice((0, 0, 1)), pick, other.run, other.at)
    return Fault(power, rng.choice((1, 1, 2, 2, 3, 4, 6)), pick, run, rng.choice(fits)[1])


@dataclass
class Wrong:
    """What an oracle says.

    Attributes:
        oracle: its letter.
        what: a sentence.
    """

    oracle: str
    what: str


@dataclass
class History:
    """A case as it is played.

    Attributes:
        removed: values that retention or compaction took, on either side.
        order: by value, its partition, the how manieth it is, and its offset on the source.
        aborted: values of aborted transactions.
        replaced: when a partition of the source last lost its log's end to another branch.
        returned: partitions of the source of which a lost branch came back: the target may hold it twice.
        judging: the runs that are between reading back and their word, and since when.
        lost_marks: whether the ledger may no longer say that the flow has created its topics: of others, records
            before the first that it has copied are not its own.
        proved: by partition of the target, what has ever been there when a run had read it back.
        moments: when runs ended.
        story: what happened.
        wrong: what is wrong; None while nothing is.
    """

    case: Case
    encoded: bool = False
    removed: set[bytes | None] = field(default_factory=set)
    order: dict[bytes, tuple[TopicPartition, int, int]] = field(default_factory=dict)
    aborted: set[bytes] = field(default_factory=set)
    replaced: dict[TopicPartition, float] = field(default_factory=dict)
    returned: set[TopicPartition] = field(default_factory=set)
    judging: dict[str, float] = field(default_factory=dict)
    lost_marks: bool = False
    proved: dict[TopicPartition, set[bytes | None]] = field(default_factory=dict)
    moments: list[float] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    wrong: Wrong | None = None

    def __post_init__(self) -> None:
        seed = self.case.seed
        self.world = World(seed)
        self.random = random.Random(f"records {seed}")
        self.source = SimCluster("primary", self.world, seed)
        self.target = SimCluster("backup", self.world, seed)
        self.source.distance_s = self.case.distance_s
        self.target.offset_bytes = self.case.offset_bytes
        self.source.answer_bytes = self.target.answer_bytes = self.case.answer_bytes
        self.adversary = Adversary(self, self.case.faults)
        clusters = {"primary": self.source, "backup": self.target}
        self.network = Network(self.world, clusters, self.adversary, encoded=self.encoded)
        self.spark = Spark()
        self.outcomes: list[str] = []
        self._silent: dict[str, float] = {}
        self._checkpoints: list[Any] = []
        self.harmed_at = -1.0
        self._numbers = 0
        self.number, self.step = 0, ""
        self.written_at: dict[bytes, int] = {}
        self._producers: dict[tuple[TopicPartition, str, int], int] = {}
        self._open: dict[tuple[TopicPartition, int], set[bytes]] = {}

    def tell(self, what: str) -> None:
        """Add a line to the story."""
        self.story.append(f"{self.world.now:9.3f} {what}")

    def wall_ms(self, moment: float) -> int:
        """A moment of the brokers' clocks."""
        return int((BEGAN + moment) * 1000)

    def data_topics(self, cluster: SimCluster) -> set[str]:
        """The topics on a cluster that hold the flow's data."""
        prefix = "" if cluster is self.source else f"{self.source.alias}."
        return {prefix + it.name for it in self.case.topics} & cluster.topics.keys()

    def forget_topic(self, cluster: SimCluster, name: str) -> None:
        """Note that a topic's records go."""
        for log in cluster.topics[name].logs if cluster is self.source else ():
            self.removed |= {value for _, value in log.shown()}

    def empty_remote(self, cluster: SimCluster, answer: Any, request: Any) -> None:
        """Give nothing of remote storage while that is slow: no error, and the right ends (KIP-405)."""
        for asked, topic in zip(request.topics, answer.responses, strict=True):
            name = topic.topic or cluster.name_of(topic.topic_id)
            for part, data in zip(asked.partitions, topic.partitions, strict=True):
                log = cluster.log(TopicPartition(name, data.partition_index))
                if log is None or not data.records or part.fetch_offset >= log.remote_to:
                    continue
                if fault := self.adversary.happens("empty remote read"):
                    seconds = random.Random(fault.pick).choice((0.0, 1.0, 20.0, 400.0))
                    self._silent[cluster.alias] = self.world.now + seconds
                    self.tell(
                        f"!! remote storage of {cluster.alias} is slow for {seconds} s ({name})"
                    )
                    data.records = b""
                if self.world.now < self._silent.get(cluster.alias, 0.0):
                    data.records = b""

    def _tier(self) -> None:
        """Move older records to remote storage, where a topic has any."""
        tiered = {it.name for it in self.case.topics if it.tiered}
        tiered |= {f"primary.{name}" for name in tiered}
        for cluster in (self.source, self.target):
            for name in tiered & cluster.topics.keys():
                for log in cluster.topics[name].logs:
                    log.remote_to = log.stored[-1].base if log.stored else 0

    # --- play

    def play(self) -> Wrong | None:
        """Play the case to its end."""
        folder = Path(tempfile.mkdtemp(prefix="ferry-sim-", dir=_SHM if _SHM.is_dir() else None))
        logging.disable(logging.CRITICAL)
        try:
            self._folder = folder
            flow = self._flow()
            with simulated(self.network, self.spark, self.case.seed):
                self._play(flow)
        except Endless as error:
            self._blame("e", str(error))
        except Exception as error:
            error.add_note(f"in the simulator, seed {self.case.seed}")
            raise
        finally:
            logging.disable(logging.NOTSET)
            shutil.rmtree(folder, ignore_errors=True)
        return self.wrong

    def _flow(self, **more: object) -> Flow:
        content = {
            "source": {"alias": "primary", "bootstrap.servers": self.source.bootstrap},
            "target": {"alias": "backup", "bootstrap.servers": self.target.bootstrap},
            "topics": [it.name for it in self.case.topics],
            "replication.factor": -1,
            "state.dir": str(self._folder / "state"),
            "emit.heartbeats.enabled": False,
            "emit.checkpoints.enabled": False,
            "sync.topic.acls.enabled": False,
            **self.case.options,
            **more,
        }
        file = self._folder / "flow.yaml"
        file.write_text(json.dumps(content))
        return load_flow(file)

    def _play(self, flow: Flow) -> None:
        for topic in self.case.topics:
            configs = {"cleanup.policy": "compact"} if topic.compacted else {}
            self.source.create(topic.name, topic.partitions, configs)
        for number in range(self.case.runs):
            self.number = number
            self._write_some(number)
            self._harm_state(number)
            if fault := self.adversary.happens("other writers"):
                writers = random.Random(fault.pick).randint(1, 5)
                flow = self._flow(writers=writers)
                self.tell(f"!! the flow has {writers} writers now")
            self._run(flow, f"run-{number}")
            if self.case.backfills and self.random.random() < 0.7:
                self._run(flow, f"backfill-{number}", self._window())
            if self.wrong:
                return
            self.world.pass_time(self.random.choice((1.0, 200.0)))
        self._end(flow)

    def _harm_state(self, number: int) -> None:
        """Lose the state folder, or put back what it was before an earlier run."""
        state = self._folder / "state"
        if self.adversary.happens("lose state"):
            shutil.rmtree(state, ignore_errors=True)
            self.tell("!! the state folder is lost")
        if number and (fault := self.adversary.happens("restore state")):
            of = fault.pick % number
            shutil.rmtree(state, ignore_errors=True)
            if (copy := self._folder / f"copy-{of}").is_dir():
                shutil.copytree(copy, state)
            self.spark.planned, self.spark.seen = deepcopy(self._checkpoints[of])
            self.tell(f"!! the state folder is as it was before run-{of}")
        if any(it.power == "restore state" for it in self.case.faults):
            self._checkpoints.append(deepcopy((self.spark.planned, self.spark.seen)))
            if state.is_dir():
                shutil.copytree(state, self._folder / f"copy-{number}")

    def _end(self, flow: Flow) -> None:
        """See that the flow gets to the end once nothing goes wrong any more (oracle d)."""
        self.adversary.is_over = True
        self.world.pass_time(600.0)
        said = ""
        for number in range(_MORE_RUNS):
            said = self._run(flow, f"last-{number}")
            if self.wrong:
                return
            if said == "verified" and not self._behind(flow):
                break
        if said == "verified" and self.case.backfills:
            said = self._run(flow, "last-backfill", self._window(whole=True))
        if said != "verified" and not self._is_hurt:
            self._blame("d", f"nothing has hurt, and it ends with: {said}")
        if said == "verified" and (behind := self._behind(flow)):
            self._blame("d", f"verified, and never gets on: {behind}")

    def _window(self, *, whole: bool = False) -> Window:
        """A span of time that ends now, or before."""
        began, now = self.wall_ms(0.0), self.wall_ms(self.world.now) + 1_000
        if whole:
            return Window(began, now)
        until = self.random.randint(began + 1, now)
        return Window(self.random.choice((began, self.random.randint(began, until - 1))), until)

    def _has_struck(self, power: str) -> bool:
        return any(it.power == power for it in self.adversary.struck)

    @property
    def _is_hurt(self) -> bool:
        """Whether a run may refuse to go on."""
        return any(POWERS[it.power].hurts for it in self.adversary.struck)

    def _behind(self, flow: Flow) -> str:
        for source, target in self.pairs():
            position = self._positions(flow).get(target)
            log = self.source.log(source)
            if log and position is not None and position.offset < log.stable:
                return f"{source} is at {position.offset} of {log.stable}"
            if log and position is None and log.shown():
                return f"{source} has no position"
        return ""

    def _run(self, flow: Flow, name: str, window: Window | None = None) -> str:
        """Run a flow once, or a backfill; gives "verified" or what it said."""
        if self.case.options.get("sync.group.offsets.enabled"):
            self._read_on()
        if self.adversary.happens("second run"):
            self.tell("!! another run of the flow begins at the same moment")
            other = Process("driver of another run")
            self.world.spawn(other, lambda: self._steps(flow, name + _BESIDE))
        said: str = self.world.run(Process("driver"), lambda: self._steps(flow, name, window))
        self.moments.append(self.world.now)
        self.outcomes.append(said)
        return said

    def _steps(self, flow: Flow, name: str, window: Window | None = None) -> str:
        """All steps of a run, in a process of its own; as ``_run``."""
        began, run, said = self.world.now, Run(flow, name), "verified"
        try:
            for step in _STEPS:
                self.step = step
                self._tier()
                if step == "verify":
                    self.judging[name] = self.world.now
                given: tuple[Any, ...] = ()
                if step == "plan":
                    given = (RunOptions(window=window),)
                elif step in ("mirror", "verify"):
                    given = (lambda: self.spark,)
                getattr(run, step)(*given)
        except FerryError as error:
            said = str(error)
            if not error.message.strip():
                self._blame("e", f"{type(error).__name__} without a sentence")
            is_whole = self.harmed_at < 0 and not self._is_hurt
            # A group that expires after the copy takes the positions along, and the next run restores them.
            is_blamed = isinstance(error, VerificationFailed) and "no position" not in said
            # Of two first runs that begin at the logs' ends, one may have planned what the other has begun.
            is_blamed &= not (self.case.backfills and self._has_struck("second run"))
            if is_whole and is_blamed:
                self._blame("d", f"{name} blames a copy that is whole: {said}")
        except Killed:
            said = "killed"
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            self._blame("e", f"{name}: {said}{_where(error)}")
        self.tell(f"{name}: {said}")
        if said == "verified":
            self._check(flow, name, began, window)
        if self.judging.pop(name, None) is not None:
            for _, target in self.pairs():
                log = self.target.log(target)
                self.proved.setdefault(target, set()).update(it for _, it in log.shown() if log)
        return said

    def _blame(self, oracle: str, what: str) -> None:
        self.wrong = self.wrong or Wrong(oracle, what)

    # --- what the source's clients do

    def _read_on(self) -> None:
        """Let an application read some of what is new on the source."""
        before = self.source.groups.offsets.get(_GROUP, {})
        offsets = {}
        for tp, _ in self.pairs():
            if log := self.source.log(tp):
                least = max(before[tp].offset if tp in before else 0, log.start)
                at = self.random.randint(min(least, log.stable), log.stable)
                offsets[tp] = Committed(at, -1, "")
        self.source.groups.commit(_GROUP, offsets)

    def _write_some(self, run: int) -> None:
        if run >= self.case.quiet_from:
            return
        for topic in self.case.topics:
            for number in range(topic.partitions):
                tp = TopicPartition(topic.name, number)
                left = self.random.randint(0, self.case.records)
                moment = self.world.now
                while left > 0:
                    count = min(left, self.random.randint(1, 8))
                    left -= count
                    if self.random.random() < 0.3:
                        moment += self.random.random()
                        self.world.at(moment, lambda tp=tp, count=count: self._write(tp, count))  # type: ignore[misc]
                    else:
                        self._write(tp, count)

    def write_up_to(self, tp: TopicPartition, end: int) -> None:
        """Let the source's clients go on until a log ends there, or a little later."""
        while (log := self.source.log(tp)) and log.end < end:
            self._write(tp, min(end - log.end, self.random.randint(1, 8)))

    def write_all_keys(self, tp: TopicPartition) -> None:
        """Write each key once more, in a batch, and one record after it."""
        self._write(tp, _KEYS, in_turn=True)
        self._write(tp, 1)

    def _write(self, tp: TopicPartition, count: int, *, in_turn: bool = False) -> None:
        log = self.source.log(tp)
        if log is None:
            return
        values = []
        for at in range(count):
            self._numbers += 1
            value = b"%s/%d" % (str(tp).encode(), self._numbers)
            values.append((b"k%d" % (at if in_turn else self.random.randrange(_KEYS)), value))
        codec = self.random.choice((0, 0, 1, 4))
        producer, is_open = None, False
        if self.random.random() < self.case.transactions:
            producer, is_open = self._producer(tp)
        state = None if producer is None else (producer, 0, log.next_sequence(producer))
        offsets = self.source.produce(tp, values, codec=codec, producer=state)
        first = self._numbers - count + 1
        for at, (offset, (_, value)) in enumerate(zip(offsets, values, strict=True)):
            self.order[value] = tp, first + at, offset
            self.written_at[value] = self.source.now_ms() + at
        if producer is None:
            return
        written = {value for _, value in values}
        if is_open:
            self._open[tp, producer] |= written
            return
        commit = self.random.random() < 0.6
        self._open[tp, producer] = written

        def end() -> None:
            values = self._open.pop((tp, producer))
            if not commit:
                self.aborted |= values
            if (now := self.source.log(tp)) and producer in now.producers:
                now.mark(
                    producer, 0, commit=commit, coordinator_epoch=0, now_ms=self.source.now_ms()
                )
            elif now:
                # Its records are gone with the log's end.
                self.removed |= values

        self.world.at(self.world.now + self.random.choice((0.0, 0.1, 30.0)), end)

    def _producer(self, tp: TopicPartition) -> tuple[int, bool]:
        """Whose transaction is next in a partition, and whether it goes on with one that is open."""
        log = self.source.log(tp)
        if not self.case.producers or log is None:
            return self.source.new_producer(), False
        # Of topics that were recreated nobody knows them.
        key = tp, self.source.topic_id(tp.topic), self.random.randrange(self.case.producers)
        producer = self._producers.setdefault(key, self.source.new_producer())
        is_open = log.producers[producer].open_from >= 0 if producer in log.producers else False
        if is_open != ((tp, producer) in self._open):
            # The log's end is lost, with its transaction's begin or its marker.
            producer = self._producers[key] = self.source.new_producer()
            is_open = False
        return producer, is_open

    # --- oracles (a), (b) and (c)

    def pairs(self) -> Iterator[tuple[TopicPartition, TopicPartition]]:
        """The partitions of the source, each with its own on the target."""
        for topic in self.case.topics:
            for number in range(topic.partitions):
                yield (
                    TopicPartition(topic.name, number),
                    TopicPartition(f"primary.{topic.name}", number),
                )

    def _positions(self, flow: Flow) -> Mapping[TopicPartition, Any]:
        offsets = self.target.groups.offsets.get(position_group(flow.name), {})
        return {tp: position_of(it.offset, it.metadata, it.epoch) for tp, it in offsets.items()}

    def _check(self, flow: Flow, name: str, began: float, window: Window | None) -> None:
        """What a consumer of the target reads, now that a run says "verified"."""
        positions = self._positions(flow)
        for source, target in self.pairs():
            there = self.target.log(target)
            shown = there.shown() if there else []
            have = [value for _, value in shown]
            # What another client has written is for the flow's own runs to see, and they do.
            if not window or self.harmed_at < 0:
                self._check_order(name, source, target, have)
            if self.case.options.get("offsets") == {source.topic: "preserved"}:
                self._check_offsets(name, target, shown)
            log, position = self.source.log(source), positions.get(target)
            if log is None or position is None:
                continue
            if position.topic_id != self.source.topic_id(source.topic):
                continue
            if self.replaced.get(source, -1.0) >= began:
                # The source's log became another one after the plan: the next run has to see that.
                continue
            must = [value for offset, value in log.shown() if offset < position.offset]
            if self.case.backfills and self._is_hurt:
                # A backfill leaves what is not below the position to the flow's own runs, such as a new branch.
                continue
            if self.case.backfills:
                # Where the first run has begun is the flow's own word.
                until = min(window.until_ms, self.wall_ms(began)) if window else 0
                at = self.written_at
                must = [it for it in must if it and window and window.since_ms <= at[it] < until]
            there_now = {*have}
            missing = [it for it in must if it not in there_now and it not in self.removed]
            if self.harmed_at >= began and not self._has_struck("cut internal"):
                # What an earlier run has proved and is lost during this one is for the next one to see.
                missing = [it for it in missing if it not in self.proved.get(target, ())]
            elif self.harmed_at >= began:
                missing = []
            if missing:
                self._blame(
                    "b",
                    f"{name} is verified, and {target} lacks {len(missing)} of {len(must)} records, "
                    f"the first {missing[0]!r}; position {position.offset}",
                )

            # Since a run beside another one has moved the group, the application may have read on. A group moves as
            # one where some topics are preserved, and what a backfill brings lies behind what the group has read.
            is_simple = self.case.options.get("offsets", "translated") == "translated"
            is_simple &= not self.case.backfills and not name.endswith(_BESIDE)
            if is_simple and not self._is_hurt:
                self._check_group(name, source, target)

    def _check_offsets(
        self, name: str, target: TopicPartition, shown: Sequence[tuple[int, bytes | None]]
    ) -> None:
        """Whether each record has the offset that it has on the source."""
        for offset, value in shown:
            if (known := self.order.get(value or b"")) and known[2] != offset:
                what = f"{name} is verified, and {target} has {value!r} at {offset} instead of {known[2]}"
                self._blame("a", what)
                return

    def _check_group(self, name: str, source: TopicPartition, target: TopicPartition) -> None:
        """Whether the application would go on at the first record that it has not read."""
        read = self.source.groups.offsets.get(_GROUP, {}).get(source)
        if read is None:
            return
        at = self.target.groups.offsets.get(_GROUP, {}).get(target)
        log = self.target.log(target)
        for offset, value in log.shown() if log else ():
            is_read = self.order[value or b""][2] < read.offset
            if at is None or is_read != (offset < at.offset):
                where, again = at.offset if at else "nothing", "again" if is_read else "never"
                self._blame(
                    "c",
                    f"{name} is verified, and {_GROUP}, at {read.offset} of {source}, is at {where} of {target}: "
                    f"{value!r} is read {again}",
                )
                return

    def _check_order(
        self, name: str, source: TopicPartition, target: TopicPartition, have: list[bytes | None]
    ) -> None:
        last = 0
        for value in have:
            known = self.order.get(value or b"")
            if known is None and self.lost_marks and not last:
                continue
            if known is None or known[0] != source:
                self._blame(
                    "a", f"{name} is verified, and {target} has {value!r}, unlike the source"
                )
                return
            if value in self.aborted:
                self._blame(
                    "a", f"{name} is verified, and {target} has {value!r}, which was aborted"
                )
                return
            if known[1] <= last and not self.case.backfills and source not in self.returned:
                again = "twice" if have.count(value) > 1 else "out of order"
                self._blame("a", f"{name} is verified, and {target} has {value!r} {again}")
                return
            last = known[1]
        if self.case.backfills and len({*have}) < len(have) and source not in self.returned:
            self._blame("a", f"{name} is verified, and {target} has records twice")


def _where(error: BaseException) -> str:
    """The last line of the product in a traceback."""
    found, at = "", error.__traceback__
    while at:
        if "kafka_ferry" in at.tb_frame.f_code.co_filename:
            found = f" ({Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno})"
        at = at.tb_next
    return found


def play(case: Case, *, encoded: bool = False) -> History:
    """Play a case; gives the history with what is wrong with it."""
    history = History(case, encoded)
    history.play()
    return history
