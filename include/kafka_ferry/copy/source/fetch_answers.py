"""What the answers to fetches say of ranges: batches, gaps, or why there is nothing to read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from kafka_ferry.batches import ConvertedBatch, gap, lost_batch
from kafka_ferry.batches.epochs import UNKNOWN_EPOCH, EpochEnd, branch_end
from kafka_ferry.copy.source.cursor import Cursor, Cursors, ReadRules
from kafka_ferry.copy.source.fetch_pipeline import SentFetch
from kafka_ferry.copy.source.read_replicas import ReadReplicas
from kafka_ferry.copy.source.remote_reads import RemoteReads
from kafka_ferry.wire import Fetched, WireCluster, log_start
from kafka_ferry.wire.error_codes import (
    NONE,
    OFFSET_OUT_OF_RANGE,
    error_name,
    is_transient_read,
    read_fault,
)
from kafka_ferry.wire.partitions.absence import (
    NextBatch,
    batch_after_gap,
    hole,
    next_batch,
    silence,
)
from kafka_ferry.wire.partitions.at_offset import open_at
from kafka_ferry.wire.partitions.epochs import epoch_ends_on, have_reached
from kafka_ferry.wire.partitions.lookahead import fates_after
from kafka_ferry.wire.partitions.partition_log import partition_log


class FetchAnswers:
    """Judges the answers of brokers about the ranges of one reader.

    Args:
        aside: the source, for what must be asked while fetches are in flight.
        rules: how to read.
        cursors: the reader's; moved, held back or ended by what an answer says.
        replicas: whom to ask for each partition.
    """

    def __init__(
        self, aside: WireCluster, rules: ReadRules, cursors: Cursors, replicas: ReadReplicas
    ) -> None:
        self._aside, self._rules = aside, rules
        self._cursors, self._replicas = cursors, replicas
        self._remote_reads = RemoteReads(aside, rules.wait_s)

    def judge(
        self, cursor: Cursor, fetched: Fetched, sent: SentFetch, room: int
    ) -> tuple[ConvertedBatch, ...]:
        """Convert the answer's batches from the cursor on, and move the cursor past them.

        Rebuilt batches may grow: once they exceed ``room``, the rest of the answer is fetched again.
        """
        malformed = ""
        batches: list[ConvertedBatch] = []
        source = cursor.range.source
        if fetched.preferred_replica >= 0:
            self._replicas.note_replica(source, fetched.preferred_replica)
        elif fetched.is_silent and self._replicas.leave(source):
            pass  # The leader is asked next.
        elif fetched.error == OFFSET_OUT_OF_RANGE:
            batches = self._judge_out_of_range(cursor, sent.fetch.node)
        elif fetched.error != NONE:
            self.judge_error(cursor, fetched.error)
        elif fetched.diverged_at is not None:
            self._judge_divergence(cursor, sent.fetch.node)
        elif cursor.at < cursor.range.end:
            batches, malformed = self._judge_batches(cursor, fetched, sent, room)
        if batches:
            self._remote_reads.note_recovery(cursor, sent.fetch.node)
            self._cursors.move(cursor, batches[-1])
        if malformed:
            self._cursors.fail(cursor, f"the source sent {malformed}.", transient=False)
        elif cursor.at >= cursor.range.end and fetched.error in (NONE, OFFSET_OUT_OF_RANGE):
            self._cursors.end(cursor)
        return tuple(batches)

    def _judge_batches(
        self, cursor: Cursor, fetched: Fetched, sent: SentFetch, room: int
    ) -> tuple[list[ConvertedBatch], str]:
        """What an answer's batches become, and what is wrong with the first one that is malformed."""
        source = cursor.range.source
        if why := cursor.why_another_log(fetched):
            if not self._replicas.leave(source):
                why = f"{why}: was the topic deleted and recreated?"
                self._cursors.try_again([cursor], why)
            return [], ""
        node, topic_id = sent.fetch.node, cursor.range.topic_id
        if following := self._after_hole(cursor, fetched, node):
            return self._judge_hole(cursor, following, node), ""
        look_ahead = partial(fates_after, self._aside, node, source, topic_id=topic_id)
        converted, malformed = cursor.convert(fetched, self._rules, room, look_ahead)
        batches = self._with_possible_epochs(cursor, converted)
        if why := cursor.newer_branch(batches):
            advice = "The flow's next run copies what is there now; then run the backfill again."
            self._cursors.fail(cursor, why, transient=False, advice=advice)
            return [], ""
        if malformed and self._replicas.leave(source):
            malformed = ""
        elif not batches and not malformed and source not in sent.guessed:
            batches = self._judge_silence(cursor, fetched, node)
        return batches, malformed

    def _with_possible_epochs(
        self, cursor: Cursor, batches: Iterable[ConvertedBatch]
    ) -> list[ConvertedBatch]:
        """The batches; one with a leader epoch that it cannot have counts as one of an unknown epoch.

        No checksum covers it, and a broker that is asked to go on after an epoch that it does not know of, or that
        ended before, answers for ever that its log is another one.
        """
        possible, newest = list[ConvertedBatch](), cursor.leader_epoch
        for converted in batches:
            epoch = converted.leader_epoch
            # Epochs never go back in a log, and the broker has confirmed the one before the cursor.
            if UNKNOWN_EPOCH < epoch < newest or self._is_unreached(cursor, epoch):
                possible.append(replace(converted, leader_epoch=UNKNOWN_EPOCH))
            else:
                possible.append(converted)
                newest = max(newest, epoch)
        return possible

    def _is_unreached(self, cursor: Cursor, epoch: int) -> bool:
        """Whether a log's leader has not reached an epoch; asks only after an election, or where it is wrong."""
        if not UNKNOWN_EPOCH < cursor.newest_epoch < epoch:
            return False
        source = cursor.range.source
        is_reached = have_reached(self._aside, {source: epoch}).get(source)
        if is_reached:
            cursor.newest_epoch = epoch
        return is_reached is False

    def _judge_silence(self, cursor: Cursor, fetched: Fetched, node: int) -> list[ConvertedBatch]:
        """What an answer without batches proves (``absence.LogAnswers``): most often that it must be asked again."""
        source = cursor.range.source
        if not fetched.alone:
            # Another partition may have filled the response: only an answer for this one alone says so.
            cursor.must_be_alone = True
        elif fetched.end < cursor.range.end:
            self._cursors.try_again([cursor], f"the source's log ends at {fetched.end} for now")
        elif (
            following := next_batch(self._aside, node, source, cursor.at, cursor.identity)
        ).start > cursor.at:
            if self._remote_reads.has_next(cursor, node):
                return self._judge_hole(cursor, following, node)
            end = min(following.start, cursor.range.end)
            return self._with_possible_epochs(cursor, [gap(cursor.at, end, following.leader_epoch)])
        else:
            wait_s = self._remote_reads.wait_s(cursor, node)
            why = silence(source, cursor.at, fetched.end, cursor.remote_to)
            self._cursors.try_again([cursor], why, wait_s)
        return []

    def _after_hole(self, cursor: Cursor, fetched: Fetched, node: int) -> NextBatch | None:
        """The batch that an answer begins with, if remote storage alone has what lies between the cursor and it."""
        following = batch_after_gap(fetched, cursor.at)
        return following if following and self._remote_reads.has_next(cursor, node) else None

    def _judge_hole(self, cursor: Cursor, following: NextBatch, node: int) -> list[ConvertedBatch]:
        """Handle offsets that remote storage gives nothing of, before a batch: most often it must be asked again.

        A broker passes over a segment that is missing there or not whole, so that the batch proves no absence. Nor has
        a cleaner taken them: a topic that is compacted is never tiered.
        """
        source, end = cursor.range.source, min(following.start, cursor.range.end)
        if self._replicas.leave(source):
            return []
        if self._rules.skip_lost and (
            cursor.skips_holes or self._remote_reads.is_over(cursor, node)
        ):
            cursor.skips_holes = True
            return self._with_possible_epochs(
                cursor, [lost_batch(cursor.at, end, following.leader_epoch)]
            )
        why = (
            f"the source's log: {hole(cursor.at, end)} The next run goes on there. With "
            "on.source.truncation=continue they count as lost"
        )
        self._cursors.try_again([cursor], why, self._remote_reads.wait_s(cursor, node))
        return []

    def _judge_out_of_range(self, cursor: Cursor, node: int) -> list[ConvertedBatch]:
        """Handle an offset that the broker does not have, or no longer has."""
        at, end = cursor.at, cursor.range.end
        first = log_start(self._aside, node, cursor.range.source)
        # A position may lie beyond the range of an earlier run that is copied again.
        if end <= at < first:
            return []
        if at >= first:
            message = (
                f"the source's log ends before offset {at}, up to which it was copied, or knows "
                f"nothing of leader epoch {cursor.leader_epoch}. Was there an unclean leader election?"
            )
            self._cursors.fail(cursor, message, transient=False)
        elif self._rules.skip_lost:
            return [lost_batch(at, min(first, end))]
        else:
            message = (
                f"offsets [{at}, {first}) were deleted on the source before they were copied. "
                "With on.source.truncation=continue copying continues after them."
            )
            self._cursors.fail(cursor, message, transient=False)
        return []

    def _judge_divergence(self, cursor: Cursor, node: int) -> None:
        """Handle a log that is not the one that was read up to the cursor."""
        source, at = cursor.range.source, cursor.at

        def end_of(epoch: int) -> EpochEnd | None:
            return epoch_ends_on(self._aside, {source: node}, {source: epoch}).get(source)

        # The ledger tells the epochs of what earlier tries copied, and nothing of what this one has read.
        diverged_at = None if cursor.begun else branch_end(self._rules.epochs(cursor.range), end_of)
        # The plan has not looked at what the opposite flow has written below its range: only the next one does.
        is_planned = cursor.range.returned_since < 0 or (diverged_at or 0) >= cursor.range.start
        if self._rules.rewind and diverged_at is not None and diverged_at < cursor.range.start:
            # Nor whether a transaction that was cut there has ended otherwise since.
            log = partition_log(self._aside, source)
            is_planned &= not (self._rules.committed and open_at(self._aside, log, diverged_at))
        if self._rules.rewind and diverged_at is not None and is_planned:
            cursor.at, cursor.leader_epoch, cursor.begun = min(diverged_at, at), -1, True
            return
        what = ""
        if diverged_at is not None and diverged_at < at:
            what = f": [{diverged_at}, {at}) is of a branch that the source has lost"
        message = (
            f"the source's log is not the one that was read up to offset {at}, of leader epoch "
            f"{cursor.leader_epoch} (an unclean leader election?){what}."
        )
        advice = "With on.source.divergence=continue the position is set back to where they part."
        transient = self._rules.rewind and (cursor.begun or not is_planned)
        self._cursors.fail(cursor, message, transient=transient, advice=advice)

    def judge_error(self, cursor: Cursor, code: int) -> None:
        """Retry or give up, depending on ``code``."""
        self._replicas.forget(cursor.range.source)
        if is_transient_read(code):
            self._cursors.try_again([cursor], f"the source kept answering {error_name(code)}")
        else:
            source = cursor.range.source
            error = read_fault(code, f"Reading {source}", source.topic)
            self._cursors.fail(cursor, error.message, transient=False, advice=error.advice)
