"""The oracles: they know what is true, and nothing of the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from kafka_ferry.config import Flow
from kafka_ferry.model.positions import position_group, position_of
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.run_options import Window
from tests.simulation.adversary import Adversary
from tests.simulation.brokers.coordinators import Transaction
from tests.simulation.case import LARGEST
from tests.simulation.fault_kinds import FAULT_KINDS
from tests.simulation.workload import GROUP, LETTERS, Workload

BESIDE = "-beside"
"""Ends the name of a run that begins beside another one."""


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
class Oracles(Workload):
    """What is true, and what the product has said of it.

    Attributes:
        adversary: meets each request.
        judging: the runs that are between reading back and their word, and since when.
        flow: the flow.
        began: when the run began that goes on.
        published: when its last step began.
        outcomes: what its runs said.
        is_cut_unseen: whether ledger or positions have lost their ends after a run had begun to plan that goes on.
        was_told: whether a run has said that the ledger lost entries: what it knew of earlier backfills may be gone.
        harmed_at: when the target last lost something; -1 for never.
        spoilt_at: when that was something else than the ends of ledger and positions.
        proved: by partition of the target, what has ever been there when a run had read it back.
        wrongs: all that is wrong.
        ways: of each flow: this one, and the one in the opposite direction, where there is one.
        accepted: values that an operator has accepted as missing.
        appended: partitions of the source of which an operator has appended what was missing.
        doubled: those of which another mirror has copied some records twice, or a takeover may let that be done.
    """

    judging: dict[str, float] = field(default_factory=dict)
    began: float = 0.0
    published: float = 0.0
    outcomes: list[str] = field(default_factory=list)
    is_cut_unseen: bool = False
    was_told: bool = False
    harmed_at: float = -1.0
    spoilt_at: float = -1.0
    proved: dict[TopicPartition, set[bytes | None]] = field(default_factory=dict)
    wrongs: list[Wrong] = field(default_factory=list)
    ways: list[Oracles] = field(default_factory=list)
    accepted: set[bytes | None] = field(default_factory=set)
    appended: set[TopicPartition] = field(default_factory=set)
    doubled: set[TopicPartition] = field(default_factory=set)

    adversary: Adversary = field(init=False)
    flow: Flow = field(init=False)

    def turn(self) -> Oracles:
        """The same for the flow in the opposite direction: what is true is shared, what that flow does is its own."""
        other = copy(self)
        other.source, other.target = self.target, self.source
        other.judging, other.proved, other.replaced, other.outcomes = {}, {}, {}, []
        other.committed = {}
        other._begin(f"{other.source.alias}:")
        return other

    @property
    def wrong(self) -> Wrong | None:
        """What is wrong; None while nothing is."""
        return self.wrongs[0] if self.wrongs else None

    @property
    def judges(self) -> bool:
        """Whether a run of any flow is between reading back and its word."""
        return any(it.judging for it in self.ways)

    def was_injected(self, kind: str) -> bool:
        return any(it.kind == kind for it in self.adversary.injected)

    @property
    def is_hurt(self) -> bool:
        """Whether a run may refuse to go on."""
        kinds = [FAULT_KINDS[it.kind] for it in self.adversary.injected]
        if self.case.rule_until and self.case.options["offsets"] != "translated":
            # What an interrupted attempt has left there is of the rule before.
            return True
        return any(it.hurts or (it.touches_target and self.case.both_ways) for it in kinds)

    def behind(self) -> str:
        """What is not copied yet; "" if nothing is."""
        positions = self._positions()
        for source, target in self.pairs():
            position = positions.get(target)
            log = self.source.log(source)
            if log and position is not None and position.offset < log.stable:
                return f"{source} is at {position.offset} of {log.stable}"
            # Where an open transaction hides what is there, nothing is planned, and no position put back.
            if log and position is None and log.shown() and log.stable == log.end:
                return f"{source} has no position"
        return ""

    def missing(self, source: TopicPartition, since: int) -> set[bytes | None]:
        """The values from an offset on that the flow has copied, by its position, and that the target lacks."""
        target = TopicPartition(f"{self.prefix}{source.topic}", source.partition)
        log, there = self.source.log(source), self.target.log(target)
        position = self._positions().get(target)
        if not (log and there and position):
            return set()
        copied = {value for offset, value in log.shown() if since <= offset < position.offset}
        return copied - {value for _, value in there.shown()} - {*self.letters()} - self.left_out

    def blame(self, oracle: str, what: str) -> None:
        self.wrongs.append(Wrong(oracle, what))

    def _positions(self) -> Mapping[TopicPartition, Any]:
        offsets = self.target.groups.offsets.get(position_group(self.flow.name), {})
        return {tp: position_of(it.offset, it.metadata, it.epoch) for tp, it in offsets.items()}

    @property
    def _is_unseen(self) -> bool:
        """Whether ledger and positions have lost what no plan can miss: a run can only tell afterwards.

        It was lost after a plan had looked; or coordinators have forgotten the producers too, so that nothing says
        whose the records are; or it was told, and what the ledger knew of earlier backfills may be gone.
        """
        is_told = self.was_told and self.case.backfills
        is_lost = self.is_cut_unseen or self._is_forgotten_by_all or is_told
        return is_lost or self.spoilt_at >= self.began

    @property
    def _is_forgotten_by_all(self) -> bool:
        """Whether neither a ledger nor coordinators say whose records are."""
        return self.was_injected("cut internal") and self.was_injected("expire ids")

    def check_commit(self, known: Transaction) -> None:
        """What the flow commits in one transaction, whether it is verified or not (oracle f)."""
        own = {target: source for source, target in self.pairs()}
        letters = self.target.log(LETTERS)
        if letters and LETTERS in known.partitions:
            again = {*letters.open_records(known.producer)} & {*self.letters()}
            # Of positions that neither ledger nor group have any more, what is there is compared, but no letters.
            is_forgotten = self.sends_again or self._is_unseen or self.was_injected("cut internal")
            if again and not (self.returned or is_forgotten):
                self.blame("f", f"a transaction commits {min(map(repr, again))} to {LETTERS} again")
        held = {group: self.target.groups.held(group, known.producer) for group in known.groups}
        for tp in sorted(known.partitions & own.keys()):
            log = self.target.log(tp)
            written = log.open_records(known.producer) if log else []
            if not log or not written:
                continue
            again = {*written} & {value for _, value in log.shown()}
            if again and own[tp] not in self.returned | self.doubled and not self._is_unseen:
                self.blame("f", f"a transaction commits {min(map(repr, again))} to {tp} again")
            # A marker that was lost is written again, whatever became of the source's transaction since.
            again = self.proved.get(tp, set())
            if wrong := ({*written} & self._aborted_in(own[tp])) - again:
                self.blame(
                    "f", f"a transaction commits {min(map(repr, wrong))} to {tp}, which was aborted"
                )
            for group, offsets in held.items():
                if tp not in offsets:
                    self.blame(
                        "f", f"a transaction commits records to {tp}, and no position in {group}"
                    )
                    continue
                position = position_of(offsets[tp].offset, offsets[tp].metadata, offsets[tp].epoch)
                if position.remote_topic_id != self.target.topic_id(tp.topic):
                    self.blame(
                        "f", f"a transaction commits records to {tp}, which is another topic by now"
                    )

    def _aborted_in(self, source: TopicPartition) -> set[bytes]:
        """What is aborted in a partition of the source; nothing that became so once the run had begun."""
        log = self.source.log(source)
        if self.replaced.get(source, -1.0) >= self.began or log is None:
            return set()
        later = {value for value, at in self.ended_again.items() if at >= self.began}
        return self.aborted - later - {value or b"" for _, value in log.shown()}

    def check_deletion(self, name: str) -> None:
        """Whether a topic that the flow deletes by itself is gone from the source, and holds its copies alone."""
        if self.sends_again:
            # A person has given copies up.
            return
        if name.removeprefix(self.prefix) in self.source.topics:
            self.blame("f", f"{name} is deleted, and the source has the topic")
        logs = self.target.topics[name].logs
        values = {value for log in logs for _, value in log.shown() if value is not None}
        if others := {it for it in values if it not in self.order or not self.is_of_source(it)}:
            self.blame(
                "f", f"{name} is deleted with {min(others)!r}, which the flow has not copied"
            )

    def check(self, name: str, began: float, window: Window | None) -> None:
        """What a consumer of the target reads, now that a run says "verified"."""
        positions, letters = self._positions(), self.letters()
        for value in letters:
            # Before its range is committed, nothing tells a record that was removed or lost from such a one.
            is_refused = len(value or b"") > LARGEST or value in self.removed or self.harmed_at >= 0
            is_refused |= "failed" in self.fates(value)
            # Of preserved offsets, an earlier attempt may have taken its place for one of a branch that is lost.
            source = self.order[value][0] if value in self.order else None
            is_refused |= source in self.replaced
            if not (source and is_refused) or value in self._aborted_in(source):
                self.blame(
                    "a", f"{name} is verified, and {value!r} is a letter, and was not refused"
                )
        for source, target in self.pairs():
            there = self.target.log(target)
            shown = there.shown() if there else []
            have = [value for _, value in shown]
            # What another client has written is for the flow's own runs to see, and they do.
            if not window or self.harmed_at < 0:
                known = have
                if self.was_injected("expire ids") and self.case.options["offsets"] != "translated":
                    # Where offsets are preserved, whose records lie after the position, nothing says any more: the next
                    # run compares them with the source's, and stops.
                    end = positions[target].offset if target in positions else 0
                    known = [value for offset, value in shown if offset < end]
                # What an ordinary run has copied before, the next ordinary one looks at.
                aborted = set() if window else self._aborted_in(source)
                self._check_order(name, source, target, known, aborted)
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
            if self.case.backfills and self.is_hurt:
                # A backfill leaves what is not below the position to the flow's own runs, such as a new branch.
                continue
            if self.case.backfills:
                # Where the first run has begun is the flow's own word.
                until = min(window.until_ms, self.wall_ms(began)) if window else 0
                at = self.written_at
                must = [it for it in must if it and window and window.since_ms <= at[it] < until]
            # Once all is copied again, another rule need not fail for what the one before did.
            is_again = self.sends_again and (self.case.rule_until or source in self.replaced)
            if (both := {*have} & {*letters}) and not is_again:
                self.blame("a", f"{min(map(repr, both))} is in {target} and a letter")
            there_now = {*have, *letters}
            if self.harmed_at >= 0:
                # What the target's own clients have written there is not the flow's to prove.
                must = [it for it in must if self.is_of_source(it)]
            # Of a transaction that has ended once more since, the next run has to see it.
            # Nothing looks at one around a position that has not moved.
            since = min(self.wall_ms(began), position.at)
            later = {value for value, at in self.ended_again.items() if self.wall_ms(at) >= since}
            gone = self.removed | self.left_out | later
            missing = [it for it in must if it not in there_now and it not in gone]
            if self.harmed_at >= began and not self.was_injected("cut internal"):
                # What an earlier run has proved and is lost during this one is for the next one to see.
                missing = [it for it in missing if it not in self.proved.get(target, ())]
            elif self.harmed_at >= began:
                missing = []
            if missing:
                self.blame(
                    "b",
                    f"{name} is verified, and {target} lacks {len(missing)} of {len(must)} records, "
                    f"the first {missing[0]!r}; position {position.offset}",
                )

            # Since a run beside another one has moved the group, the application may have read on. A group moves as
            # one where some topics are preserved, and what a backfill brings lies behind what the group has read.
            is_simple = bool(self.case.options.get("sync.group.offsets.enabled"))
            is_simple &= self.case.options.get("offsets", "translated") == "translated"
            is_simple &= not window and not name.endswith(BESIDE)
            if is_simple and not self.is_hurt:
                check = self._check_passed if self.case.both_ways else self._check_group
                check(name, source, target)
            elif is_simple and self.read_at.get(source, 0.0) < self.replaced.get(source, -1.0):
                self._check_held(name, source, target, position.offset)

    def is_of_source(self, value: bytes | None) -> bool:
        """Whether the source's own clients have written it first."""
        is_marked = (value or b"").startswith(b"backup:")
        return is_marked == (self.source.alias == "backup")

    def _check_offsets(
        self, name: str, target: TopicPartition, shown: Sequence[tuple[int, bytes | None]]
    ) -> None:
        """Whether each record has the offset that it has on the source."""
        for offset, value in shown:
            if (known := self.order.get(value or b"")) and known[2] != offset:
                what = f"{name} is verified, and {target} has {value!r} at {offset} instead of {known[2]}"
                self.blame("a", what)
                return

    def _check_group(self, name: str, source: TopicPartition, target: TopicPartition) -> None:
        """Whether the application would go on at the first record that it has not read."""
        read = self.source.groups.offsets.get(GROUP, {}).get(source)
        if read is None or source in self.doubled:
            return
        at = self.target.groups.offsets.get(GROUP, {}).get(target)
        log = self.target.log(target)
        is_beside = self.read_at.get(source, -1.0) >= self.began
        for offset, value in log.shown() if log else ():
            is_read = self.order[value or b""][2] < read.offset
            # What a backfill brings lies after what the group has read, and the group may have read on since it moved.
            if is_read and (self.case.backfills or is_beside):
                continue
            if at is None or is_read != (offset < at.offset):
                where, again = at.offset if at else "nothing", "again" if is_read else "never"
                self.blame(
                    "c",
                    f"{name} is verified, and {GROUP}, at {read.offset} of {source}, is at {where} of {target}: "
                    f"{value!r} is read {again}",
                )
                return

    def _check_passed(self, name: str, source: TopicPartition, target: TopicPartition) -> None:
        """Whether the application would pass over nothing that it has not read, of either cluster's records.

        It may read some again: the logs have them in different orders.
        """
        read = self.source.groups.offsets.get(GROUP, {}).get(source)
        at, there = self.target.groups.offsets.get(GROUP, {}).get(target), self.target.log(target)
        for offset, value in there.shown() if at and there else ():
            if at and offset < at.offset and value not in self.read | self.removed:
                what = f"{GROUP} is at {at.offset} of {target} on {self.target.alias}"
                self.blame("c", f"{name} is verified, and {what}: {value!r} is read never")
                return
        if read and read.offset < self.committed.get(source, 0):
            what = (
                f"{GROUP} is set back on {source}, from {self.committed[source]} to {read.offset}"
            )
            self.blame("c", f"{name} is verified, and {what}")

    def _check_held(
        self, name: str, source: TopicPartition, target: TopicPartition, reached: int
    ) -> None:
        """Whether the application, which has read more of a lost branch than is copied of the new one, is held."""
        at, copied = self.target.groups.offsets.get(GROUP, {}).get(target), self.target.log(target)
        read, log = self.source.groups.offsets.get(GROUP, {}).get(source), self.source.log(source)
        if not (at and copied and read and log) or read.offset <= reached:
            return
        shown = [(offset, value or b"") for offset, value in copied.shown()]
        there = {value for _, value in log.records()}
        lost = [self.order[value][2] for _, value in shown if value not in there | self.removed]
        # Of what was never copied the flow knows nothing: such a group goes on as it does on the source.
        for offset, value in shown if read.offset <= max(lost, default=-1) + 1 else ():
            if offset < at.offset and value not in self.read:
                self.blame(
                    "c", f"{name} is verified, and {GROUP} passes over {value!r} of {target}"
                )
                return

    def _check_order(
        self,
        name: str,
        source: TopicPartition,
        target: TopicPartition,
        have: list[bytes | None],
        aborted: set[bytes],
    ) -> None:
        last = 0
        is_excused = source in self.returned | self.doubled
        is_excused |= self.case.both_ways and self._is_forgotten_by_all
        # What one cluster has lost comes back from the other one behind what is new.
        is_any_order = self.case.backfills or (self.case.both_ways and self.is_hurt)
        is_any_order |= source in self.appended
        for value in have:
            known = self.order.get(value or b"")
            if known is None and self.lost_marks and not last:
                continue
            if known is None and self.source.log(source) is None:
                # No run looks at a copy any more whose topic is gone.
                continue
            if known and not self.is_of_source(value):
                # Of the target's own clients.
                continue
            if known is None or known[0] != source:
                self.blame(
                    "a", f"{name} is verified, and {target} has {value!r}, unlike the source"
                )
                return
            if value in aborted:
                self.blame(
                    "a", f"{name} is verified, and {target} has {value!r}, which was aborted"
                )
                return
            if known[1] <= last and not (is_any_order or is_excused):
                again = "twice" if have.count(value) > 1 else "out of order"
                self.blame("a", f"{name} is verified, and {target} has {value!r} {again}")
                return
            last = known[1]
        is_excused |= self.was_told
        copied = [value for value in have if value in self.order]
        if is_any_order and len({*copied}) < len(copied) and not is_excused:
            self.blame("a", f"{name} is verified, and {target} has records twice")
