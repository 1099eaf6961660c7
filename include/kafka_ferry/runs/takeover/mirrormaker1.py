"""MirrorMaker 1's property files and options as flows: one from each of its sources into its target.

Those files do not name clusters. A source and the target are named by their cluster ids, so that a flow
finds its positions again whatever its file's name and whichever other files are given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import javaproperties
import regex
from pydantic import ValidationError

from kafka_ferry.config.files.mm1_properties import (
    MirrorClient,
    MirroredTopics,
    MirrorSource,
    Remark,
    mirrored_topics,
)
from kafka_ferry.config.types.name_filter import split_list
from kafka_ferry.config.types.problems import Problem, config_error, problems_of
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import SameCluster
from kafka_ferry.plan.topics.replication_policy import KeptNames

AS_THOSE_MIRRORS: Final[Mapping[str, str]] = {
    "replication.policy.class": f"{KeptNames.__module__}.{KeptNames.__qualname__}",
    "heartbeats.replication.enabled": "false",
    # Several sources may share a topic, and after a change of mirrors it already holds records.
    "on.foreign.records": "adopt",
    # MirrorMaker 1 let the broker create topics, with its defaults.
    "replication.factor": "-1",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    # MirrorMaker 1 wrote nothing for MirrorMaker 2's clients.
    "emit.checkpoints.enabled": "false",
    "emit.heartbeats.enabled": "false",
}
"""Options of every flow that came from MirrorMaker 1."""

_COMMITTED_ONLY: Final = Remark(
    "isolation.level",
    "is not set: records of committed transactions are copied, where those mirrors copied aborted ones "
    "and those of open transactions too; read_uncommitted does so here",
)
_FROM_THE_END: Final = Remark(
    "auto.offset.reset",
    "is not set and was latest in those mirrors: a partition that was never copied begins at its end; "
    "earliest copies what it holds already",
)
_FROM_THE_START: Final = Remark(
    "autooffset.reset",
    "is not set and was smallest in mirrors of 0.7: a partition that was never copied begins at its start",
)


@dataclass(frozen=True)
class MirrorMaker1:
    """What MirrorMaker 1 is told, in files and options.

    Attributes:
        sources: the consumers' files.
        target: the producer's file.
        whitelist: the option of that name, None without it.
        blacklist: the option of that name, None without it.
        streams: ``--num.streams``, None without it.
        producers: ``--num.producers``, None without it.
        commit_interval_ms: ``--offset.commit.interval.ms``, None without it.
    """

    sources: Sequence[MirrorSource]
    target: MirrorClient
    whitelist: str | None = None
    blacklist: str | None = None
    streams: int | None = None
    producers: int | None = None
    commit_interval_ms: int | None = None

    @property
    def tasks(self) -> int | None:
        """How many tasks copy at a time, at most; None where it is not given."""
        return max(filter(None, map(self.writers, self.sources)), default=None)

    def check(self) -> None:
        """Does nothing if the topics are given correctly.

        Raises:
            ConfigError: they are not.
        """
        for source in self.sources:
            self.topics(source)

    def topics(self, source: MirrorSource) -> MirroredTopics:
        """The topics of one source: by the options, or where there are none by its own file.

        Raises:
            ConfigError: they are not given at all, by both lists of a file, or invalid.
        """
        options = {"--whitelist": self.whitelist, "--blacklist": self.blacklist}
        of_file = _lists_of(source)
        lists = options if any(text is not None for text in options.values()) else of_file
        places = [place for place, text in lists.items() if text is not None]
        if len(places) != 1:
            reason = (
                f"{' and '.join(places)} are given" if places else "no option or file selects any"
            )
            advice = f"Give exactly one of {', '.join({**options, **of_file})}."
            raise config_error(source.file, Problem("topics", reason, advice))
        if lists is options:
            return mirrored_topics(self.whitelist, self.blacklist)
        return mirrored_topics(_pattern(source.whitelist), _pattern(source.blacklist))

    def writers(self, source: MirrorSource) -> int | None:
        """How many writers one source's flow has; None where it is not given."""
        streams = source.streams if self.streams is None else self.streams
        return max(filter(None, (streams, self.producers)), default=None)

    def remarks_on(self, source: MirrorSource) -> tuple[Remark, ...]:
        """Remarks on a consumer's file: keys without effect, and defaults that apply."""
        return (*source.remarks, *self._outdone(source), *_left_open(source))

    def _outdone(self, source: MirrorSource) -> Iterator[Remark]:
        """Keys of a 0.7 consumer file that the options override."""
        option = "--whitelist" if self.whitelist is not None else "--blacklist"
        if self.whitelist is not None or self.blacklist is not None:
            for key, text in _lists_of(source).items():
                if text is not None:
                    yield Remark(key, f"has no effect: {option} is given, and wins")
        if self.streams is not None and source.streams is not None:
            yield Remark(
                "mirror.consumer.numthreads", "has no effect: --num.streams is given, and wins"
            )


