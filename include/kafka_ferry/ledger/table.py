"""What a flow asks of its ledger's table; ``queries`` has the questions of one step."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_ferry.batches.epochs import EpochHistory
from kafka_ferry.ledger.applied import fold_applied
from kafka_ferry.ledger.claims import is_verification
from kafka_ferry.ledger.epochs import epoch_history
from kafka_ferry.ledger.projection import Projection
from kafka_ferry.ledger.record import CopyingEntry
from kafka_ferry.ledger.rows import (
    LedgerEnd,
    LedgerRange,
    Release,
    backfilled_rows,
    copied_range,
    copied_rows,
    ordinary_rows,
    ranges_of,
)
from kafka_ferry.ledger.synced import (
    DAMAGE,
    Synced,
    fold_synced,
    store_synced,
    stored_name,
    stored_synced,
)
from kafka_ferry.ledger.table_files import holds_files
from kafka_ferry.ledger.topic import entries_with_producers
from kafka_ferry.model.changes import ACCESS_KINDS, Applied
from kafka_ferry.model.cluster_state import Mark, Topic
from kafka_ferry.model.positions import Position, ProducerState
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.run_options import Window

_FOLD_AT_BYTES: Final = 2_000_000


class LedgerTable(Projection):
    """The projected ledger of one flow, and what it says."""

    def ranges(self, *, since: int, of_run: str) -> Iterator[LedgerRange]:
        """The ranges in the ledger from the offset ``since`` on, and all of the run ``of_run``."""
        wanted = (pc.field("ledger_offset") >= since) | (pc.field("run") == of_run)
        return self.matching_ranges(wanted)

    def ranges_within(self, start: int, end: int) -> Iterator[LedgerRange]:
        """The ranges in the ledger from the offset ``start`` on, up to and without ``end``."""
        at = pc.field("ledger_offset")
        return self.matching_ranges((at >= start) & (at < end))

    def ranges_in_topic(self, start: int, end: int) -> Iterator[LedgerRange]:
        """The flow's ranges between two ledger offsets, by the topic that was projected last, and not by the table.

        Raises:
            FerryError: if the ledger cannot be read.
        """
        assert self._topic is not None
        for at, entry, producer_id in entries_with_producers(*self._topic, start):
            if at >= end:
                return
            if isinstance(entry, CopyingEntry) and entry.flow == self._flow and at >= start:
                yield from ranges_of(at, entry, producer_id)

    def matching_ranges(self, wanted: pc.Expression) -> Iterator[LedgerRange]:
        """The ranges of the rows that match."""
        for row in self.read(copied_rows() & wanted).to_pylist():
            window = None if row["since"] is None else Window(row["since"], row["until"])
            yield LedgerRange(
                row["ledger_offset"],
                row["run"],
                copied_range(row),
                row["at"],
                window,
                row["writer"],
            )

    def positions(self) -> dict[TopicPartition, Position]:
        """The last position of each *target* partition, for those that the flow's group has lost."""
        rows = self.read(
            ordinary_rows(),
            [
                "topic_id",
                "partition",
                "remote_topic",
                "remote_topic_id",
                "end",
                "at",
                "leader_epoch",
                "producer",
                "origins",
            ],
        )
        # Later entries replace earlier ones.
        return {
            TopicPartition(row["remote_topic"], row["partition"]): Position(
                row["end"],
                row["topic_id"],
                row["remote_topic_id"],
                row["at"],
                origin="ledger",
                leader_epoch=row["leader_epoch"],
                producer=ProducerState(**row["producer"]) if row["producer"] else None,
                origins=tuple(row["origins"]),
            )
            for row in rows.to_pylist()
        }

    def epochs(self, target: TopicPartition, position: Position) -> EpochHistory:
        """The source's leader epochs of what was copied to a *target* partition, up to ``position``."""
        at = (pc.field("remote_topic") == target.topic) & (
            pc.field("partition") == target.partition
        )
        of_topics = (pc.field("topic_id") == position.topic_id) & (
            pc.field("remote_topic_id") == position.remote_topic_id
        )
        ranges = self.matching_ranges(at & of_topics & ordinary_rows())
        return epoch_history(entry.copied for entry in ranges)

    def target_ends(
        self, topics: Iterable[Topic], *, before: int | None = None
    ) -> dict[TopicPartition, LedgerEnd]:
        """Where the records end that were ever written, of each *target* partition with any.

        Args:
            topics: the remote topics: what went into earlier ones of these names does not count.
            before: the ledger offset before which entries count; None for all.
        """
        wanted = copied_rows() & (pc.field("target_end") >= 0)
        if before is not None:
            wanted &= pc.field("ledger_offset") < before
        keys = ["remote_topic", "remote_topic_id", "partition"]
        columns = ["target_end", "at", "adopted", "compared", "remote_epoch"]
        rows = self.read(wanted, [*keys, *columns])
        # What was compared at a takeover is the other mirror's, also where no record could be matched.
        compared = pc.list_value_length(rows["compared"])
        is_own = pc.equal(pc.add(rows["adopted"], compared), 0)
        own = pc.if_else(is_own, rows["target_end"], pa.scalar(-1, pa.int64()))
        grouped = rows.append_column("own_end", own).group_by(keys, use_threads=False)
        ids = {topic.name: topic.topic_id for topic in topics}
        taken = rows.select([*keys, "target_end", "remote_epoch"]).filter(
            pc.greater_equal(rows["remote_epoch"], 0)
        )
        epochs = {tuple(row.values())[:-1]: row["remote_epoch"] for row in taken.to_pylist()}
        return {
            TopicPartition(row["remote_topic"], row["partition"]): LedgerEnd(
                row["target_end_max"],
                row["at_max"],
                row["own_end_max"] == row["target_end_max"],
                epochs.get((*(row[key] for key in keys), row["target_end_max"]), -1),
            )
            for row in grouped.aggregate(
                [("target_end", "max"), ("at", "max"), ("own_end", "max")]
            ).to_pylist()
            if row["remote_topic"] in ids
            and row["remote_topic_id"] in ("", ids[row["remote_topic"]])
        }

    def topics(self) -> dict[str, str]:
        """The remote topic of each source topic that was ever copied, the newest where it has changed."""
        return self._newest("remote_topic")

    def backfilled_topics(self) -> frozenset[str]:
        """The remote topics that backfills have written to."""
        rows = self.read(backfilled_rows(), ["remote_topic"])
        return frozenset(rows["remote_topic"].to_pylist())

    def rules(self) -> dict[str, str]:
        """By source topic that was ever copied, the fingerprint of the rule of its newest records; "" for none."""
        return self._newest("transform")

    def schema_ids(self) -> dict[str, str]:
        """By source topic that was ever copied, ``Range.schema_ids`` of its newest records."""
        return self._newest("schema_ids")

    def topic_ids(self) -> dict[str, str]:
        """The id of each source topic when it was last copied."""
        return self._newest("topic_id")

    def remote_ids(self) -> dict[str, str]:
        """The id of each remote topic when it was last copied to."""
        return self._newest("remote_topic_id", of="remote_topic")

    def _newest(self, column: str, *, of: str = "topic") -> dict[str, str]:
        # Of one thread, the last one is the newest.
        rows = self.read(ordinary_rows(), [of, column]).group_by(of, use_threads=False)
        newest = rows.aggregate([(column, "last")])
        return dict(zip(newest[of].to_pylist(), newest[f"{column}_last"].to_pylist(), strict=True))

    def marks(self) -> dict[str, Mark]:
        """The newest mark on each remote topic's name; its id tells whether it is still that topic."""
        rows = self.read(self._own("ownership"), [field.name for field in dataclasses.fields(Mark)])
        return {row["remote_topic"]: Mark(**row) for row in rows.to_pylist()}

    def mark_times(self) -> dict[str, int]:
        """By remote topic's id, when the flow has first marked it, in milliseconds since 1970."""
        rows = self.read(self._own("ownership"), ["remote_topic_id", "at"]).to_pylist()
        return {row["remote_topic_id"]: row["at"] for row in reversed(rows)}

    def released_topics(self) -> frozenset[str]:
        """The ids of the remote topics that the flow has given up."""
        return frozenset(release.remote_topic_id for release in self.releases())

    def releases(self) -> list[Release]:
        """The remote topics that the flow has given up, in the ledger's order."""
        columns = list(Release._fields)
        rows = self.read(self._own("release"), columns).select(columns)
        return [Release(*row.values()) for row in rows.to_pylist()]

    def topics_of_first_run(self) -> frozenset[str]:
        """The ids of the remote topics that the flow's first run has marked."""
        rows = self.read(self._own("ownership"), ["run", "remote_topic_id"]).to_pylist()
        return frozenset(row["remote_topic_id"] for row in rows if row["run"] == rows[0]["run"])

    def topics_created_since(self, ledger_offset: int, *, but_by: str = "") -> frozenset[str]:
        """The remote topics that runs of the flow other than ``but_by`` have created, and marked since then."""
        marked = self._own("ownership") & _by_others_since(ledger_offset, but_by)
        rows = self.read(marked, ["remote_topic", "created"]).to_pylist()
        return frozenset(row["remote_topic"] for row in rows if row["created"])

    def creators(self) -> dict[str, frozenset[str]]:
        """By remote topic that is about to be created, the runs that have said so."""
        rows = self.read(pc.field("type") == "applied", ["run", "applied"]).to_pylist()
        by_run: dict[str, list[str]] = {}
        for row in rows:
            by_run.setdefault(row["run"], []).append(row["applied"])
        creators: dict[str, frozenset[str]] = {}
        for run, entries in by_run.items():
            for name in fold_applied(entries).creations:
                creators[name] = creators.get(name, frozenset()) | {run}
        return creators

    def other_owners(self) -> dict[str, str]:
        """By remote topic's id, the other flow that copies to it: the first in this ledger that has marked it.

        One that gives the topic back, or gives it up, leaves it to the next one.
        """
        wanted = (pc.field("type") == "ownership") | (pc.field("type") == "release")
        owners: dict[str, str] = {}
        columns = ["type", "flow", "remote_topic_id", "given_back"]
        for row in self.read(wanted, columns).to_pylist():
            flow, topic_id = row["flow"], row["remote_topic_id"]
            if row["type"] == "ownership" and not row["given_back"]:
                owners.setdefault(topic_id, flow)
            elif owners.get(topic_id) == flow:
                del owners[topic_id]
        # Brokers before 2.8 give topics no ids.
        return {key: flow for key, flow in owners.items() if key and flow != self._flow}

    def _own(self, kind: str) -> pc.Expression:
        """The flow's own rows of a kind that the table has of all flows."""
        return (pc.field("type") == kind) & (pc.field("flow") == self._flow)

    def applied(self) -> Applied:
        """What the flow has applied on the target other than topics and records, from all entries."""
        rows = self.read(pc.field("type") == "applied", ["applied"])
        return fold_applied(rows["applied"].to_pylist())

    def synced_groups(self) -> Synced:
        """What was last committed for groups: by group, then by remote topic's id and partition."""
        try:
            since, synced = stored_synced(self._folder)
        except DAMAGE:
            damaged = stored_name(self._folder)
            # Merged files do not have its content: only the topic still has it.
            self.project_again([damaged], all_of_it=True)
            since, synced = stored_synced(self._folder)
        end = self.next_offset
        later = (pc.field("type") == "groups") & (pc.field("ledger_offset") >= since)
        entries = self.read(later, ["groups"])["groups"].to_pylist()
        fold_synced(synced, entries)
        if sum(map(len, entries)) > _FOLD_AT_BYTES and not holds_files():
            store_synced(self._folder, end, synced)
        return synced

    def configs_since(self, ledger_offset: int, *, but_by: str) -> frozenset[str]:
        """The ids of remote topics in config entries after ``ledger_offset``, except those of one run."""
        written = (pc.field("type") == "applied") & _by_others_since(ledger_offset, but_by)
        rows = self.read(written, ["applied"])
        return frozenset(fold_applied(rows["applied"].to_pylist()).configs)

    def access_changed_since(self, ledger_offset: int, *, but_by: str) -> frozenset[str]:
        """Which of ``ACCESS_KINDS`` another run than ``but_by`` has changed after ``ledger_offset``."""
        written = (pc.field("type") == "applied") & _by_others_since(ledger_offset, but_by)
        rows = self.read(written, ["applied"])["applied"].to_pylist()
        entries = [json.loads(row) for row in rows]
        return frozenset(kind for kind in ACCESS_KINDS if any(entry[kind] for entry in entries))

    def verified_through(self) -> int:
        """The ledger offset before which every range was verified."""
        rows = self.read(pc.field("type") == "verification", ["ledger_offset", "type", "through"])
        offsets = (int(row["through"]) for row in rows.to_pylist() if is_verification(row))
        return max(offsets, default=0)


def _by_others_since(ledger_offset: int, run: str) -> pc.Expression:
    """The rows of entries from a ledger offset on, except those of one run."""
    return (pc.field("ledger_offset") >= ledger_offset) & (pc.field("run") != run)
