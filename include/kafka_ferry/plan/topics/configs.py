"""Which configs a remote topic should have, and what is done about those that it has. Pure.

Which configs a remote topic takes over is MirrorMaker 2's rule (``MirrorSourceConnector.targetConfig``,
``DefaultConfigPropertyFilter``, 4.3.1): all that are not Kafka's default on the source, including its
dynamic broker configs; with ``use.defaults.from: source`` the defaults as well; never what is read-only
or secret, what the source's brokers have from their own files, or what ``config.properties.exclude``
names. What ``topics.configs`` says takes the place of all of that.

Configs of tiered storage (KIP-405) are synced only where the source's topic is tiered and the target takes
``remote.storage.enable``. Elsewhere they are the target's own: a copy that its operator has made tiered stays so.

For a remote topic that exists the rule differs from MirrorMaker 2's, which overwrites any value.
Three values are compared: what it should have, what the flow has set, what it has.

=====================  =======================  =====================================================
it should have         it has                   action
=====================  =======================  =====================================================
a                      a                        none; the ledger says that a is the flow's
a, or nothing          what the flow has set    it is set to a, or unset
a, or nothing          something else           drift: kept, or overwritten, by ``on.config.drift``
=====================  =======================  =====================================================

"Nothing" counts as a value that the flow has set: where the ledger does not mention a config, a missing
one is set, and an existing one is drift.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

from kafka_ferry.config.types.name_filter import NamePatterns, compile_patterns
from kafka_ferry.config.types.topic_configs import NEVER
from kafka_ferry.model.changes import ConfigChange, Drift, SetConfigs

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.model.changes import Applied
    from kafka_ferry.model.cluster_state import Topic
    from kafka_ferry.model.topic_pair import Pair


REMOTE_STORAGE: Final = "remote.storage.enable"
"""The config that makes a topic tiered (KIP-405)."""
_WHOLE: Final = {
    "local.retention.ms": "retention.ms",
    "local.retention.bytes": "retention.bytes",
}
_UNLIMITED: Final = -1
_Value = TypeVar("_Value")
_Error = TypeVar("_Error")


class Fate(Enum):
    """What is done about a config of a remote topic."""

    SAME = auto()
    CHANGED = auto()
    DRIFTED = auto()


def fate_of(wanted: str | None, ours: Collection[str | None], actual: str | None) -> Fate:
    """The table above for one config.

    Args:
        wanted: what the remote topic should have; None for no value of its own.
        ours: what the flow may have set there; None stands for no value.
        actual: what it has.
    """
    if actual == wanted:
        return Fate.SAME
    return Fate.CHANGED if actual in ours else Fate.DRIFTED


def wanted_configs(flow: Flow, source: Topic, *, untiered: bool = False) -> dict[str, str]:
    """The configs that should be set on the remote topic of ``source``: its own, or what the flow says.

    Args:
        flow: the flow.
        source: the source's topic.
        untiered: whether the target refuses tiered storage for the remote topic: then only the flow says so.
    """
    tiers = source.is_tiered and not untiered
    names = source.overrides | source.dynamic
    if flow.use_defaults_from == "source":
        names |= source.defaults
    synced = {name: source.configs[name] for name in names if follows_source(flow, name, tiers)}
    configured = flow.configs_of(source.name)
    wanted = {**synced, **configured}
    # Brokers refuse a local retention above the whole one; without it, the two are the same.
    too_long = {name for name in synced.keys() - configured.keys() if _is_too_long(name, wanted)}
    return {name: wanted[name] for name in sorted(wanted.keys() - too_long)}


def _is_too_long(name: str, configs: Mapping[str, str]) -> bool:
    """Whether a config is a local retention above the whole topic's; what is no number is left to the brokers."""
    try:
        local, whole = (int(configs[key]) for key in (name, _WHOLE[name]))
    except (KeyError, ValueError):
        return False
    return local > whole != _UNLIMITED


