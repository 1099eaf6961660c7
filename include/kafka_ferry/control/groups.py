"""A cluster's consumer groups and their offsets.

Over the data plane's connections: librdkafka asks about one group at a time, and reads past the end of
an offset's metadata.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from typing import Any, Self, TypeVar

from kafka_ferry.config import Cluster
from kafka_ferry.config.types.problems import did_you_mean
from kafka_ferry.errors import AccessDenied, FerryError, InputError
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import retry, retry_each
from kafka_ferry.wire import connect
from kafka_ferry.wire.groups.groups import (
    IncompleteListing,
    describe_groups,
    list_groups,
)
from kafka_ferry.wire.groups.offsets import Refused, commit_offsets, delete_offsets, fetch_offsets
from kafka_ferry.wire.groups.share_groups import (
    alter_start_offsets,
    delete_start_offsets,
    fetch_start_offsets,
)

_T = TypeVar("_T")
_Key = tuple[str, TopicPartition]


class GroupControl:
    """Reads and changes the groups of a cluster; must be closed.

    Args:
        cluster: the cluster from the flow's config.

    Every method retries for a minute while coordinators load or move. Errors of a group or a partition
    are in the answer; every method raises ``ClusterUnreachable`` if no broker answers, and
    ``AccessDenied`` if the cluster refuses the login.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.alias = cluster.alias
        self._connections = ExitStack()
        self._wire = self._connections.enter_context(connect(cluster, "admin"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._connections.__exit__(*raised)

    def cluster_id(self) -> str:
        """The id of the cluster that these very connections lead to."""
        return retry(self._wire.cluster_id)

    def groups(self) -> list[Group]:
        """All groups that the principal may see: with DESCRIBE on the cluster all, otherwise its own.

        Raises:
            AccessDenied: where brokers list no groups without DESCRIBE on the cluster.
            IncompleteListing: if some are with no broker.
        """
        return retry(lambda: list_groups(self._wire))

    def known_groups(self) -> tuple[list[Group], IncompleteListing | None]:
        """As ``groups``; where some are with no broker, the others, and the error that says so."""
        try:
            return self.groups(), None
        except IncompleteListing as error:
            return error.groups, error

    def no_such_group(self, name: str) -> InputError:
        """The error for a group that does not exist, with the name that may have been meant."""
        try:
            names = [group.name for group in self.groups()]
        except FerryError:
            names = []
        parts = [part.strip() for part in name.split(",")]
        if len(parts) > 1 and {*parts} <= {*names}:
            options = " ".join(f"--group {part}" for part in parts)
            advice = f"Name each of them by itself: {options}; in a form, one a line."
        else:
            near = did_you_mean(name, names)
            advice = near or "`kafka-consumer-groups.sh --list` shows its groups."
        return InputError(f"There is no group {name} on {self.alias}.", advice=advice)

    def describe(self, names: Collection[str]) -> dict[str, Group | FerryError]:
        """The groups' current states; needs DESCRIBE on each; a group that does not exist is ``Dead``."""
        if not names:
            return {}
        listed, _ = self._states_of(names)
        answers: dict[str, Group | FerryError] = {**listed}
        # A listing leaves out groups that are unknown or hidden, and before Kafka 2.6 all states.
        rest = [name for name in names if name not in answers]
        answers |= retry_each(rest, lambda some: describe_groups(self._wire, some))
        # Only classic groups can be described by name: any other one whose coordinator changed between
        # the two requests would be treated as dead.
        dead = [name for name in rest if _is_dead(answers[name])]
        listed, unlisted = self._states_of(dead)
        doubts = dict.fromkeys(dead, unlisted) if unlisted else {}
        return answers | doubts | listed

    def committed_offsets(
        self, groups: Collection[Group]
    ) -> dict[str, dict[TopicPartition, Committed] | FerryError]:
        """Groups' committed offsets; needs DESCRIBE on each.

        Topics that the principal may not DESCRIBE are silently left out. For a share group these are
        start offsets (``wire.groups.share_groups``), which brokers before 4.1 do not return.
        """
        shared = [group.name for group in groups if group.type == "share"]
        ordinary = [group.name for group in groups if group.type != "share"]
        return retry_each(ordinary, lambda some: fetch_offsets(self._wire, some)) | retry_each(
            shared, lambda some: fetch_start_offsets(self._wire, some)
        )

    def commit(
        self, offsets: Mapping[Group, Mapping[TopicPartition, Committed]]
    ) -> dict[str, dict[TopicPartition, FerryError]]:
        """Commit offsets of groups without members; needs READ on each group and topic.

        Returns:
            By group what was not committed, and why; the others were.
        """
        shared = {group.name: some for group, some in offsets.items() if group.type == "share"}
        ordinary = {group.name: some for group, some in offsets.items() if group.type != "share"}
        return _with_retries(
            ordinary, lambda left: commit_offsets(self._wire, left)
        ) | _with_retries(shared, lambda left: alter_start_offsets(self._wire, left))

    def delete_offsets(
        self, partitions: Mapping[str, Collection[TopicPartition]]
    ) -> dict[str, dict[TopicPartition, FerryError]]:
        """Delete what groups have committed; needs DELETE on each group and READ on each topic.

        Returns:
            By group what still exists, and why.
        """
        if not partitions:
            return {}
        listed = {group.name for group in self._list_all()[0] if group.type == "share"}
        by_group = {name: dict.fromkeys(some) for name, some in partitions.items()}
        shared = {name: some for name, some in by_group.items() if name in listed}
        ordinary = {name: some for name, some in by_group.items() if name not in listed}
        kept = self._only_in_part(shared)
        whole = {
            name: {tp: None for tp in some if tp not in kept.get(name, ())}
            for name, some in shared.items()
        }
        refused = _with_retries(ordinary, lambda left: delete_offsets(self._wire, left))
        refused |= _with_retries(whole, lambda left: delete_start_offsets(self._wire, left))
        for name, errors in kept.items():
            refused.setdefault(name, {}).update(errors)
        return refused

    def _states_of(
        self, names: Collection[str]
    ) -> tuple[dict[str, Group], IncompleteListing | None]:
        """The states of some groups, as far as they are listed; and why others may be missing."""
        if not names:
            return {}, None
        groups, unlisted = self._list_all()
        listed = {group.name: group for group in groups if group.state}
        return {name: listed[name] for name in names if name in listed}, unlisted

    def _list_all(self) -> tuple[list[Group], IncompleteListing | None]:
        """As ``known_groups``: none of an old broker that needs another permission for it."""
        try:
            return self.known_groups()
        except AccessDenied:
            return [], None

    def _only_in_part(
        self, partitions: Mapping[str, Collection[TopicPartition]]
    ) -> dict[str, Refused]:
        """Refusals where only a part of a share group's topic is to be deleted: brokers delete whole topics."""
        known = self.committed_offsets([Group(name, "share") for name in partitions])
        refused: dict[str, Refused] = defaultdict(dict)
        for name, some in partitions.items():
            offsets = known[name]
            if isinstance(offsets, FerryError):
                refused[name] = dict.fromkeys(some, offsets)
                continue
            remaining = {tp.topic: tp for tp in offsets if tp not in some}
            for tp in some:
                if other := remaining.get(tp.topic):
                    refused[name][tp] = FerryError(
                        f"{self.alias}, deleting the offset of {tp} in the group {name}: a share "
                        f"group only deletes whole topics, and {other} is to stay."
                    )
        return dict(refused)


def _is_dead(answer: Group | FerryError) -> bool:
    return isinstance(answer, Group) and answer.state == "Dead"


def _with_retries(
    wanted: Mapping[str, Mapping[TopicPartition, _T]],
    ask: Callable[[Mapping[str, Mapping[TopicPartition, _T]]], Mapping[str, Refused]],
) -> dict[str, Refused]:
    """The final refusals, after transient ones were retried."""

    def ask_again(left: list[_Key]) -> dict[_Key, FerryError | None]:
        by_group: dict[str, dict[TopicPartition, _T]] = defaultdict(dict)
        for name, tp in left:
            by_group[name][tp] = wanted[name][tp]
        refused = ask(by_group)
        return {(name, tp): refused.get(name, {}).get(tp) for name, tp in left}

    keys = [(name, tp) for name, partitions in wanted.items() for tp in partitions]
    refused: dict[str, Refused] = defaultdict(dict)
    for (name, tp), error in retry_each(keys, ask_again).items():
        if error:
            refused[name][tp] = error
    return dict(refused)
