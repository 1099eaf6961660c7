"""A flow: everything that says what is copied from which cluster to which, and when.

Each option is defined once, with its name in files (the alias), its type, default and description.
Where MirrorMaker 2 has an option with that meaning, the name is MirrorMaker 2's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import regex
from pydantic import Field, ValidationInfo, field_validator, model_validator

from kafka_ferry.config.client.cluster import Cluster
from kafka_ferry.config.options.audit import AuditOptions
from kafka_ferry.config.options.backfill import BackfillOptions
from kafka_ferry.config.options.base import CodePath, Options, StateStore
from kafka_ferry.config.options.certificates import CertificateOptions
from kafka_ferry.config.options.copy import CopyOptions
from kafka_ferry.config.options.groups import GroupOptions
from kafka_ferry.config.options.metrics import MetricsOptions
from kafka_ferry.config.options.notify import NotifyOptions
from kafka_ferry.config.options.on_events import PolicyOptions
from kafka_ferry.config.options.schedule import ScheduleOptions
from kafka_ferry.config.options.schemas import SchemaOptions
from kafka_ferry.config.options.sync import SyncOptions
from kafka_ferry.config.options.topics import TopicOptions
from kafka_ferry.config.options.transform import TransformOptions, TransformRule
from kafka_ferry.config.options.verify import VerifyOptions
from kafka_ferry.config.types.home import at_home
from kafka_ferry.config.types.name_filter import NameFilter
from kafka_ferry.config.types.problems import (
    NAME_PATTERN,
    Problem,
    did_you_mean,
    problems_error,
)
from kafka_ferry.config.types.values import Number, TopicPatterns, Truth, is_topic_name

__all__ = [
    "OPTIONS",
    "Cluster",
    "Flow",
    "is_policy_setting",
    "misplaced_setting",
    "names_of",
]

MAY_BE_ONE_CLUSTER: Final = "may be one cluster"
"""In the context of a validation: source and target may be the same brokers, since nothing is copied."""
_POLICIES: Final = ("DefaultReplicationPolicy", "IdentityReplicationPolicy")
_POLICY_SETTING: Final = "replication.policy."
_POLICY_PACKAGE: Final = "org.apache.kafka.connect.mirror."
_PYTHON_CLASS: Final = regex.compile(r"(?!org\.apache\.)[^\W\d]\w*(\.[^\W\d]\w*)+")


class Flow(
    CopyOptions,
    TopicOptions,
    TransformOptions,
    SchemaOptions,
    ScheduleOptions,
    BackfillOptions,
    SyncOptions,
    GroupOptions,
    PolicyOptions,
    VerifyOptions,
    AuditOptions,
    CertificateOptions,
    MetricsOptions,
    NotifyOptions,
):
    """One source cluster, one target cluster, and how topics are copied between them."""

    source: Cluster = Field(description="The cluster to copy from.")
    target: Cluster = Field(description="The cluster to copy to.")
    enabled: Truth = Field(default=True, description="Whether the flow runs at all.")
    topics: TopicPatterns = Field(
        default=(".*",),
        description="Names or Java regular expressions of the topics to copy.",
    )
    topics_exclude: TopicPatterns = Field(
        default=(
            r"mm2.*\.internal",
            r".*\.replica",
            "__.*",
            r"ferry-ledger\..*\.internal",
            r"ferry-dead-letter\..*\.internal",
        ),
        description="Names or Java regular expressions of topics to leave out; wins over topics.",
    )
    topics_optional: TopicPatterns = Field(
        default=(),
        description="Which of the topics may be missing on the source: names, or Java regular expressions "
        "of names. A name in topics that is missing there is refused, and so is a flow without any "
        "topic on the source; repeat a pattern of topics here, unchanged, if it may match nothing.",
    )
    replication_policy_class: CodePath = Field(
        default="DefaultReplicationPolicy",
        description="How topics are named on the target: DefaultReplicationPolicy puts the "
        "source's alias before the name, IdentityReplicationPolicy keeps the name. "
        "MirrorMaker 2's full class names are accepted too, and a Python class by its dotted name, "
        "such as company.naming.ByTeam, which extends kafka_ferry.plan.topics.replication_policy.ReplicationPolicy.",
    )
    replication_policy_separator: str = Field(
        default=".",
        pattern=NAME_PATTERN,
        description="The separator between the source's alias and the topic's name.",
    )
    replication_factor: Number = Field(
        default=2,
        ge=-1,
        le=32767,
        description="Replicas of each topic created on the target; -1 takes the brokers' default.",
    )
    state_dir: StateStore = Field(
        default=".ferry",
        min_length=1,
        description="Folder or object store for state that can be rebuilt from the target: Spark's "
        "checkpoint and the ledger's table. Relative to FERRY_HOME; without that "
        "variable, to the folder of the flow's file, or for a file in include/configs to the folder that has include.",
    )
    policy_settings: tuple[tuple[str, str], ...] = Field(
        default=(),
        alias="policy_settings",
        description="Further keys that begin with replication.policy., for your own policy.",
    )
    file: str = Field(default="", description="The file that the flow was read from.")
    ignored: tuple[tuple[str, str], ...] = Field(
        default=(),
        description="Keys of MirrorMaker 2 in that file that have no effect here, each with the reason.",
    )
    is_waited_for: bool = Field(
        default=False,
        description="Whether a person waits for what is done by it, and no quota of a broker is to hold that up.",
    )

    @field_validator("state_dir")
    @classmethod
    def _is_a_place(cls, folder: str) -> str:
        if "$" in folder:
            raise ValueError("must be a path as it is: no variable is looked up in it")
        if "://" in folder and "@" in folder.partition("://")[2].partition("/")[0]:
            raise ValueError(
                "must not hold a user's name, key or secret, since it is shown: use the object store's own "
                "variables and files, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        return folder

    @field_validator("replication_policy_class", mode="before")
    @classmethod
    def _short_class_name(cls, value: Any) -> Any:
        name = value.removeprefix(_POLICY_PACKAGE) if isinstance(value, str) else ""
        if name in _POLICIES or _PYTHON_CLASS.fullmatch(name):
            return name
        full = (f"{_POLICY_PACKAGE}{policy}" for policy in _POLICIES)
        listed = ", ".join((*_POLICIES, *full))
        raise ValueError(f"must be one of {listed}, or a Python class by its dotted name")

    def replicas_of(self, topic: str) -> int:
        """The replicas of the remote topic of a topic of the source; -1 for the brokers' default."""
        placed = sum(self.placement_of(topic).values())
        return placed or self.topics_replication_factor.of(topic) or self.replication_factor

    def partitions_of(self, topic: str, partitions: int) -> int:
        """The partitions that the remote topic of a topic of the source, which has ``partitions``, is to have."""
        return max(partitions, self.topics_partitions.of(topic) or 0)

    @field_validator("replication_factor")
    @classmethod
    def _replicas_or_default(cls, factor: int) -> int:
        if factor == 0:
            raise ValueError("must be at least 1, or -1 for the brokers' default")
        return factor

    @field_validator("target")
    @classmethod
    def _another_cluster(cls, target: Cluster, info: ValidationInfo) -> Cluster:
        source = info.data.get("source")
        if source is not None and source.alias == target.alias:
            raise problems_error([Problem("alias", "must be an alias other than the source's")])
        may_be_one = info.context is not None and info.context.get(MAY_BE_ONE_CLUSTER)
        if source is not None and not may_be_one and (shared := source.brokers & target.brokers):
            reason = (
                f"names {min(shared)}, as the source does: a cluster is never mirrored into itself"
            )
            advice = "Correct the one that is wrong."
            raise problems_error([Problem("bootstrap.servers", reason, advice)])
        return target

    @model_validator(mode="after")
    def _leaves_some(self) -> Flow:
        """Refuses a flow that can copy nothing, and groups of which none can move."""
        problems = [
            Problem(
                f"{chosen}.exclude", f"leaves out all that {chosen} names: {', '.join(names[:3])}"
            )
            for chosen, names, exclude, selects in (
                ("topics", self.topics, frozenset(self.topics_exclude), self.topic_filter),
                ("groups", self.groups, frozenset(self.groups_exclude), self.group_filter),
            )
            if names and all(_is_excluded(name, exclude, selects) for name in names)
        ]
        if not self.topics and not self.heartbeats_replication_enabled:
            problems.append(Problem("topics", "must name a topic, or any of them: '.*'"))
        if problems:
            raise problems_error(problems)
        return self

    @model_validator(mode="after")
    def _knows_the_registries(self) -> Flow:
        lacking = [
            cluster.alias for cluster in (self.source, self.target) if not cluster.has_registry
        ]
        problems = []
        if self.sync_schemas != "none" and lacking:
            needs = "needs schema.registry.url of both clusters"
            problems.append(Problem("sync.schemas", f"{needs}: {' and '.join(lacking)} has none"))
        if not self.source.has_registry:
            needs = "needs schema.registry.url of the source"
            problems += [
                Problem(
                    f"transform.{place}.format", f"{form} {needs}: {self.source.alias} has none"
                )
                for place, rule in enumerate(self.transform)
                for form in rule.registry_formats
            ]
        if problems:
            raise problems_error(problems)
        return self

    @property
    def name(self) -> str:
        """``source->target``, as MirrorMaker 2 writes it."""
        return names_of(self.source.alias, self.target.alias)[0]

    @property
    def short_file(self) -> str:
        """The flow's file with only its folder's name: the path before that changes with each checkout."""
        return "/".join(Path(self.file).parts[-2:])

    @property
    def slug(self) -> str:
        """``source_to_target``: the name where ``->`` cannot stand (DAGs, folders)."""
        return names_of(self.source.alias, self.target.alias)[1]

    @property
    def topic_filter(self) -> NameFilter:
        """The topics that the flow copies."""
        return NameFilter(self.topics, self.topics_exclude, file=self.file)

    @property
    def group_filter(self) -> NameFilter:
        """The groups whose offsets the flow translates."""
        return NameFilter(
            self.groups,
            self.groups_exclude,
            file=self.file,
            include_key="groups",
            exclude_key="groups.exclude",
            any_text=True,
        )

    @property
    def dead_letter_name(self) -> str:
        """The target's topic for records that their remote topic rejects."""
        return self.dead_letter_topic or f"ferry-dead-letter.{self.source.alias}.internal"

    @property
    def sets_records_aside(self) -> bool:
        """Whether records may go to the dead letter topic."""
        failed = self.on_transform_error if self.transform else ""
        unknown = self.on_unknown_schema if self.sync_schemas == "translate-ids" else ""
        return "dead-letter" in (self.on_rejected_record, failed, unknown)

    @property
    def state_path(self) -> str:
        """The state folder: an absolute path, or a URL such as ``s3://bucket/ferry`` as it is."""
        if "://" in self.state_dir:
            return self.state_dir
        return str(at_home(self.state_dir, self.file))

    def fingerprint_of(self, topic: str) -> str:
        """The fingerprint of a topic's rule; "" where its records stay as they are."""
        rule = self.transform_of(topic)
        return self.rule_fingerprint(rule) if rule else ""

    def rule_fingerprint(self, rule: TransformRule) -> str:
        """A rule's fingerprint, which changes with the file of its function too."""
        if not rule.function:
            return rule.fingerprint()
        file = self.function_file(rule.function)
        # Where it is missing, loading the function says so.
        return rule.fingerprint(file.read_bytes() if file.is_file() else b"")

    def function_file(self, function: str) -> Path:
        """The file of a function: ``masks.by_country`` is in ``masks.py``."""
        module, _, _ = function.rpartition(".")
        return at_home(f"{self.transform_functions}/{module.replace('.', '/')}.py", self.file)