def sync_configs(
    flow: Flow, pair: Pair, applied: Applied
) -> Iterator[ConfigChange | Drift | SetConfigs]:
    """What is to be done about the configs of a remote topic that exists.

    Args:
        flow: the flow.
        pair: the topic; it is on both clusters.
        applied: what the flow has set so far.
    """
    source, remote = pair.source, pair.remote
    if source is None or remote is None or not flow.sync_topic_configs_enabled:
        return
    wanted = wanted_configs(flow, source, untiered=pair.untiered)
    # A topic that the flow was about to create when it died has no id in the ledger yet.
    key = config_key(remote)
    before = dict(applied.configs.get(key, applied.creations.get(remote.name, {})))
    pending = applied.pending.get(key, {})
    configured = flow.configs_of(source.name)
    tiers = source.is_tiered and not pair.untiered

    def is_synced(name: str) -> bool:
        return name in configured or follows_source(flow, name, tiers)

    current = {name: remote.configs[name] for name in remote.overrides if is_synced(name)}
    after: dict[str, str | None] = {}
    changes: list[ConfigChange] = []
    for name in sorted(wanted.keys() | current.keys() | before.keys()):
        if not is_synced(name):
            continue
        want, has, last = wanted.get(name), current.get(name), before.get(name)
        fate = fate_of(want, {last, pending.get(name, last)}, has)
        overwritten = fate is Fate.DRIFTED and flow.on_config_drift == "overwrite"
        if fate is Fate.DRIFTED:
            yield Drift(pair.topic, remote.name, name, want, has, overwritten)
        if fate is Fate.CHANGED or overwritten:
            changes.append(ConfigChange(pair.topic, remote.name, name, want, has))
        after[name] = last if fate is Fate.DRIFTED and not overwritten else want
    configs = {name: value for name, value in after.items() if value is not None}
    yield from changes
    if changes or pending or key not in applied.configs or configs != before:
        yield SetConfigs(remote.name, key, configs, before)


def config_key(remote: Topic) -> str:
    """The ledger's key of a remote topic's configs: its id, or its name where brokers give no id."""
    return remote.topic_id or remote.name


def refused_values(
    values: Mapping[str, _Value],
    ask: Callable[[Mapping[str, _Value]], _Error | None],
    suspects: Collection[str] = (),
) -> dict[str, _Error]:
    """Which configs a broker refuses, each with its error about that one; the others it takes together.

    Brokers name no config in their errors, except in words. So this asks for all, then for halves, down to single
    ones: about 2 log2(n) times for each that is refused.

    Args:
        values: the configs by name.
        ask: the broker's error if it should set these, None if it would; it sets nothing.
        suspects: those that are asked for alone at once, since the broker has refused them elsewhere.
    """
    taken: dict[str, _Value] = {}
    refused: dict[str, _Error] = {}

    def try_(names: Sequence[str]) -> None:
        some = {name: values[name] for name in names}
        error = ask({**taken, **some})
        if error is None:
            taken.update(some)
        elif len(names) == 1:
            refused[names[0]] = error
        else:
            middle = len(names) // 2
            try_(names[:middle])
            try_(names[middle:])

    for names in (sorted(values.keys() - suspects), *([name] for name in sorted(suspects))):
        if names:
            try_(names)
    return refused


def is_of_tiers(name: str) -> bool:
    """Whether a config is of tiered storage (KIP-405), which is a matter of the cluster more than of the topic."""
    return name.startswith(("remote.", "local.retention."))


def no_tiers(alias: str) -> str:
    """The sentence about a target that refuses tiered storage."""
    return (
        f"{alias} has no tiered storage for its topics: their configs of it are left out, and the brokers' own disks "
        "need room for all that retention keeps."
    )


def follows_source(flow: Flow, name: str, tiers: bool) -> bool:
    """Whether remote topics take a config over from the source's.

    Args:
        flow: the flow.
        name: the config.
        tiers: whether the target has tiered storage for its topics.
    """
    if is_of_tiers(name) and not tiers:
        return False
    return name not in NEVER and not _exclusions(flow.config_properties_exclude).fullmatch(name)


@lru_cache(maxsize=32)
def _exclusions(patterns: tuple[str, ...]) -> NamePatterns:
    return compile_patterns(patterns or ("(?!)",))
