"""What lies in remote logs after the last record that the flow's ledger has there.

After a transaction's last record comes its marker, and then nothing until the next one. So where a log ends
tells, in one request to each broker, whether it has lost what the ledger has, or may hold something else::

    ledger   ... 57 58 59|                 the ledger's end is 60
    log      ... 57 58 59 M                ends at 61: quiet
    log      ... 57 58                     ends at 59: cut
    log      ... 57 58 59 M 61 62 M        ends at 64: something was written that the ledger does not have

After what a takeover has compared, which another mirror has written, comes no marker, and nothing at all.

Only of topics with translated offsets: where offsets are preserved, the log's end is the position, and a partition
without one is empty (``preserved_ends``).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sized
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kafka_ferry.ledger import LedgerEnd
from kafka_ferry.model import TopicPartition
from kafka_ferry.plan.backfill.separate_topic import is_separate
from kafka_ferry.plan.topics.emitted_topics import emitted_topics
from kafka_ferry.retry import retry, retry_for
from kafka_ferry.wire.partitions.absence import Unanswered
from kafka_ferry.wire.partitions.at_offset import batch_and_fate_at
from kafka_ferry.wire.partitions.partition_log import partition_log

if TYPE_CHECKING:
    from kafka_ferry.batches import Batch
    from kafka_ferry.config import Flow
    from kafka_ferry.control import ClusterControl
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.model import Topic
    from kafka_ferry.model.cluster_state import LogBounds, Mark
    from kafka_ferry.wire import WireCluster


_T = TypeVar("_T")
_Sized = TypeVar("_Sized", bound=Sized)

# Another run of the flow may be copying: its records reach the log before they reach the ledger.
_PAUSES_S: Final = (0.1, 0.5, 2.0)
# So long a log's end is asked for records that it may not have any more.
_TAIL_S: Final = 5.0

log = logging.getLogger(__name__)


class LogEnds(NamedTuple):
    """The end of a *target* partition's log, beside the ledger's.

    Attributes:
        ledger_end: where the records end that the ledger has there; at 0 where it has none, in a topic that the
            flow has created or found empty.
        log: where the log starts and ends, open transactions included.
    """

    ledger_end: LedgerEnd
    log: LogBounds

    @property
    def is_cut(self) -> bool:
        """Whether the log ends before the ledger does."""
        return self.log.end < self.ledger_end.offset

    @property
    def lacks_end(self) -> bool:
        """Whether the log lacks the last record that the ledger has, or its transaction's marker."""
        return self.log.end < self.ledger_end.offset + self.ledger_end.is_own

    @property
    def is_quiet(self) -> bool:
        """Whether nothing but a transaction's marker can lie after the ledger's end."""
        end, start = self.ledger_end.offset, self.log.start
        has_marker = self.ledger_end.is_own and start <= end
        return self.log.end <= max(end, start) + has_marker


def log_ends(
    flow: Flow, target: ClusterControl, ledger: LedgerTable, topics: Collection[Topic]
) -> dict[TopicPartition, LogEnds]:
    """The ends of the logs of the partitions of remote topics that the flow has copied to, created or found empty.

    Partitions without a leader are left out.

    Args:
        flow: the flow.
        target: its target.
        ledger: its ledger, projected.
        topics: the remote topics.

    Raises:
        FerryError: if the target does not answer.
    """
    return log_ends_and_leaderless(flow, target, ledger, topics)[0]


def log_ends_and_leaderless(
    flow: Flow, target: ClusterControl, ledger: LedgerTable, topics: Collection[Topic]
) -> tuple[dict[TopicPartition, LogEnds], frozenset[TopicPartition]]:
    """``log_ends``, and the partitions that it leaves out."""
    ends, known_topics = _known_ends(flow, ledger, topics)
    logs = target.log_bounds(known_topics, "read_uncommitted", wait_s=flow.partition_wait_ms / 1000)
    ends_by_partition = {tp: LogEnds(ends[tp], log) for tp, log in logs.items() if tp in ends}
    return ends_by_partition, frozenset(ends.keys() - ends_by_partition.keys())


