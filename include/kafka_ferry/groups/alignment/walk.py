"""Walks along the records of a target and its source, to match them. Pure."""

from __future__ import annotations

from typing import Final

import numpy as np

from kafka_ferry.groups.alignment.aligned_runs import AlignedRun, Alignment, Misaligned, segments_of
from kafka_ferry.groups.alignment.record_digests import (
    NO_KEY,
    LogRecords,
    Mask,
    Offsets,
    newest_of_keys,
)

# The most candidates that are tried where records are identical.
_PLACES: Final = 1_000
_AT_ONCE: Final = 65_536


class Walk:
    """Walks along the target's records, and knows which of the source's comes next.

    Args:
        source: the partition on the source.
        target: the partition on the target.
        compacted: whether one of the two logs is compacted.
        is_cleaned: whether the target's is, whose cleaner removes records without a key.
        without: which of the source's records to ignore, if any.
    """

    def __init__(
        self,
        source: LogRecords,
        target: LogRecords,
        *,
        compacted: bool,
        is_cleaned: bool = False,
        without: Mask | None = None,
    ) -> None:
        self._all = source
        self._source = source if without is None else source.only(~without)
        self._target = target
        self._compacted = compacted
        self._is_cleaned = is_cleaned
        self._runs: list[AlignedRun] = []
        self._first = self._next = self._joined = 0
        self._found = 0
        self._unknown = self._unkeyed = 0
        # By record of the target, its place on the source, -1 for none; and how far the target had come before it.
        self._places = np.full(len(target), -1, np.int64)
        self._reached = np.zeros(len(target), np.int64)
        self._begun = 0

    def go(self, position: int | None, joined: int | None) -> bool:
        """Walk from the first record that both have to the target's end; returns whether there is one.

        Raises:
            Misaligned: a record of the target cannot be explained.
        """
        at = self._begin(joined)
        if at is None:
            return False
        first = True
        while at < len(self._target):
            place = self._place(at, position) if first else self._next_source(at)
            if place is None:
                self._reached[at] = self._next
                self._unknown += 1
                at += 1
                continue
            if first:
                self._begun = at
                self._first = self._first if self._joined else place
                # What comes before the first one that both have is not to be copied any more.
                self._reached[:at] = self._first
                first = False
            count = self._alike(place, at)
            self._take(place, at, count)
            at += count
        return True

    def _begin(self, joined: int | None) -> int | None:
        """The target's first record that the source has; the source has lost those before it."""
        if joined:
            self._joined = joined
            self._first = self._next = self._source.below(joined)
            return 0
        known = np.isin(self._target.digests, self._source.digests)
        if not known.any():
            return None
        at = int(known.argmax())
        # Other mirrors write some records twice; but each of them was at an offset of its own.
        distinct = len(np.unique(self._target.digests[:at]))
        if distinct > self._source.start and not self._compacted:
            raise self._strange(0)
        self._unknown += at
        return at

    def _place(self, at: int, position: int | None) -> int | None:
        """Where on the source the record that both begin with is."""
        places = self._source.places(self._target.digests[at])
        if self._next or not len(places):
            return self._next_source(at)
        if self._unknown and not self._compacted and places[0] > 0:
            raise Misaligned(
                f"of the source's records that are left, those before {self._source.offsets[places[0]]} "
                "are not there"
            )
        if len(places) == 1:
            return int(places[0])
        if len(places) and at == 0 and places[0] == 0 and self._target.start == 0:
            return 0
        return self._best(at, places, position)

    def _next_source(self, at: int) -> int | None:
        """Where on the source the target's next record is; None where it no longer exists.

        Raises:
            Misaligned: it never existed there, or others should be between.
        """
        source, digest = self._source, self._target.digests[at]
        if self._next < len(source) and source.digests[self._next] == digest:
            return self._next
        places = source.places(digest)
        ahead = places[places > self._next]
        after = places[places < self._next]
        if self._compacted and len(ahead):
            return int(ahead[0])
        if len(after):
            return self._best(at, after, None)
        if self._compacted and not len(places):
            return None
        if len(ahead):
            raise Misaligned(
                f"after the source's record {self._before(self._next)} follows its record "
                f"{source.offsets[ahead[0]]}, and what is between is missing"
            )
        raise self._strange(at)

    def _best(self, at: int, places: Offsets, position: int | None) -> int:
        """The one of several places from which the most records match.

        Raises:
            Misaligned: several are equally good, and copying would continue differently from each.
        """
        if len(places) == 1:
            return int(places[0])
        counts = [(self._alike(int(place), at), int(place)) for place in places[-_PLACES:]]
        most = max(count for count, _ in counts)
        best = [place for count, place in counts if count == most]
        ends = {max(place + most, self._next) for place in best}
        if position is not None and len(ends) > 1:
            wanted = self._source.below(position) - most
            if wanted in best:
                return wanted
        if len(ends) > 1:
            raise Misaligned(
                f"its record {self._target.offsets[at]} is like {len(places)} records of the source, "
                "and which of them it is cannot be decided"
            )
        return best[-1]

    def _alike(self, place: int, at: int) -> int:
        """How many records are the same from there on, on both sides."""
        longest = min(len(self._source) - place, len(self._target) - at)
        done = 0
        while done < longest:
            size = min(_AT_ONCE, longest - done)
            left = self._source.digests[place + done : place + done + size]
            unlike = left != self._target.digests[at + done : at + done + size]
            if unlike.any():
                return done + int(unlike.argmax())
            done += size
        return done

    def _take(self, place: int, at: int, count: int) -> None:
        """Note that the next ``count`` records are the same; a duplicate counts where it came last."""
        self._found += count
        places = np.arange(place, place + count)
        self._places[at : at + count] = places
        self._reached[at : at + count] = np.maximum(places, self._next)
        end = place + count
        if place < self._first and not self._joined:
            if end < self._next and not self._target.start:
                raise self._strange(at)
            self._first = place if end >= self._next else self._first
        if end < self._next:
            # It has not caught up: it is followed by less than was there before.
            return
        while self._runs and self._runs[-1].place >= place:
            self._runs.pop()
        if self._runs:
            last = self._runs[-1]
            self._runs[-1] = last._replace(records=min(last.records, place - last.place))
        self._runs.append(AlignedRun(place, at, count))
        self._next = end

    def _before(self, index: int) -> int:
        return int(self._source.offsets[index - 1]) if index else -1

    def _strange(self, at: int) -> Misaligned:
        return Misaligned(
            f"its record {self._target.offsets[at]} is not one of the source's that may follow there: "
            "another producer has written it, the source has changed, or a transaction is open there"
        )

    # --- result

    def alignment(self, position: int | None) -> Alignment:
        """The result, if all records are explained.

        Raises:
            Misaligned: records that should be on the target are not.
        """
        source = self._source
        again = self._first_outdated()
        if again is not None:
            # What comes from there on is copied once more, whatever is there of it.
            self._first, self._next, position = min(self._first, again), again, None
            self._runs = [run.before(again) for run in self._runs if run.place < again]
        matched = np.zeros(len(source), np.bool_)
        for place, _, count in self._runs:
            matched[place : place + count] = True
        first = self._first
        # A copy that joins the flow's own records may overlap them.
        self._runs = [run.after(first) for run in self._runs if run.place + run.records > first]
        start = int(source.offsets[first]) if first < len(source) else source.end
        start = self._joined or start
        end = int(source.offsets[self._next - 1]) + 1 if self._next > first else start
        if position is not None:
            end = max(end, position)
        after = source.below(end)
        # A cleaner leaves the start where it is: of a log that begins at 0, retention has taken nothing.
        begun = 0 if self._compacted and not (self._target.start or self._joined) else first
        missing = np.flatnonzero(~matched[begun:after]) + begun
        if len(missing):
            self._explain(missing, after, position)
        segments = segments_of(self._runs, source, self._target)
        records = sum(segment.records for segment in segments)
        everything = self._all
        inside = slice(everything.below(start), everything.below(end))
        total = inside.stop - inside.start
        aborted = 0
        if len(everything) != len(source):
            aborted = int(everything.aborted[inside].sum())
        return Alignment(
            start=start,
            end=end,
            segments=segments,
            records=records,
            doubled=self._found - records,
            unknown=self._unknown,
            skipped=total - records,
            aborted=aborted,
            unkeyed=self._unkeyed,
            leader_epoch=int(everything.leader_epochs[inside.stop - 1]) if inside.stop else -1,
        )

    def _first_outdated(self) -> int | None:
        """Where on the source the first record is that is not the newest of its key on a compacted target.

        An older one follows it there after a replay that did not catch up; or an aborted one, which the source may no
        longer have; or another producer's. For those who read the newest record of each key, and for the cleaner,
        that one has replaced it. None where there is none.

        Raises:
            Misaligned: the newest record of a key on the target is of no key of the source's.
        """
        ours, theirs = self._source, self._target
        if not (self._compacted and len(ours.keys) and len(theirs.keys)):
            return None
        newest = newest_of_keys(theirs.keys)
        # A cleaner removes records without a key, whatever follows.
        newest = newest[theirs.keys[newest] != NO_KEY]
        committed = np.flatnonzero(~ours.aborted)
        here = committed[newest_of_keys(ours.keys[committed])]
        # The newest committed one on the source of the same key, -1 where it has none.
        places = np.full(len(newest), -1, np.int64)
        _, i, j = np.intersect1d(
            theirs.keys[newest], ours.keys[here], assume_unique=True, return_indices=True
        )
        places[i] = here[j]
        # What comes later is missing there, or is still to be copied.
        newest, places = (array[places < self._reached[newest]] for array in (newest, places))
        copied = self._places[newest]
        self._require_known(newest[(copied < 0) & (places < 0)])
        is_aborted = (copied >= 0) & ours.aborted[copied]
        outdated = (places >= 0) & ((copied < places) | is_aborted)
        if not outdated.any():
            return None
        again = int(places[outdated].min())
        if self._joined and again < self._first:
            raise Misaligned(
                f"its record {theirs.offsets[newest[outdated][0]]} is older than one of the same key that this flow "
                "has copied before it"
            )
        return again

    def _require_known(self, unmatched: Offsets) -> None:
        """Check that the source may no longer have records of the target that are the newest of their keys there.

        Args:
            unmatched: records whose keys the source does not have, as far as the target should have them by then.

        Raises:
            Misaligned: compaction would have removed their tombstones last.
        """
        theirs = self._target
        strange = np.sort(unmatched[~theirs.tombstones[unmatched]])
        # The source has deleted no more than there are offsets before its start, all of them before the others.
        deleted = max(0, self._source.start - self._joined)
        if len(strange) > deleted or (strange >= self._begun).any():
            raise Misaligned(
                f"its record {theirs.offsets[strange[-1]]} is the newest of its key there, and the source has nothing "
                "of that key: another producer has written it, or its tombstone was never copied"
            )

    def _explain(self, missing: Offsets, after: int, position: int | None) -> None:
        """Whether compaction may have removed all of ``missing``: each has a successor, or is an idle tombstone.

        Or it has no key. What the cleaner removes leaves its offset: more than the log lacks, it has not removed.
        """
        source = self._source
        if self._compacted:
            missing = missing[source.survivors(after, self._target.keys)[missing]]
            has_key = source.has_key(after)[missing]
            unkeyed = len(missing) - int(has_key.sum())
            if self._is_cleaned and unkeyed <= self._target.removed:
                missing, self._unkeyed = missing[has_key], unkeyed
        if len(missing):
            offset = int(source.offsets[missing[0]])
            prefix = f"the position of the other mirror is {position}, but " if position else ""
            raise Misaligned(
                f"{prefix}{len(missing)} of the source's records are not there, the first at offset "
                f"{offset}"
            )
