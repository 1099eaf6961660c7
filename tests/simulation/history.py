"""One history: a case from a seed, run under an adversary, and what is wrong with it by the oracles."""

from __future__ import annotations

import json
import logging
import random
import shutil
import tempfile
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.errors import FerryError, VerificationFailed
from kafka_ferry.model import RunOptions
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.run_options import Window
from kafka_ferry.runs import Run
from kafka_ferry.runs.failover.failback import failback
from kafka_ferry.runs.failover.failover import failover
from tests.simulation.adversary import Adversary
from tests.simulation.brokers.cluster import SimCluster
from tests.simulation.brokers.connection import Network
from tests.simulation.case import Case
from tests.simulation.environment import Spark, simulated
from tests.simulation.operators.other_mirror import copy_before, take_over
from tests.simulation.operators.repairs import repair
from tests.simulation.oracles.certificates import (
    certificate_options,
    check_certified,
    check_chain,
)
from tests.simulation.oracles.questions import ask
from tests.simulation.oracles.runs import BESIDE, Oracles, Wrong
from tests.simulation.rule import rule_options
from tests.simulation.world import Endless, Killed, Process, Task

_SHM: Final = Path("/dev/shm")
_STEPS: Final = ("plan", "sync_topics", "mirror", "verify", "sync_groups", "publish")
_MORE_RUNS: Final = 4
_MOVES: Final = 0.3


