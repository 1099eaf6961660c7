"""Creates remote topics with their configs, and changes configs; the ledger has each change in advance.

The order of events, with how the next run sees a crash after each:

1. the ledger says what is about to be set, and what was set before: whichever of the two is found
   on the topic, the flow has set it;
2. topics are created and configs changed: as after 1;
3. both are read back, and the ledger says what is set: any other value is drift from now on.

A config that the target refuses is left out: the topic is created, and its other configs are changed, without
it. Which it refuses, the target is asked.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from kafka_ferry.clock import now_ms
from kafka_ferry.control import ClusterControl
from kafka_ferry.control.cluster import exists_already
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger import AppliedEntry, append_entry
from kafka_ferry.model import Plan, Topic
from kafka_ferry.model.changes import ConfigChange
from kafka_ferry.model.plan import Creation, TopicChanges
from kafka_ferry.plan.topics.configs import (
    config_key,
)
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.runs.sync_topics.config_failures import ConfigFailures
from kafka_ferry.runs.sync_topics.siblings import topics_of_siblings
from kafka_ferry.wire import connect
from kafka_ferry.wire.any_broker import unknown_everywhere

# Keeps a ledger record, with all configs of each topic, far below max.message.bytes.
_TOPICS_AT_ONCE: Final = 200
_CREATED_SINCE: Final = FerryError(
    "another client has created it since the run was planned.",
    advice="The next run looks at what is in it.",
)
_GONE_SINCE: Final = FerryError(
    "it was created since the run was planned, and deleted again.",
    advice="The next run plans what is to be there.",
)
_TIME: Final = "message.timestamp.type"
# A broker learns of the controller's changes a moment later.
_PAUSES_S: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


@dataclass
class ConfigChanges:
    """Applies a plan's configs to the target; each step may be repeated.

    Attributes:
        run: the run; the ledger's topic exists.
        target: the target.
        plan: the plan.
        changes: what it changes about topics, without what a newer run has changed.
        failures: what could not be set.
        confirmed: the topics that were created or changed, as they were read back.
        announced: those that are to be created, and that an earlier attempt, or another run, may have created.
    """

    run: RunContext
    target: ClusterControl
    plan: Plan
    changes: TopicChanges = field(init=False)
    failures: ConfigFailures = field(init=False)
    confirmed: dict[str, Topic] = field(default_factory=dict)
    announced: Collection[str] = ()
    _gone: Collection[str] = ()
    _overtaken: frozenset[str] = frozenset()
    _ours: Mapping[str, Collection[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.changes = self.plan.topics
        sources = {choice.remote_topic: choice.topic for choice in self.plan.choices}
        self.failures = ConfigFailures(self.run.flow, sources)

    def announce(self) -> None:
        """Record in the ledger what is about to be set, and what the flow had set before."""
        self._leave_to_newer_runs()
        if self.changes.config_changes:
            self._ours = self._own_configs()
        if self.changes.creations:
            # An earlier attempt of this run may have created them.
            creators = self.run.ledger.creators()
            earlier = {name for name, runs in creators.items() if self.plan.run in runs}
            self.announced = earlier | self._new_topics()
            self._leave_out_gone_topics()
        before: dict[str, dict[str, str | None]] = defaultdict(dict)
        for change in self.changes.config_changes:
            # A value that another client set does not become the flow's by being overwritten.
            if (change.remote_topic, change.name) not in self._overwritten:
                before[change.remote_topic][change.name] = change.before
        sets = self.changes.set_configs
        self._append(
            configs={planned.remote_topic_id: dict(planned.configs) for planned in sets},
            pending={
                planned.remote_topic_id: before.get(planned.remote_topic, {}) for planned in sets
            },
            creations={
                planned.remote_topic: dict(planned.configs) for planned in self.changes.creations
            },
        )

    def _new_topics(self) -> set[str]:
        """The remote topics that a run of the flow has created, and which are there still."""
        names = self.run.ledger.topics_created_since(self.plan.ledger_end)
        if not names:
            return set()
        marks, ids = self.run.ledger.marks(), self.target.topic_ids(names)
        return {name for name in names & ids.keys() if ids[name] == marks[name].remote_topic_id}

    def _leave_out_gone_topics(self) -> None:
        """Leave out remote topics that a run of the flow has created since the plan, and that no broker has any more.

        Of a plan that is repeated after a copy was given up, the partitions would be those of an earlier topic.
        """
        created = self.run.ledger.topics_created_since(self.plan.ledger_end)
        created &= {creation.remote_topic for creation in self.changes.creations}
        if created:
            with connect(self.run.flow.target) as cluster:
                self._gone = unknown_everywhere(cluster, created)
        left = (it for it in self.changes.creations if it.remote_topic not in self._gone)
        self.changes = replace(self.changes, creations=tuple(left))

    def _own_configs(self) -> dict[str, set[str]]:
        """By remote topic's id, the configs that the flow has set there, or was about to, by its ledger."""
        applied = self.run.ledger.applied()
        return {
            planned.remote_topic_id: {
                *applied.configs.get(planned.remote_topic_id, ()),
                *applied.pending.get(planned.remote_topic_id, ()),
                *applied.creations.get(planned.remote_topic, ()),
            }
            for planned in self.changes.set_configs
        }

    def create(self) -> dict[str, FerryError]:
        """Create topics with their configs.

        Returns:
            An error for each that could not be created, that another client has created meanwhile, or that is gone
            since the flow has created it.
        """
        new = {planned.remote_topic for planned in self.changes.creations} - {*self.announced}
        errors = dict.fromkeys(self._gone, _GONE_SINCE)
        left = list(self.changes.creations)
        while left:
            failed, again = self.target.create_topics(left, must_be_new=new), []
            existing = [name for name, error in failed.items() if exists_already(error)]
            for name in topics_of_siblings(self.run, self.plan, existing):
                del failed[name]
            for creation in left:
                name = creation.remote_topic
                if name not in failed:
                    continue
                ask = partial(self._creation_error, creation)
                refused = self.failures.leave_out(name, creation.configs, failed[name], ask)
                if refused:
                    configs = {k: v for k, v in creation.configs.items() if k not in refused}
                    again.append(replace(creation, configs=configs))
                else:
                    errors[name] = _CREATED_SINCE if exists_already(failed[name]) else failed[name]
            left = again
        return errors

    def alter(self) -> None:
        """Change the configs of topics that existed before."""
        left: dict[str, list[ConfigChange]] = defaultdict(list)
        for change in self.changes.config_changes:
            left[change.remote_topic].append(change)
        left = self._pending_changes(left)
        while left:
            failed, again = self.target.alter_configs(left), {}
            for name, error in failed.items():
                values = {change.name: change for change in left[name]}
                ask = partial(self._alteration_error, name)
                refused = self.failures.leave_out(name, values, error, ask)
                rest = [change for change in left[name] if change.name not in refused]
                if refused and rest:
                    again[name] = rest
                elif not refused:
                    self.failures.add_all(name, values, error)
            left = again

    def confirm(self, without: Collection[str]) -> dict[str, FerryError]:
        """Read the configs back, and record them in the ledger.

        Args:
            without: remote topics that could not be created.

        Returns:
            An error for each new topic that would not keep the records' times.
        """
        created = {
            new_topic.remote_topic: new_topic
            for new_topic in self.changes.creations
            if new_topic.remote_topic not in without
        }
        expected: dict[str, dict[str, str | None]] = {
            name: dict(creation.configs) for name, creation in created.items()
        }
        for change in self.changes.config_changes:
            expected.setdefault(change.remote_topic, {})[change.name] = change.value
        self.confirmed = confirmed = self._read_back(expected)
        errors = self._keep_times(confirmed[name] for name in created if name in confirmed)
        configs = {
            config_key(confirmed[name]): self._settled_configs(name, creation.configs, {})
            for name, creation in created.items()
            if name in confirmed and config_key(confirmed[name]) not in self._overtaken
        }
        for sets in self.changes.set_configs:
            if sets.remote_topic in expected:
                before = {
                    change.name: change.before
                    for change in self.changes.config_changes
                    if change.remote_topic == sets.remote_topic
                    and (change.remote_topic, change.name) not in self._overwritten
                }
                configs[sets.remote_topic_id] = self._settled_configs(
                    sets.remote_topic, sets.configs, {**sets.before, **before}
                )
        planned = (
            without | created.keys() | {sets.remote_topic for sets in self.changes.set_configs}
        )
        announced = self.run.ledger.applied().creations.keys() & planned
        self._append(configs=configs, creations=dict.fromkeys(announced))
        return errors

    def _keep_times(self, created: Iterable[Topic]) -> dict[str, FerryError]:
        """Have new topics keep the records' times where the target's default is to replace them."""
        changes = {
            topic.name: [ConfigChange(topic.name, topic.name, _TIME, "CreateTime", before=None)]
            for topic in created
            if topic.stamps_append_time
        }
        errors = self.target.alter_configs(changes) if changes else {}
        self._read_back({name: {_TIME: "CreateTime"} for name in changes if name not in errors})
        return errors

    def _settled_configs(
        self, remote_topic: str, wanted: Mapping[str, str], before: Mapping[str, str | None]
    ) -> dict[str, str]:
        """What the flow has set on a topic: all that it wanted, except failures."""
        failed = self.failures.of(remote_topic)
        settled = {**wanted, **{name: before.get(name) for name in failed}}
        return {name: value for name, value in settled.items() if value is not None}

    def _leave_to_newer_runs(self) -> None:
        """Leave out topics that another run has recorded since this one was planned.

        A step that is repeated later would otherwise record old values as the newest.
        """
        if not (self.changes.set_configs or self.changes.creations):
            return
        self.run.project_ledger()
        self._overtaken = self.run.ledger.configs_since(self.plan.ledger_end, but_by=self.plan.run)
        names = {
            planned.remote_topic
            for planned in self.changes.set_configs
            if planned.remote_topic_id in self._overtaken
        }
        for change in self.changes.config_changes:
            if change.remote_topic in names:
                self.failures.add(change, "a newer run has changed configs there.")
        self.changes = replace(
            self.changes,
            config_changes=tuple(
                planned
                for planned in self.changes.config_changes
                if planned.remote_topic not in names
            ),
            set_configs=tuple(
                planned for planned in self.changes.set_configs if planned.remote_topic not in names
            ),
        )

    def _append(
        self,
        *,
        configs: Mapping[str, dict[str, str]],
        creations: Mapping[str, dict[str, str] | None],
        pending: Mapping[str, dict[str, str | None]] | None = None,
    ) -> None:
        """Append entries to the ledger, each for a limited number of topics; none if there are no topics."""
        before = pending or {}
        ids, names = sorted(configs), sorted(creations)
        for first in range(0, max(len(ids), len(names)), _TOPICS_AT_ONCE):
            some = slice(first, first + _TOPICS_AT_ONCE)
            entry = AppliedEntry(
                flow=self.run.flow.name,
                run=self.plan.run,
                at=now_ms(),
                configs={key: configs[key] for key in ids[some]},
                pending={key: before[key] for key in ids[some] if before.get(key)},
                creations={name: creations[name] for name in names[some]},
                source_cluster_id=self.plan.source_cluster_id,
            )
            append_entry(self.run.flow, entry)

    def _pending_changes(
        self, changes: Mapping[str, Sequence[ConfigChange]]
    ) -> dict[str, list[ConfigChange]]:
        """The changes that are still to be made: a plan may be hours old when it is approved."""
        topics = self.target.topics(changes) if changes else {}
        left = defaultdict(list)
        ids = {
            planned.remote_topic: planned.remote_topic_id for planned in self.changes.set_configs
        }
        for name, of_topic in changes.items():
            topic = topics.get(name)
            if topic is None or config_key(topic) != ids.get(name):
                for change in of_topic:
                    self.failures.add(change, "the topic was deleted since the run was planned.")
                continue
            for change in of_topic:
                has = _value(topic, change.name)
                may_unset = (name, change.name) in self._overwritten
                may_unset |= change.name in self._ours.get(ids[name], ())
                if change.value is None and not may_unset:
                    self.failures.add(change, "the ledger does not say that the flow has set it.")
                elif has == change.before:
                    left[name].append(change)
                elif has != change.value:
                    self.failures.add(
                        change,
                        "another client has changed it since the run was planned. The next run compares again.",
                    )
        return left

    def _creation_error(self, creation: Creation, configs: Mapping[str, str]) -> FerryError | None:
        """The target's error if it should create a topic with other configs."""
        errors = self.target.create_topics([replace(creation, configs=configs)], validate_only=True)
        return errors.get(creation.remote_topic)

    def _alteration_error(
        self, remote_topic: str, changes: Mapping[str, ConfigChange]
    ) -> FerryError | None:
        """The target's error if it should make only some changes."""
        some = {remote_topic: list(changes.values())}
        return self.target.alter_configs(some, validate_only=True).get(remote_topic)

    @property
    def _overwritten(self) -> set[tuple[str, str]]:
        """The configs of remote topics that another client has set, and ``on.config.drift`` overwrites."""
        drifts = (drift for drift in self.changes.drifts if drift.overwritten)
        return {(drift.remote_topic, drift.name) for drift in drifts}

    def _read_back(self, expected: Mapping[str, Mapping[str, str | None]]) -> dict[str, Topic]:
        """The topics, once the brokers show what was set; configs that still differ are failures."""
        topics: dict[str, Topic] = {}
        unlike: dict[str, dict[str, str]] = {}
        for pause_s in _PAUSES_S if expected else ():
            topics = self.target.topics(expected)
            expected = {
                name: configs
                for name, configs in expected.items()
                if name not in topics or config_key(topics[name]) not in self._overtaken
            }
            unlike = {
                name: self._unlike(name, topics.get(name), expected[name]) for name in expected
            }
            if not any(unlike.values()):
                return topics
            time.sleep(pause_s)
        for name in topics:
            self.failures.of(name).update(unlike[name])
        return topics

    def _unlike(
        self, remote_topic: str, topic: Topic | None, expected: Mapping[str, str | None]
    ) -> dict[str, str]:
        """The configs that differ from the plan, except known failures."""
        known = self.failures.of(remote_topic)
        return {
            name: f"{remote_topic}: {name} should be {'unset' if value is None else value} by now, and "
            "is not. The next run compares again."
            for name, value in expected.items()
            if name not in known and (topic is None or _value(topic, name) != value)
        }


def _value(topic: Topic, name: str) -> str | None:
    return topic.configs.get(name) if name in topic.overrides else None