def hidden_ends(
    flow: Flow, target: ClusterControl, ledger: LedgerTable, topics: Collection[Topic]
) -> frozenset[TopicPartition]:
    """The *target* partitions that have all that the ledger has there, and hide the end of it from consumers.

    A transaction is open there, also one that was proved: an unclean leader election may lose its marker alone.
    Arguments and errors as of ``log_ends``.
    """
    ends, known_topics = _known_ends(flow, ledger, topics)
    shown = target.log_bounds(known_topics, "read_committed")
    short = {tp for tp, log in shown.items() if tp in ends and log.end < ends[tp].offset}
    names = {tp.topic for tp in short}
    written = target.log_bounds(
        [topic for topic in known_topics if topic.name in names], "read_uncommitted"
    )
    return frozenset(tp for tp in short & written.keys() if written[tp].end >= ends[tp].offset)


def _known_ends(
    flow: Flow, ledger: LedgerTable, topics: Collection[Topic]
) -> tuple[dict[TopicPartition, LedgerEnd], list[Topic]]:
    """``ledger_ends``, and the topics that have any."""
    ends = ledger_ends(flow, ledger, topics)
    names = {tp.topic for tp in ends}
    return ends, [topic for topic in topics if topic.name in names]


def ledger_ends(
    flow: Flow, ledger: LedgerTable, topics: Collection[Topic], *, before: int | None = None
) -> dict[TopicPartition, LedgerEnd]:
    """Where the records end that the ledger has in *target* partitions of remote topics.

    Args:
        flow: the flow.
        ledger: its ledger, projected.
        topics: the remote topics that exist.
        before: the ledger offset before which its entries count; None for all.

    Returns:
        At 0 for partitions without any, of topics that the flow has created, has found empty or has compared when it
        took them over, and of those for backfills, which it creates or finds empty; other such partitions are left out.
    """
    released, marks = ledger.released_topics(), marks_of(ledger, topics)
    emitted = {topic.name for topic in emitted_topics(flow)}
    translated = [
        topic
        for topic in topics
        if topic.name not in emitted
        and topic.topic_id not in released
        and not (topic.name in marks and marks[topic.name].preserved)
    ]
    created = {
        TopicPartition(topic.name, number): LedgerEnd()
        for topic in translated
        if _is_known_whole(topic.name, marks.get(topic.name))
        for number in range(topic.partitions)
    }
    return created | ledger.target_ends(translated, before=before)


def _is_known_whole(name: str, mark: Mark | None) -> bool:
    """Whether the flow knows of all that a remote topic held before it wrote there."""
    return is_separate(name) if mark is None else mark.created or mark.empty


def marks_of(ledger: LedgerTable, topics: Iterable[Topic]) -> dict[str, Mark]:
    """The flow's marks on remote topics, by name; none that is of an earlier topic of the name."""
    marks = ledger.marks()
    return {
        topic.name: mark
        for topic in topics
        if (mark := marks.get(topic.name)) and mark.remote_topic_id == topic.topic_id
    }


def look_again(
    known: _Sized, look: Callable[[_Sized], _Sized], pauses_s: Iterable[float] | None = None
) -> _Sized:
    """What of ``known`` is still so after some pauses, as ``look`` says after each; what passes is over by then."""
    for pause_s in _PAUSES_S if pauses_s is None else pauses_s:
        if not len(known):
            break
        time.sleep(pause_s)
        known = look(known)
    return known


def ask_end(ask: Callable[[], _T], otherwise: _T) -> _T:
    """What ``ask`` reads at a log's end; ``otherwise`` where the log does not answer for some seconds."""
    try:
        with retry_for(_TAIL_S):
            return retry(ask)
    except Unanswered as error:
        log.warning("%s", error)
        return otherwise


def batch_at_end(
    cluster: WireCluster, partition: TopicPartition, offset: int
) -> tuple[Batch | None, bool]:
    """The batch with an offset near a log's end, and whether it was aborted; None where the log does not show one."""
    unknown: tuple[Batch | None, bool] = None, False
    return ask_end(
        lambda: batch_and_fate_at(cluster, partition_log(cluster, partition), offset), unknown
    )