@dataclass
class History(Oracles):
    """A case as it runs.

    Attributes:
        encoded: whether each message passes through bytes, as on the wire.
        number: the run that goes on, or did.
        step: its step.
        driver: its driver.
        moments: when runs ended.
    """

    encoded: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.adversary = Adversary(self, self.case.faults)
        clusters = {"primary": self.source, "backup": self.target}
        self.network = Network(self.world, clusters, self.adversary, encoded=self.encoded)
        self.spark = Spark()
        self.number, self.step, self.driver = 0, "", Process("driver")
        self.moments: list[float] = []
        self._is_at_end = self._is_away = self._is_taken_over = False
        self._silent: dict[str, float] = {}
        self._windows: dict[str, Window | None] = {}
        self._checkpoints: list[Any] = []
        self.ways.append(self)
        if self.case.both_ways:
            self.ways.append(self.turn())
        for way in self.ways:
            way.target.transactions.on_commit = way.check_commit
            way.target.on_delete = way.check_deletion

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
                    self.note(
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

    def run(self) -> Wrong | None:
        """Run the case to its end."""
        folder = Path(tempfile.mkdtemp(prefix="ferry-sim-", dir=_SHM if _SHM.is_dir() else None))
        logging.disable(logging.CRITICAL)
        try:
            self._folder = folder
            for way in self.ways:
                way.flow = self._flow(way)
            with simulated(self.network, self.spark, self.case.seed):
                self._run_all()
        except Endless as error:
            self.blame("e", str(error))
        except Exception as error:
            error.add_note(f"in the simulator, seed {self.case.seed}")
            raise
        finally:
            logging.disable(logging.NOTSET)
            shutil.rmtree(folder, ignore_errors=True)
        return self.wrong

    def _flow(self, way: Oracles, **more: object) -> Flow:
        source, target = way.source, way.target
        content = {
            "source": {"alias": source.alias, "bootstrap.servers": source.bootstrap},
            "target": {"alias": target.alias, "bootstrap.servers": target.bootstrap},
            "topics": [it.name for it in self.case.topics],
            "replication.factor": -1,
            "state.dir": str(self._folder / "state"),
            "emit.heartbeats.enabled": False,
            "emit.checkpoints.enabled": False,
            "sync.topic.acls.enabled": False,
            **self.case.options,
            **self._rule_options(),
            **(certificate_options(self._folder) if self.case.certifies else {}),
            **more,
        }
        file = self._folder / f"{source.alias}.yaml"
        file.write_text(json.dumps(content))
        return load_flow(file)

    def _rule_options(self) -> dict[str, object]:
        if not self.case.rule:
            return {}
        which = int(0 < self.case.rule_until <= self.number)
        return rule_options(self.case.rule, which, self._folder)

    def _run_all(self) -> None:
        for topic in self.case.topics:
            configs = {"cleanup.policy": "compact"} if topic.compacted else {}
            self.source.create(topic.name, topic.partitions, configs)
        for number in range(self.case.runs):
            self.number = number
            for way in self.ways:
                way.write_some(number)
            if self.case.starts_late and not number:
                self.expire_first()
            self._harm_state(number)
            if number and number == self.case.rule_until:
                self.flow = self._flow(self)
                self.note("!! the flow has another rule now")
            if self.case.takes_over:
                self._take_over()
            if fault := self.adversary.happens("lose marker"):
                self._lose_marker(random.Random(fault.pick))
            if fault := self.adversary.happens("other writers"):
                writers = random.Random(fault.pick).randint(1, 5)
                self.flow = self._flow(self, writers=writers)
                self.note(f"!! the flow has {writers} writers now")
            # At the same time, or one after the other.
            main, *others = self.random.sample(self.ways, len(self.ways))
            is_beside = self.random.random() < 0.5
            beside = [self._begin_run(it, f"run-{number}") for it in others if is_beside]
            for way in (main, *others) if not beside else (main,):
                self._run(way, f"run-{number}")
            for task in beside:
                self.world.run(Process("operator"), partial(self.world.join, task))
            if self.case.repairs and self.outcomes[-1] != "verified":
                self._repair(self, self.outcomes[-1])
            if self.case.backfills and self.random.random() < 0.7:
                self._run(self, f"backfill-{number}", self._window())
            if self.case.clears:
                self._clear()
            if self.wrong:
                return
            self.world.pass_time(self.random.choice((1.0, 200.0)))
        self._end()

    def _clear(self) -> None:
        """Let a person clear tasks of a run that is over, so that they are done again."""
        way, name = self.random.choice(self.ways), self.random.choice([*self._windows])
        first, window = self.random.choice(_STEPS), self._windows[name]
        self.note(f"{name} is cleared from {first} on")
        self.driver = Process("driver")
        self.world.run(self.driver, lambda: self._steps(way, name, window, first))

    def _take_over(self) -> None:
        """Let an operator take over, until that is done, what another mirror has copied."""
        self.step = "takeover"
        if not (self.number or self.adversary.is_over):
            copy_before(self)
        self._is_taken_over = self._is_taken_over or take_over(self)

    def _harm_state(self, number: int) -> None:
        """Put the state folder back as it was before an earlier run; before the first, there was none."""
        state = self._folder / "state"
        if number and (fault := self.adversary.happens("restore state")):
            of = fault.pick % number
            shutil.rmtree(state, ignore_errors=True)
            if (copy := self._folder / f"copy-{of}").is_dir():
                shutil.copytree(copy, state)
            self.spark.planned, self.spark.seen = deepcopy(self._checkpoints[of])
            self.note(f"!! the state folder is as it was before run-{of}")
        if any(it.kind == "restore state" for it in self.case.faults):
            self._checkpoints.append(deepcopy((self.spark.planned, self.spark.seen)))
            if state.is_dir():
                shutil.copytree(state, self._folder / f"copy-{number}")

    def _lose_marker(self, rng: random.Random) -> None:
        """Lose the marker of a committed transaction alone, while no run goes on: any run can write it again."""
        logs = {target: log for _, target in self.pairs() if (log := self.target.log(target))}
        ends = {tp: log.stored[-1] for tp, log in logs.items() if log.stored}
        marked = [
            tp
            for tp, end in ends.items()
            if end.batch.header.is_control and all(it.marker != end.base for it in logs[tp].aborted)
        ]
        # Where offsets are preserved, it has one of those that were copied.
        if marked and self.world.is_idle and self.case.options["offsets"] == "translated":
            tp = rng.choice(marked)
            self.target.move_leader(tp, lose_from=ends[tp].base)
            # Nothing else says how it ended where its coordinator forgets it too.
            self.target.skipped_markers.append(tp)
            self.harmed_at = self.spoilt_at = self.world.now
            self.note(f"!! unclean election of {tp} on backup: its last marker is lost")

    def _end(self) -> None:
        """See that the flow gets to the end once nothing goes wrong any more (oracle d)."""
        self.adversary.is_over = True
        self.world.pass_time(600.0)
        if self.case.takes_over:
            self._take_over()
        # What the one flow copies is new to the other one, and what it has left open only its own next run ends.
        for turn in range(len(self.ways)):
            for way in self.ways:
                if not self.wrong:
                    self._end_of(way, f"last-{turn}-" if turn else "last-", turn)

    def _repair(self, way: Oracles, said: str) -> None:
        """Let an operator do what is advised."""
        self.step = "repair"
        if options := repair(way, said):
            way.flow = self._flow(way, **options)

    def _end_of(self, way: Oracles, name: str, turn: int) -> None:
        # One more run would do what the last one did.
        said = "verified" if self._is_at_end and not way.behind() else ""
        for number in range(0 if said else _MORE_RUNS):
            said = self._run(way, f"{name}{number}")
            if self.wrong:
                return
            if said == "verified" and not way.behind():
                break
            if self.is_hurt and way.outcomes[-2:-1] == [said] != ["verified"]:
                # It refuses to go on, as it may.
                break
        for number in range(_MORE_RUNS if self.case.repairs else 0):
            if said == "verified" and not way.behind():
                break
            self._repair(way, said)
            said = self._run(way, f"{name}repaired-{number}")
            if self.wrong:
                return
        if said == "verified" and self.case.backfills:
            said = self._run(self, "last-backfill", self._window(whole=True))
        if self.case.certifies and not self.wrong:
            check_chain(way)
        is_last = turn == len(self.ways) - 1
        may_refuse = self.is_hurt and not self.case.repairs
        if said != "verified" and is_last and not may_refuse and not self._is_stuck(said):
            self.blame("d", f"nothing has hurt, and it ends with: {said}")
        if said == "verified" and is_last and (behind := way.behind()):
            self.blame("d", f"verified, and never gets on: {behind}")

    def _is_stuck(self, said: str) -> bool:
        """Whether a marker was skipped in a way from which a flow is known not to recover by itself.

        Nothing says how the transaction was to end. Or it is of a range without records, whose producer the broker
        has forgotten.
        """
        skipped = [*self.source.skipped_markers, *self.target.skipped_markers]
        # The documents say so: where nothing says how it was to end, a person decides.
        is_unknown = bool(skipped) and "was never ended" in said
        # Nor is anybody left who could end what hides the ledger, or records.
        hidden = "hides the newest records", "hidden from consumers", "that hides them"
        is_hidden = any(text in said for text in hidden)
        is_unknown |= bool(skipped) and self.was_injected("expire ids") and is_hidden
        return is_unknown or self._is_forgotten(said)

    def _is_forgotten(self, said: str) -> bool:
        """Whether it is about a range without records whose producer the broker has forgotten.

        Of one with translated offsets the source proves it, as far as it still has the offsets, and none has returned.
        """
        is_forgotten = self.was_injected("expire ids") and "no writer of" in said
        is_there = all(log.start == 0 for tp, _ in self.pairs() if (log := self.source.log(tp)))
        is_simple = self.case.options.get("offsets") == "translated" and is_there
        is_simple &= not self.case.both_ways
        return is_forgotten and not (is_simple and not self.is_hurt)

    def _window(self, *, whole: bool = False) -> Window:
        """A span of time that ends now, or before."""
        began, now = self.wall_ms(0.0), self.wall_ms(self.world.now) + 1_000
        if whole:
            return Window(began, now)
        until = self.random.randint(began + 1, now)
        return Window(self.random.choice((began, self.random.randint(began, until - 1))), until)

    def _run(self, way: Oracles, name: str, window: Window | None = None) -> str:
        """Run a flow once, or a backfill; gives "verified" or what it said."""
        if self.case.options.get("sync.group.offsets.enabled") or self.case.asks:
            self._move_application()
            self.ways[self._is_away].read_on()
        if self.adversary.happens("second run"):
            self.note("!! another run of the flow begins at the same moment")
            other = Process("driver of another run")
            self.world.spawn(other, lambda: self._steps(way, name + BESIDE))
        way.is_cut_unseen &= any(not task.done for task in self.spark.late)
        self._windows[name] = window
        if self.case.asks:
            self.seen.append((self.world.now, self.shown_by_source()))
        self.driver, faults = Process("driver"), len(self.adversary.injected)
        if self.case.reads_beside:
            self._read_beside(self.driver)
        said: str = self.world.run(self.driver, lambda: self._steps(way, name, window))
        self.driver = Process("nobody")
        if self.case.certifies and said == "verified":
            check_certified(way, name)
        is_alone = len(self.adversary.injected) == faults and self.world.is_idle
        self._is_at_end = is_alone and said == "verified" and not window and len(self.ways) == 1
        self.moments.append(self.world.now)
        way.outcomes.append(said)
        if self.case.asks and way is self and not self.wrong:
            ask(self)
        return said

    def _read_beside(self, driver: Process) -> None:
        """Let the application read on while that driver's run goes on."""

        def read_on() -> None:
            if self.driver is driver:
                self.note(f"the application reads on, while {self.step} goes on")
                self.ways[self._is_away].read_on()

        for _ in range(self.random.randint(1, 3)):
            self.world.at(self.world.now + self.random.random() ** 2, read_on)

    def _move_application(self) -> None:
        """Let the application continue on the other cluster, perhaps, where it goes both ways."""
        if not self.case.both_ways or self.random.random() > _MOVES:
            return
        flow, back = (way.flow for way in self.ways)
        do = partial(failback, flow, back) if self._is_away else partial(failover, flow)
        try:
            self.world.run(Process("operator"), do)
        except (FerryError, Killed) as error:
            self.note(f"the application stays: {error}")
        else:
            self._is_away = not self._is_away
            self.note(f"the application moves {'away' if self._is_away else 'back'}")

    def _begin_run(self, way: Oracles, name: str) -> Task:
        """Begin a run beside the one that follows."""
        process = Process("driver of the opposite flow")
        return self.world.spawn(process, lambda: self._steps(way, name))

    def _steps(
        self, way: Oracles, name: str, window: Window | None = None, first: str = "plan"
    ) -> str:
        """All steps of a run, or those from one on, in a process of its own; as ``_run``."""
        began, run, said = self.world.now, Run(way.flow, name), "verified"
        if not name.endswith(BESIDE):
            way.began = began
        try:
            steps = _STEPS if self.case.publishes else _STEPS[:-1]
            for step in steps[_STEPS.index(first) :]:
                self.step = step
                self._tier()
                if step == "verify":
                    way.judging[name] = self.world.now
                given: tuple[Any, ...] = ()
                if step == "plan":
                    given = (RunOptions(window=window),)
                elif step in ("mirror", "verify"):
                    given = (lambda: self.spark,)
                elif step == "publish":
                    way.published = self.world.now
                try:
                    getattr(run, step)(*given)
                except FerryError as error:
                    if said == "verified":
                        said = str(error)
                        self._judge_error(way, name, began, error, is_whole=first == "plan")
                    # The later steps do what they still can.
                    if step in ("plan", "sync_topics"):
                        break
        except Killed:
            said = "killed"
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            self.blame("e", f"{name}: {said}{_where(error)}")
        # The folder has another name each time.
        said = said.replace(f"{self._folder}/", "")
        self.note(f"{name}{' back' if way is not self else ''}: {said}")
        # What has come since is not in the plan of a run that some steps are done again of.
        if said == "verified" and first == "plan":
            way.check(name, began, window)
        if way.judging.pop(name, None) is not None:
            for _, target in way.pairs():
                shown = log.shown() if (log := way.target.log(target)) else ()
                way.proved.setdefault(target, set()).update(it for _, it in shown)
        return said

    def _judge_error(
        self, way: Oracles, name: str, began: float, error: FerryError, *, is_whole: bool
    ) -> None:
        """Whether an error says nothing, or a whole run blames a copy that is whole."""
        said = str(error)
        way.was_told |= "no longer has all that this run has read of it" in said
        if not error.message.strip():
            self.blame("e", f"{type(error).__name__} without a sentence")
        is_whole &= way.harmed_at < 0 and not self.is_hurt
        # A group that expires after the copy takes the positions along, and the next run restores them.
        is_blamed = isinstance(error, VerificationFailed) and "no position" not in said
        # What cannot be read is not blamed, but told; and of a range without records, whose producer the broker
        # has forgotten, nothing says it.
        is_blamed &= "has no leader" not in said
        is_blamed &= not self._is_forgotten(said)
        # A coordinator that is cut off from the others has old positions.
        is_blamed &= all(until < began for until, _ in way.target.cut_off.values())
        # Of two first runs that begin at the logs' ends, one may have planned what the other has begun.
        is_blamed &= not (self.case.backfills and self.was_injected("second run"))
        if is_whole and is_blamed:
            self.blame("d", f"{name} blames a copy that is whole: {said}")


def _where(error: BaseException) -> str:
    """The last line of the product in a traceback."""
    found, at = "", error.__traceback__
    while at:
        if "kafka_ferry" in at.tb_frame.f_code.co_filename:
            found = f" ({Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno})"
        at = at.tb_next
    return found


def simulate(case: Case, *, encoded: bool = False) -> History:
    """Run a case; gives the history with what is wrong with it."""
    history = History(case, encoded=encoded)
    history.run()
    return history