def _lists_of(source: MirrorSource) -> dict[str, str | None]:
    return {
        "mirror.topics.whitelist": source.whitelist,
        "mirror.topics.blacklist": source.blacklist,
    }


def _left_open(source: MirrorSource) -> Iterator[Remark]:
    if source.isolation_level is None:
        yield _COMMITTED_ONLY
    if source.auto_offset_reset is None:
        late = source.default_auto_offset_reset == "latest"
        yield _FROM_THE_END if late else _FROM_THE_START


@dataclass(frozen=True)
class ClusterIds:
    """The clusters' ids, which serve as their names.

    Attributes:
        sources: in the order of the files.
        target: the target's.
    """

    sources: tuple[str, ...]
    target: str


def ask_cluster_ids(mirror: MirrorMaker1) -> ClusterIds:
    """Ask each cluster for its id; changes nothing.

    Raises:
        SameCluster: two of the files name the same cluster.
        ConfigError: a file's properties are invalid.
        ClusterUnreachable, AccessDenied: as ``ClusterControl``.
    """
    files: dict[str, str] = {}
    ids = []
    for client in (*mirror.sources, mirror.target):
        cluster_id = _cluster_id(client)
        if cluster_id in files:
            raise SameCluster(
                f"{files[cluster_id]} and {client.file} are one cluster ({cluster_id}).",
                advice="Check their bootstrap.servers: each file names a cluster of its own.",
            )
        files[cluster_id] = client.file
        ids.append(cluster_id)
    return ClusterIds(tuple(ids[:-1]), ids[-1])


def as_properties(mirror: MirrorMaker1, ids: ClusterIds) -> str:
    """The flows in MirrorMaker 2's form: a properties file, with the secrets of the files that were read.

    Raises:
        ConfigError: the topics are given incorrectly.
    """
    clusters = [*zip(ids.sources, mirror.sources, strict=True), (ids.target, mirror.target)]
    parts = [
        _part(
            "The flows of MirrorMaker 1. Clusters are called by their ids, by which flows find\n"
            "their positions again.",
            {"clusters": ", ".join(alias for alias, _ in clusters), **AS_THOSE_MIRRORS},
        )
    ]
    for alias, client in clusters:
        properties = {f"{alias}.{name}": value for name, value in client.properties.items()}
        parts.append(_part(client.file, properties))
        if isinstance(client, MirrorSource):
            flow = f"{alias}->{ids.target}"
            options = _options(mirror, client)
            parts.append(_part(flow, {f"{flow}.{name}": text for name, text in options.items()}))
    return "\n\n".join(parts) + "\n"


def _options(mirror: MirrorMaker1, source: MirrorSource) -> dict[str, str]:
    """The options of one flow that differ from the common ones."""
    topics = mirror.topics(source)
    options: dict[str, object] = {
        "enabled": "true",
        "topics": ", ".join(topics.topics),
        "topics.exclude": ", ".join(topics.topics_exclude),
        "auto.offset.reset": source.auto_offset_reset or source.default_auto_offset_reset,
        "isolation.level": source.isolation_level,
        "writers": mirror.writers(source),
        "transaction.max.ms": mirror.commit_interval_ms,
    }
    return {name: str(value) for name, value in options.items() if value is not None}


def _part(title: str, properties: Mapping[str, str]) -> str:
    lines = (javaproperties.join_key_value(name, text) for name, text in properties.items())
    return "\n".join((javaproperties.to_comment(title), *lines))


def _pattern(names: str | None) -> str | None:
    """A list of the mirror of 0.7, which held names and no regular expressions (``EmbeddedConsumer``)."""
    return None if names is None else ",".join(regex.escape(name) for name in split_list(names))


def _cluster_id(client: MirrorClient) -> str:
    # Until its id is known, errors have to name its file.
    alias = regex.sub(r"[^A-Za-z0-9._-]+", "-", client.file.rpartition("/")[2])
    try:
        return ClusterControl(client.cluster(alias)).cluster_id()
    except ValidationError as error:
        raise config_error(client.file, *problems_of(error, _key)) from None


def _key(path: Sequence[str]) -> str:
    return ".".join(path)