def _is_excluded(pattern: str, exclude: frozenset[str], selects: NameFilter) -> bool:
    """Whether a pattern can be seen to select nothing: only of names and of the same patterns is that known."""
    if pattern in exclude or ".*" in exclude:
        return True
    return is_topic_name(pattern) and not selects.matches(pattern)


def names_of(source: str, target: str) -> tuple[str, str]:
    """Name and slug of the flow between two aliases; no other flow has either of them.

    Where an alias has ``_to_`` itself, the slug says where the first one ends: ``a_to_b_to_c.6`` is of
    ``a_to_b->c``, ``a_to_b_to_c.1`` of ``a->b_to_c``.
    """
    slug = f"{source}_to_{target}"
    is_ambiguous = slug.find("_to_") != slug.rfind("_to_")
    return f"{source}->{target}", f"{slug}.{len(source)}" if is_ambiguous else slug


def is_policy_setting(name: str) -> bool:
    """Whether only a user's own replication policy can know a key."""
    return name.startswith(_POLICY_SETTING) and name not in OPTIONS


def misplaced_setting(key: str, name: str, policy: object) -> Problem | None:
    """What is wrong with a setting of a built-in policy, which reads no settings."""
    if str(policy).removeprefix(_POLICY_PACKAGE) not in _POLICIES:
        return None
    reason = "is not an option, and only your own policy reads further settings"
    return Problem(key, reason, did_you_mean(name, OPTIONS))


def _group(name: str) -> int:
    """The place of an option's group: pydantic lists inherited fields before a class's own."""
    groups = (group for group in Flow.__bases__ if issubclass(group, Options))
    return next((at for at, group in enumerate(groups, 1) if name in group.model_fields), 0)


OPTIONS: Final[tuple[str, ...]] = tuple(
    Flow.model_fields[name].alias or name
    for name in sorted(Flow.model_fields, key=_group)
    if name not in {"source", "target", "policy_settings", "file", "ignored", "is_waited_for"}
)
"""The names of all options of a flow, as in files."""
